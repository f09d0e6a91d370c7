package main_test

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

// taskEnv makes this test binary a task of a job: the name of the task, by which the arena knows it.
const taskEnv = "E2E_TASK"

// work says what a task does, in its environment.
type work struct {
	arena  string
	name   string
	gate   string // it writes until this file is in the arena; empty when only bytes bounds it
	bytes  int64  // it writes at least so many
	block  int    // in one write
	pause  time.Duration
	stay   bool // it ignores SIGTERM
	fail   int  // the exit code of its first so many attempts is 1
	stream string
}

// environment is what makes a job's process do the work.
func (w work) environment() map[string]string {
	return map[string]string{
		taskEnv: w.name, "E2E_ARENA": w.arena, "E2E_GATE": w.gate, "E2E_BYTES": strconv.FormatInt(w.bytes, 10), "E2E_BLOCK": strconv.Itoa(w.block),
		"E2E_PAUSE": w.pause.String(), "E2E_STAY": strconv.FormatBool(w.stay), "E2E_FAIL": strconv.Itoa(w.fail), "E2E_STREAM": w.stream,
	}
}

// spec is a job of one task that does the work.
func (w work) spec(retries int) map[string]any {
	task := map[string]any{"key": "work", "command": "exec " + taskProgram(), "max_retries": retries}
	return map[string]any{"name": w.name, "environment": w.environment(), "tasks": []any{task}}
}

func workFromEnvironment(name string) work {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(key), 10, 64)
		return n
	}
	pause, _ := time.ParseDuration(os.Getenv("E2E_PAUSE"))
	return work{
		arena: os.Getenv("E2E_ARENA"), name: name, gate: os.Getenv("E2E_GATE"), bytes: number("E2E_BYTES"), block: int(number("E2E_BLOCK")),
		pause: pause, stay: os.Getenv("E2E_STAY") == "true", fail: int(number("E2E_FAIL")), stream: os.Getenv("E2E_STREAM"),
	}
}

// event is a line of the record that the attempts of a task keep in the arena.
type event struct {
	Kind    string // start, term, end or overlap
	Attempt string
	Number  string
	Bytes   int64
	SHA256  string
}

// runTask is the process of an attempt. It holds a lock for as long as it lives, so that two attempts at once are found out.
func runTask(name string) int {
	w := workFromEnvironment(name)
	lock, err := os.OpenFile(w.path("lock"), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	_ = lock.Chmod(0o666) // the next attempt is another user; who is not the owner need not
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		w.record("overlap", 0, "")
		return 97
	}
	if w.stay {
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
	if number, _ := strconv.Atoi(os.Getenv("MILLPOND_ATTEMPT")); number <= w.fail {
		return 1
	}
	return 0
}

func (w work) path(kind string) string { return filepath.Join(w.arena, w.name+"."+kind) }

func (w work) open() bool {
	if w.gate == "" {
		return true
	}
	_, err := os.Stat(filepath.Join(w.arena, w.gate))
	return err == nil
}

// write writes the stream, and notes after each block how far it has come.
func (w work) write(out io.Writer) (n int64, sum string, err error) {
	source, hashed := newStream(w.stream, w.name), sha256.New()
	block := make([]byte, max(w.block, 1))
	pace := time.NewTicker(max(w.pause, time.Microsecond))
	defer pace.Stop()
	written, err := os.Create(w.path("written." + os.Getenv("MILLPOND_ATTEMPT")))
	if err != nil {
		return 0, "", err
	}
	defer written.Close()
	for n < w.bytes || !w.open() {
		if w.block > 0 {
			if _, err := io.ReadFull(source, block); err != nil {
				return n, "", err
			}
			if _, err := out.Write(block); err != nil {
				return n, "", err
			}
			hashed.Write(block)
			n += int64(len(block))
		}
		if w.pause > 0 {
			<-pace.C
			if _, err := fmt.Fprintf(io.NewOffsetWriter(written, 0), "%020d", n); err != nil { // one width, in place: it is read at any time
				return n, "", err
			}
		}
	}
	return n, hex.EncodeToString(hashed.Sum(nil)), nil
}

func (w work) record(kind string, n int64, sum string) {
	line, _ := json.Marshal(event{kind, os.Getenv("MILLPOND_ATTEMPT_ID"), os.Getenv("MILLPOND_ATTEMPT"), n, sum})
	f, err := os.OpenFile(w.path("events"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
	_ = f.Chmod(0o666)
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// events are what the attempts of the task have recorded so far.
func (w work) events(t testing.TB, kind string) (found []event) {
	t.Helper()
	f, err := os.Open(w.path("events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// written is how many bytes the attempt's process has given away for certain.
func (w work) written(number int) int64 {
	b, _ := os.ReadFile(w.path(fmt.Sprintf("written.%d", number)))
	n, _ := strconv.ParseInt(string(b), 10, 64)
	return n
}

// token is what the attempt's process has to show to the platform.
func (w work) token(t testing.TB, number int) string {
	t.Helper()
	b, err := os.ReadFile(w.path(fmt.Sprintf("token.%d", number)))
	require.NoError(t, err)
	return string(b)
}

// release opens the gate.
func (w work) release(t testing.TB) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.arena, w.gate), nil, 0o644))
}

// requireOneAtATime holds that no two attempts ran at once, and that none was started twice.
func (w work) requireOneAtATime(t testing.TB) {
	t.Helper()
	require.Empty(t, w.events(t, "overlap"), "two attempts ran at the same time")
	started := map[string]int{}
	for _, e := range w.events(t, "start") {
		started[e.Attempt]++
		require.Equal(t, 1, started[e.Attempt], "the attempt %s was started twice", e.Attempt)
	}
}

// newStream makes the bytes that a task writes; everybody who knows its name can make them again. binary is random bytes. mixed alternates
// those with lines of text in several scripts, so that chunks are cut in runes, in lines and in neither. line never ends its line.
func newStream(kind, name string) io.Reader {
	random := rand.NewChaCha8(sha256.Sum256([]byte(name)))
	switch kind {
	case "binary":
		return random
	case "line":
		return endless{random}
	}
	return &mixed{random: random}
}

// endless is letters without the end of a line.
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

// check compares what is read with the stream, byte by byte as it comes.
type check struct {
	source io.Reader
	sum    hash.Hash
	n      int64
	want   []byte
}

func newCheck(kind, name string) *check {
	return &check{source: newStream(kind, name), sum: sha256.New()}
}

// Write implements io.Writer. It fails at the first byte that is not the stream's.
func (c *check) Write(p []byte) (int, error) {
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
		return i, fmt.Errorf("the byte at offset %d is %#x and should be %#x (%q where %q was written)", c.n+int64(i), p[i], want[i], around(p, i), around(want, i))
	}
	c.sum.Write(p)
	c.n += int64(len(p))
	return len(p), nil
}

func around(b []byte, i int) []byte { return b[max(0, i-20):min(len(b), i+40)] }

// SHA256 is of everything so far.
func (c *check) SHA256() string { return hex.EncodeToString(c.sum.Sum(nil)) }
