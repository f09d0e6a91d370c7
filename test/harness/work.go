package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// taskEnv makes this test binary a task of a job. Its value is the task's name in the arena.
const taskEnv = "E2E_TASK"

// Work describes a task in its environment.
type Work struct {
	Arena  string
	Name   string
	Gate   string // it writes until this file is in the arena; if empty, only Bytes bounds it
	Bytes  int64  // it writes at least this many
	Block  int    // in one write
	Pause  time.Duration
	Stay   bool // it ignores SIGTERM
	Fail   int  // number of first attempts that exit with 1
	Stream string
}

// Environment returns the environment that makes a job's process do the work.
func (w Work) Environment() map[string]string {
	return map[string]string{
		taskEnv: w.Name, "E2E_ARENA": w.Arena, "E2E_GATE": w.Gate, "E2E_BYTES": strconv.FormatInt(w.Bytes, 10), "E2E_BLOCK": strconv.Itoa(w.Block),
		"E2E_PAUSE": w.Pause.String(), "E2E_STAY": strconv.FormatBool(w.Stay), "E2E_FAIL": strconv.Itoa(w.Fail), "E2E_STREAM": w.Stream,
	}
}

// Spec returns a job with one task that does the work.
func (w Work) Spec(retries int) map[string]any {
	task := map[string]any{"key": "work", "command": "exec " + taskProgram(), "max_retries": retries}
	return map[string]any{"name": w.Name, "environment": w.Environment(), "tasks": []any{task}}
}

func workFromEnvironment(name string) Work {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(key), 10, 64)
		return n
	}
	pause, _ := time.ParseDuration(os.Getenv("E2E_PAUSE"))
	return Work{
		Arena: os.Getenv("E2E_ARENA"), Name: name, Gate: os.Getenv("E2E_GATE"), Bytes: number("E2E_BYTES"), Block: int(number("E2E_BLOCK")),
		Pause: pause, Stay: os.Getenv("E2E_STAY") == "true", Fail: int(number("E2E_FAIL")), Stream: os.Getenv("E2E_STREAM"),
	}
}

// Event is a line of the record that a task's attempts write in the arena.
type Event struct {
	Kind    string // start, term, end or overlap
	Attempt string
	Number  string
	Bytes   int64
	SHA256  string
}

// runTask is the process of an attempt. It holds a lock for its whole life, so two attempts at the
// same time are detected.
func runTask(name string) int {
	w := workFromEnvironment(name)
	lock, err := os.OpenFile(w.path("lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	_ = lock.Chmod(0o666) // the next attempt is another user; only the owner can do this
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		w.record("overlap", 0, "")
		return 97
	}
	if w.Stay {
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		go func() {
			for range term {
				w.record("term", 0, "")
			}
		}()
	}
	if err := os.WriteFile(w.path("token."+os.Getenv("MILLPOND_ATTEMPT")), []byte(os.Getenv("MILLPOND_TOKEN")), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	w.record("start", 0, "")
	n, sum, err := w.write(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	w.record("end", n, sum)
	if number, _ := strconv.Atoi(os.Getenv("MILLPOND_ATTEMPT")); number <= w.Fail {
		return 1
	}
	return 0
}

func (w Work) path(kind string) string { return filepath.Join(w.Arena, w.Name+"."+kind) }

func (w Work) open() bool {
	if w.Gate == "" {
		return true
	}
	_, err := os.Stat(filepath.Join(w.Arena, w.Gate))
	return err == nil
}

// write writes the stream, and records its progress after each block.
func (w Work) write(out io.Writer) (n int64, sum string, err error) {
	source, hashed := NewStream(w.Stream, w.Name), sha256.New()
	block := make([]byte, max(w.Block, 1))
	pace := time.NewTicker(max(w.Pause, time.Microsecond))
	defer pace.Stop()
	written, err := os.Create(w.path("written." + os.Getenv("MILLPOND_ATTEMPT")))
	if err != nil {
		return 0, "", err
	}
	defer written.Close()
	for n < w.Bytes || !w.open() {
		if w.Block > 0 {
			if _, err := io.ReadFull(source, block); err != nil {
				return n, "", err
			}
			if _, err := out.Write(block); err != nil {
				return n, "", err
			}
			hashed.Write(block)
			n += int64(len(block))
		}
		if w.Pause > 0 {
			<-pace.C
			if _, err := fmt.Fprintf(io.NewOffsetWriter(written, 0), "%020d", n); err != nil { // fixed width, in place: readers may come at any time
				return n, "", err
			}
		}
	}
	return n, hex.EncodeToString(hashed.Sum(nil)), nil
}

func (w Work) record(kind string, n int64, sum string) {
	line, _ := json.Marshal(Event{kind, os.Getenv("MILLPOND_ATTEMPT_ID"), os.Getenv("MILLPOND_ATTEMPT"), n, sum})
	f, err := os.OpenFile(w.path("events"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
	_ = f.Chmod(0o666)
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// Events returns the events that the task's attempts have recorded so far.
func (w Work) Events(t testing.TB, kind string) (found []Event) {
	t.Helper()
	f, err := os.Open(w.path("events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// Written returns how many bytes the attempt's process has certainly written.
func (w Work) Written(number int) int64 {
	b, _ := os.ReadFile(w.path(fmt.Sprintf("written.%d", number)))
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// Token returns the platform token of the attempt's process.
func (w Work) Token(t testing.TB, number int) string {
	t.Helper()
	b, err := os.ReadFile(w.path(fmt.Sprintf("token.%d", number)))
	require.NoError(t, err)
	return string(b)
}

// Release opens the gate.
func (w Work) Release(t testing.TB) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.Arena, w.Gate), nil, 0o644))
}

// RequireOneAtATime requires that no two attempts overlapped and that each started once.
func (w Work) RequireOneAtATime(t testing.TB) {
	t.Helper()
	require.Empty(t, w.Events(t, "overlap"), "two attempts ran at the same time")
	started := map[string]int{}
	for _, e := range w.Events(t, "start") {
		started[e.Attempt]++
		require.Equal(t, 1, started[e.Attempt], "the attempt %s was started twice", e.Attempt)
	}
}

// NewStream returns a task's bytes, which its name determines. binary is random bytes. mixed
// alternates them with text lines in several scripts, so that chunks end inside runes, inside lines
// and between lines. line never ends its line.
func NewStream(kind, name string) io.Reader {
	random := rand.NewChaCha8(sha256.Sum256([]byte(name)))
	switch kind {
	case "binary":
		return random
	case "line":
		return endless{random}
	}
	return &mixed{random: random}
}

// endless yields letters without a line end.
type endless struct{ random io.Reader }

// Read implements io.Reader.
func (e endless) Read(p []byte) (int, error) {
	n, err := e.random.Read(p)
	for i := range p[:n] {
		p[i] = 'a' + p[i]%26
	}
	return n, err
}

const mixedBlock = 3000

type mixed struct {
	random *rand.ChaCha8
	block  int
	rest   []byte
}

// Read implements io.Reader.
func (m *mixed) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		m.rest = m.next()
		m.block++
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

func (m *mixed) next() []byte {
	if m.block%2 == 1 {
		raw := make([]byte, mixedBlock)
		_, _ = m.random.Read(raw)
		return raw
	}
	var text strings.Builder
	for i := 0; text.Len() < mixedBlock; i++ {
		fmt.Fprintf(&text, "%d.%d naïve Größe 漢字仮名 Ελληνικά 🙂🧪 \x1b[3%dm%x\x1b[0m\n", m.block, i, i%8, m.random.Uint64())
	}
	return []byte(text.String())
}

// Check compares the bytes read with the stream, as they arrive.
type Check struct {
	source io.Reader
	sum    hash.Hash
	N      int64 // bytes so far
	want   []byte
}

// NewCheck compares with the stream of that kind and name; see NewStream.
func NewCheck(kind, name string) *Check {
	return &Check{source: NewStream(kind, name), sum: sha256.New()}
}

// Write implements io.Writer. It fails at the first byte that differs from the stream.
func (c *Check) Write(p []byte) (int, error) {
	if len(c.want) < len(p) {
		c.want = make([]byte, len(p))
	}
	want := c.want[:len(p)]
	if _, err := io.ReadFull(c.source, want); err != nil {
		return 0, err
	}
	if !bytes.Equal(p, want) {
		i := 0
		for p[i] == want[i] {
			i++
		}
		return i, fmt.Errorf("the byte at offset %d is %#x and should be %#x (%q where %q was written)", c.N+int64(i), p[i], want[i], around(p, i), around(want, i))
	}
	c.sum.Write(p)
	c.N += int64(len(p))
	return len(p), nil
}

func around(b []byte, i int) []byte { return b[max(0, i-20):min(len(b), i+40)] }

// SHA256 is the hash of all bytes so far.
func (c *Check) SHA256() string { return hex.EncodeToString(c.sum.Sum(nil)) }
