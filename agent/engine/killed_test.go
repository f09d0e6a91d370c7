package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// agentMain is an engine in a separate process, which prints its address.
func agentMain(dir string) {
	e, err := New(Options{Dir: dir, Memory: 512 << 20, Slots: 2})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(httptest.NewServer(e).URL)
	select {}
}

// Children end with the process that started them, which cannot clean up after SIGKILL.
func TestAKilledAgentLeavesNoChild(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(unpacked, filepath.Join(dir, filepath.Base(unpacked))))
	program, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(program, "engine-agent", dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	st := agent.Statement{ID: "stm_1", Query: forever, Database: "lake", Schema: "public", Storage: agent.Storage{Prefix: "file://" + t.TempDir() + "/"}}
	b, err := json.Marshal(st)
	require.NoError(t, err)
	res, err := http.Post(strings.TrimSpace(address)+agent.StatementsPath, "application/json", bytes.NewReader(b))
	require.NoError(t, err)
	defer res.Body.Close()
	for from, kind := bufio.NewReader(res.Body), agent.FrameHead; kind != agent.FrameProgress; {
		kind, _, err = agent.ReadFrame(from)
		require.NoError(t, err)
	}
	require.NotEmpty(t, processesIn(dir))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return len(processesIn(dir)) == 0 }, time.Minute, 10*time.Millisecond)
	http.DefaultClient.CloseIdleConnections()
}

// A child that is killed during its start is replaced before a statement notices.
func TestAChildThatIsKilledAsItStarts(t *testing.T) {
	s := serve(t, nil)
	s.engine.pool.idle[0].Process.Kill()
	s.ok("SELECT 1")
}

// processesIn returns the processes with a working directory below dir.
func processesIn(dir string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range all {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir+"/") {
			pids = append(pids, link)
		}
	}
	return pids
}
