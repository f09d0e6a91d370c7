package supervised

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process has a clean environment, and what it started is killed with it.
func TestAProcessIsKilledWithItsGroup(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	out, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	dir := t.TempDir()
	p, err := Start(Options{
		Command: []string{"sh", "-c", `env; sleep 1000 & echo $! >&3; wait`}, Dir: dir, Temp: dir + "/temp", Env: []string{"MORE=1"},
		Files: []*os.File{theirs}, OOMScore: 900, KeepOutput: 1 << 10,
	})
	require.NoError(t, err)
	require.NoError(t, theirs.Close())
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.True(t, p.Alive())
	score, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/oom_score_adj")
	require.NoError(t, err)
	require.Equal(t, "900\n", string(score))

	p.Kill()
	<-p.Gone()
	p.Kill() // has no effect
	require.False(t, p.Alive())
	_, err = r.ReadString('\n') // the end, once no process holds the pipe
	require.ErrorIs(t, err, io.EOF, "the process %d lives", child)
	require.Contains(t, p.Output(), "MORE=1\n")
	require.Contains(t, p.Output(), "HOME="+dir+"\n")
	require.NotContains(t, p.Output(), "SECRET_OF_THE_AGENT")
	require.Equal(t, unix.SIGKILL, p.State().Sys().(interface{ Signal() unix.Signal }).Signal())
}

// What a process writes is kept up to a bound, and never blocks it.
func TestOutputIsBounded(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(Options{Command: []string{"sh", "-c", "echo first; yes | head -c 1000000"}, Dir: dir, Temp: dir, KeepOutput: 8})
	require.NoError(t, err)
	<-p.Gone()
	require.Equal(t, "first\ny\n", p.Output())
	require.True(t, p.State().Success())
	_, err = Start(Options{Command: []string{"/nowhere"}, Dir: dir, Temp: dir})
	require.ErrorIs(t, err, os.ErrNotExist)
}
