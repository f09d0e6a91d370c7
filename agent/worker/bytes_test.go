package worker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
	"github.com/millpond/millpond/agent/worker/shim"
)

// sameBytes requires that an attempt succeeded with exactly the bytes of an emission as its log.
func sameBytes(t *testing.T, c *control, id string, e emission) {
	t.Helper()
	s := c.exited(id)
	require.Empty(t, s.Reason, s.Message)
	require.Equal(t, 0, *s.ExitCode)
	require.Equal(t, e.total, s.LogEnd)
	require.Equal(t, e.sha(e.total), c.record(id).sha())
}

func TestEveryByteArrives(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	for i, e := range []emission{
		{total: 1, most: 1},
		{total: 100, most: 1},
		{total: 70_000, most: 70_000},
		{total: 300_000, most: 1000, pause: 100 * time.Microsecond},
		{total: 20 << 20, most: 200_000},
		{total: 5 << 20, most: 100_000, err: true},
	} {
		e.seed = uint64(i)
		id := fmt.Sprint("att_", i)
		c.start(agent.Attempt{ID: id, Command: e.command(t)})
		sameBytes(t, c, id, e)
	}
}

func TestAFastWriterLosesNothingInBoundedMemory(t *testing.T) {
	total := int64(100 << 20)
	if n, err := strconv.ParseInt(os.Getenv("MILLPOND_TEST_WRITER_BYTES"), 10, 64); err == nil {
		total = n
	}
	c := newControl(t)
	c.agent(c.options())
	e := emission{seed: 7, total: total, most: 1 << 20}
	before := heap()
	c.start(agent.Attempt{ID: "att_1", Command: e.command(t)})
	peak := uint64(0)
	c.until("the end", 5*waitLimit, func() bool { peak = max(peak, heap()); return c.attempts["att_1"].final() != nil })
	sameBytes(t, c, "att_1", e)
	require.Less(t, int64(peak)-int64(before), int64(64<<20), "the heap grew with the log")
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestALineOf50MBWithoutANewline(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "head -c 50000000 /dev/zero | tr '\\0' x"})
	s := c.exited("att_1")
	require.Equal(t, int64(50_000_000), s.LogEnd)
	require.Equal(t, strings.Repeat("x", headBytes), string(c.record("att_1").head))
}

func TestBothStreamsKeepTheirBytesAndOrder(t *testing.T) {
	c := newControl(t)
	c.chunks = true
	c.agent(c.options())
	out := emission{seed: 1, total: 3 << 20, most: 5000, pause: 200 * time.Microsecond}
	err := emission{seed: 2, total: 2 << 20, most: 3000, pause: 200 * time.Microsecond, err: true}
	run := func(e emission) string { return strings.TrimPrefix(e.command(t), "exec ") }
	c.start(agent.Attempt{ID: "att_1", Command: run(out) + " & " + run(err) + "; wait"})
	s := c.exited("att_1")
	require.Equal(t, out.total+err.total, s.LogEnd)
	got := map[agent.Stream]int64{}
	sums := map[agent.Stream]*strings.Builder{agent.Stdout: {}, agent.Stderr: {}}
	for _, chunk := range c.record("att_1").chunks {
		got[chunk.Stream] += int64(len(chunk.Data))
		sums[chunk.Stream].Write(chunk.Data)
	}
	require.Equal(t, map[agent.Stream]int64{agent.Stdout: out.total, agent.Stderr: err.total}, got)
	for stream, e := range map[agent.Stream]emission{agent.Stdout: out, agent.Stderr: err} {
		want, _ := io.ReadAll(e.bytes())
		require.True(t, string(want) == sums[stream].String(), "stream %d has other bytes", stream)
	}
}

func TestChunksEndAtRunesAndLines(t *testing.T) {
	c := newControl(t)
	c.chunks = true
	c.agent(c.options())
	// A rune is written in two halves, a line in two parts; then many lines of three-byte runes.
	c.start(agent.Attempt{ID: "att_1", Command: `printf 'a\303'; printf '\251b'; sleep 0.1; printf 'c\n'
		i=0; while [ $i -lt 20 ]; do i=$((i+1)); printf '€%.0s' $(seq 1 2000); echo; done | cat
		printf '\377\376 broken \303'`})
	s := c.exited("att_1")
	r := c.record("att_1")
	require.Equal(t, s.LogEnd, r.next)
	require.True(t, strings.HasPrefix(string(r.head), "aébc\n€€"))
	require.True(t, strings.HasSuffix(string(r.head), "€\n\xff\xfe broken \xc3"))
	for i, chunk := range r.chunks {
		broken := bytes.IndexByte(chunk.Data, 0xff) >= 0 || i == len(r.chunks)-1
		require.True(t, broken || utf8.Valid(chunk.Data), "chunk %d of %d is cut in a rune", i, len(r.chunks))
		require.LessOrEqual(t, len(chunk.Data), agent.MaxChunkBytes)
	}
}

func TestAnIncompleteRuneDoesNotWaitForEver(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: `printf 'x\342\202'; sleep 100`})
	c.reached("att_1", 3)
	c.cancel("att_1")
	require.Equal(t, agent.ReasonCancelled, c.exited("att_1").Reason)
}

func TestLogLimitCutsTheLogAndLetsTheProcessGoOn(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	for id, want := range map[string]string{
		"yes | head -c 3000000":                    strings.Repeat("y\n", 500) + "[millpond] log cut after 1000 bytes\n",
		"head -c 3000000 /dev/zero | tr '\\0' z":   strings.Repeat("z", 1000) + "\n[millpond] log cut after 1000 bytes\n",
		"yes | head -c 1000":                       strings.Repeat("y\n", 500),
		"yes | head -c 1000; sleep 0.1; echo more": strings.Repeat("y\n", 500) + "[millpond] log cut after 1000 bytes\n",
	} {
		name := fmt.Sprint("att_", len(id))
		c.start(agent.Attempt{ID: name, Command: id + "; exit 7", LogLimit: 1000})
		s := c.exited(name)
		require.Equal(t, 7, *s.ExitCode)
		require.Equal(t, want, string(c.record(name).head))
		require.Equal(t, int64(len(want)), s.LogEnd)
	}
}

func TestTheSmallerLogLimitCounts(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.LogLimit = 1000
	c.agent(o)
	for own, want := range map[int64]int{0: 1000, 500: 500, 2000: 1000} {
		id := fmt.Sprint("att_", own)
		c.start(agent.Attempt{ID: id, Command: "yes | head -c 3000", LogLimit: own})
		c.exited(id)
		require.Equal(t, strings.Repeat("y\n", want/2)+fmt.Sprintf("[millpond] log cut after %d bytes\n", want), string(c.record(id).head))
	}
	o.LogLimit = -1
	require.ErrorContains(t, Run(t.Context(), o), "the log limit is -1 bytes")
}

func TestACutConnectionLosesNothing(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	e := emission{seed: 3, total: 30 << 20, most: 50_000, pause: 200 * time.Microsecond}
	c.start(agent.Attempt{ID: "att_1", Command: e.command(t)})
	for i := range int64(8) {
		c.reached("att_1", (i+1)*(3<<20))
		c.failing.Store(2)
		c.cut()
		c.session()
	}
	sameBytes(t, c, "att_1", e)
	require.GreaterOrEqual(t, c.hellos, 9)
}

// child is an agent in its own process.
type child struct {
	cmd  *exec.Cmd
	once bool
}

func (c *control) child(o Options) *child {
	o.Log = nil
	cmd := exec.Command(testBinary(c.t), "agent", encode(o))
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(c.t, cmd.Start())
	k := &child{cmd: cmd}
	c.t.Cleanup(func() {
		k.kill()
		if c.t.Failed() && said.Len() > 0 {
			c.t.Log("the agent said: ", said.String())
		}
	})
	return k
}

// encode encodes options without the fields that another process cannot get.
func encode(o Options) string {
	return strings.TrimSpace(string(shim.EncodeLine(struct {
		Options
		Engines, Changed, Configure any
	}{Options: o})))
}

func (k *child) kill() {
	if k.once {
		return
	}
	k.once = true
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

func rounds(t *testing.T, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("MILLPOND_TEST_ROUNDS")); err == nil {
		return n
	}
	if testing.Short() {
		return 2
	}
	return usual
}

func TestKillingTheAgentLosesNothing(t *testing.T) {
	c := newControl(t)
	o := c.options()
	k := c.child(o)
	for round := range rounds(t, 6) {
		id := fmt.Sprint("att_", round)
		e := emission{seed: uint64(round), total: 12 << 20, most: 20_000, pause: 100 * time.Microsecond}
		c.start(agent.Attempt{ID: id, Command: e.command(t)})
		for i := range int64(3) {
			c.reached(id, (i+1)*(1+int64(round%12))*(300<<10))
			k.kill()
			c.cut()
			k = c.child(o)
			c.session()
		}
		sameBytes(t, c, id, e)
	}
	c.killAll(o)
}

func TestKillingTheShimLosesNothing(t *testing.T) {
	for _, oneUser := range []bool{false, true} {
		t.Run(fmt.Sprintf("one user %t", oneUser), func(t *testing.T) {
			c := newControl(t)
			o := c.options()
			o.OneUser = oneUser
			c.agent(o)
			for round := range rounds(t, 12) {
				id := fmt.Sprint("att_", round)
				e := emission{seed: uint64(round), total: 1 << 40, most: 1 + round*9000}
				if round%3 == 0 {
					e.pause = 300 * time.Microsecond
				}
				c.slow.Store(int64(round%4) * int64(3*time.Millisecond))
				c.start(agent.Attempt{ID: id, Command: e.command(t)})
				c.reached(id, 1+int64(round)*(70<<10))
				dir := filepath.Join(o.Dir, "attempts", id)
				count, err := os.Open(filepath.Join(dir, shim.WorkDir, "count"))
				require.NoError(t, err)
				killShim(t, dir)
				s := c.exited(id)
				require.Equal(t, agent.ReasonSupervisor, s.Reason)
				require.Equal(t, e.sha(s.LogEnd), c.record(id).sha(), "round %d", round)
				noted := make([]byte, 8)
				_, err = count.ReadAt(noted, 0)
				require.NoError(t, err)
				count.Close()
				written := int64(leUint64(noted))
				require.GreaterOrEqual(t, s.LogEnd, written, "bytes the process wrote are lost")
				require.LessOrEqual(t, s.LogEnd, written+4096)
			}
		})
	}
}

func leUint64(b []byte) (n uint64) {
	for i := range b {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}

// killShim kills the shim of an attempt's directory: the only process that has its log open for
// splicing.
func killShim(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, syscall.Kill(shimOf(t, dir), syscall.SIGKILL))
}

func shimOf(t testing.TB, dir string) int {
	t.Helper()
	log, err := os.Stat(filepath.Join(dir, shim.LogFile))
	require.NoError(t, err)
	for _, p := range proc.All() {
		if p.Pid == os.Getpid() || p.Zombie {
			continue
		}
		fds, _ := os.ReadDir(proc.Path(p.Pid, "fd"))
		for _, fd := range fds {
			info, err := os.Stat(filepath.Join(proc.Path(p.Pid, "fd"), fd.Name()))
			if err == nil && os.SameFile(info, log) && isShim(p.Pid) {
				return p.Pid
			}
		}
	}
	t.Fatal("no shim has the log open")
	return 0
}

func isShim(pid int) bool {
	b, err := os.ReadFile(proc.Path(pid, "cmdline"))
	return err == nil && strings.HasSuffix(strings.TrimRight(string(b), "\x00"), "\x00shim")
}
