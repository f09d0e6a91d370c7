package local

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/domain/machine"
)

func TestAnAgentThatDoesNotListenIsKilled(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = doDeaf
	h.ensure(s)
	h.eventually(func() bool { return strings.Contains(h.said(s), "deaf") })
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.Empty(t, h.agents(s.Machine))
	require.NoDirExists(t, h.file(s, "data"))
	require.NoFileExists(t, h.file(s, "bootstrap"))
	require.FileExists(t, h.file(s, "agent.log"))
}

func TestWhatCannotBeEndedIsAnError(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	h.ensure(s)
	require.NoError(t, os.WriteFile(filepath.Join(h.file(s, "data"), refuseClear), nil, 0o600))
	err := h.Release(t.Context(), s.Ref)
	require.ErrorContains(t, err, "the test refuses to clear")
	require.DirExists(t, h.file(s, "data"), "nothing is forgotten")
	require.NoError(t, os.Remove(filepath.Join(h.file(s, "data"), refuseClear)))
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.NoDirExists(t, h.file(s, "data"))
}

// TestReleaseEndsWhatTheAgentDoesNotKnowOf starts processes that are known only by their ties to
// the directory, and similar ones without ties.
func TestReleaseEndsWhatTheAgentDoesNotKnowOf(t *testing.T) {
	h := newHouse(t)
	s, neighbour := h.spec("cmp_a", 1), h.spec("cmp_ab", 1)
	h.ensure(s)
	h.ensure(neighbour)
	data := h.file(s, "data")
	kept := filepath.Join(data, "some.log")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	start := func(dir, env, script string) (pid int) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), env}
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		h.eventually(func() bool {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
			return string(b) == "sleep\n"
		})
		return cmd.Process.Pid
	}
	var tied, others []int
	for _, p := range [][3]string{
		{data, "", "exec sleep 1000"}, {"/", "HOME=" + data + "/attempts/a/work", "exec sleep 1000"}, {"/", "", "exec sleep 1000 >>" + kept},
	} {
		tied = append(tied, start(p[0], p[1], p[2]))
	}
	for _, p := range [][3]string{
		{h.file(neighbour, "data"), "", "exec sleep 1000"}, {"/", "", "exec sleep 1000 <" + kept}, {"/", "HOME=" + data + "b", "exec sleep 1000"},
	} {
		others = append(others, start(p[0], p[1], p[2]))
	}
	require.NoError(t, h.Release(t.Context(), s.Ref))
	for _, pid := range tied {
		require.Empty(t, startOf(pid), "process %d", pid)
	}
	for _, pid := range others {
		require.NotEmpty(t, startOf(pid), "one that reads, or is the neighbour's, is left alone")
	}
	require.True(t, h.alive(neighbour))
}

// control is a control plane that starts one task on the agent of each machine.
type control struct {
	*testing.T
	*httptest.Server
	command string
	mu      sync.Mutex
	hellos  []agent.Hello
	log     map[string]string
	sending sync.WaitGroup
}

func newControl(t *testing.T, command string) *control {
	c := &control{T: t, command: command, log: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+agent.EnrollPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(agent.Enrollment{AgentID: "agt_1", Token: "token"})
	})
	mux.HandleFunc("GET "+agent.ConnectPath, c.connect)
	c.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		c.Server.CloseClientConnections()
		c.sending.Wait()
		c.Server.Close()
	})
	return c
}

func (c *control) connect(w http.ResponseWriter, r *http.Request) {
	s, err := tunnel.Accept(w, r)
	if err != nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+agent.HelloPath, func(w http.ResponseWriter, r *http.Request) {
		var hello agent.Hello
		_ = json.NewDecoder(r.Body).Decode(&hello)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.hellos = append(c.hellos, hello)
		welcome := agent.Welcome{AgentID: "agt_1", Lease: agent.Duration(time.Hour), HeartbeatEvery: agent.Duration(time.Minute)}
		for _, a := range hello.Attempts {
			welcome.Attempts = append(welcome.Attempts, agent.DesiredAttempt{ID: a.ID, Desire: agent.DesireRun, LogNext: int64(len(c.log[a.ID]))})
		}
		if len(hello.Attempts) == 0 {
			c.sending.Go(func() { c.start(s) })
		}
		_ = json.NewEncoder(w).Encode(welcome)
	})
	mux.HandleFunc("POST "+agent.LogsPath, func(w http.ResponseWriter, r *http.Request) {
		chunks, _ := agent.ReadBatch(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		reply := agent.LogReply{Next: map[string]int64{}}
		for _, chunk := range chunks {
			if int(chunk.Offset) == len(c.log[chunk.Attempt]) {
				c.log[chunk.Attempt] += string(chunk.Data)
			}
			reply.Next[chunk.Attempt] = int64(len(c.log[chunk.Attempt]))
		}
		_ = json.NewEncoder(w).Encode(reply)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: mux}
	_ = server.Serve(s)
	_ = s.Close()
	_ = server.Close()
}

func (c *control) start(s *tunnel.Session) {
	id := fmt.Sprintf("att_%d_%d", os.Getpid(), time.Now().UnixNano())
	body, _ := json.Marshal(agent.Attempt{ID: id, Command: c.command, GraceSeconds: 100})
	r, err := http.NewRequest(http.MethodPut, "http://agent"+fmt.Sprintf(agent.AttemptPath, id), strings.NewReader(string(body)))
	if err != nil {
		c.Error(err)
		return
	}
	res, err := s.Client().Do(r)
	if err != nil {
		c.Error(err)
		return
	}
	_ = res.Body.Close()
}

// pids waits until the tasks have written n pids to their logs, and returns them.
func (c *control) pids(h *house, n int) []int {
	var pids []int
	h.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		pids = nil
		for _, log := range c.log {
			for line := range strings.Lines(log) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
					pids = append(pids, pid)
				}
			}
		}
		return len(pids) >= n
	})
	return pids
}

func (c *control) adopted(h *house) {
	h.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		last := c.hellos[len(c.hellos)-1]
		return len(c.hellos) > 1 && len(last.Attempts) == 1 && last.Attempts[0].State == agent.Running
	})
}

// stubborn leaves its parent, its session, its directory, its outputs and its environment, and
// ignores SIGTERM and SIGHUP.
const stubborn = `trap "" TERM HUP; echo $$
(setsid sh -c 'trap "" TERM HUP; cd /; echo $$; exec env -i sleep 1000 >/dev/null 2>&1' </dev/null &)
while :; do sleep 1; done`

func TestReleaseEndsEveryTaskAndItsDescendants(t *testing.T) {
	for name, groups := range map[string]*cgroups{"control groups": findCgroups(), "none": {why: "the test has none"}} {
		t.Run(name, func(t *testing.T) {
			c := newControl(t, stubborn)
			h := newHouse(t, func(h *house) { h.groups = groups })
			s := h.spec("cmp_a", 1)
			s.Server = c.URL
			h.ensure(s)
			pids := c.pids(h, 2)
			h.kill(s.Machine)
			require.NotEmpty(t, startOf(pids[0]), "tasks outlive their agent")
			h.reopen()
			require.NoError(t, h.Release(t.Context(), s.Ref))
			requireEnded(t, h, s, pids)
		})
	}
}

func TestTheNextIncarnationAdoptsTheTasks(t *testing.T) {
	c := newControl(t, stubborn)
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = c.URL
	h.ensure(s)
	pids := c.pids(h, 2)
	s.Incarnation = 2
	h.ensure(s)
	c.adopted(h)
	for _, pid := range pids {
		require.NotEmpty(t, startOf(pid))
	}
	require.NoError(t, h.Release(t.Context(), s.Ref))
	requireEnded(t, h, s, pids)
}

func requireEnded(t *testing.T, h *house, s machine.Spec, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Empty(t, startOf(pid), "process %d", pid)
	}
	for _, pid := range allPids(t) {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		require.False(t, strings.HasPrefix(cwd, h.file(s, "data")), "process %d", pid)
		stderr, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid))
		require.False(t, strings.HasPrefix(stderr, h.file(s, "data")), "process %d", pid)
	}
	m, err := h.machineDir(s.Machine)
	require.NoError(t, err)
	if group := h.groups.path(m); group != "" {
		require.NoDirExists(t, group)
	}
}

// TestACopyLeavesTheOriginalsMachinesAlone: a copy has none of the original's machines, creates its
// own, and ends only those.
func TestACopyLeavesTheOriginalsMachinesAlone(t *testing.T) {
	for name, groups := range map[string]*cgroups{"control groups": findCgroups(), "none": {why: "the test has none"}} {
		t.Run(name, func(t *testing.T) {
			c := newControl(t, stubborn)
			h := newHouse(t, func(h *house) { h.groups = groups })
			s := h.spec("cmp_a", 1)
			s.Server = c.URL
			h.ensure(s)
			pids, agents := c.pids(h, 2), h.agents(s.Machine)

			said := &strings.Builder{}
			copied := newHouse(t, func(copied *house) {
				copied.groups = groups
				require.NoError(t, exec.Command("cp", "-a", h.dir, copied.dir).Run())
				copied.options.Log = slog.New(slog.NewTextHandler(said, nil))
			})
			require.Contains(t, said.String(), copied.dir+" is a copy of "+h.dir)
			require.NotContains(t, said.String(), "adopted a machine")
			require.False(t, copied.alive(s))
			s.Server = doEnv
			s.Incarnation++
			copied.ensure(s)
			require.True(t, copied.alive(s))
			require.NoError(t, copied.Release(t.Context(), s.Ref))
			require.Empty(t, copied.agents(s.Machine))

			s.Incarnation--
			require.True(t, h.alive(s))
			require.Equal(t, agents, h.agents(s.Machine))
			for _, pid := range pids {
				require.NotEmpty(t, startOf(pid), "process %d", pid)
			}
		})
	}
}

// TestARecreatedDirectoryIsNotBlocked by leftovers: a machine without a record and without
// processes uses nothing of the host.
func TestARecreatedDirectoryIsNotBlocked(t *testing.T) {
	h := newHouse(t)
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "wh_before", dataDir, "engine"), 0o700))
	s := h.spec("cmp_a", 1)
	s.Server = doEnv
	h.ensure(s)
	require.True(t, h.alive(s))
}

// TestAnAgentOfAMovedDirectoryIsLeftAlone by a provider on a copy in its place.
func TestAnAgentOfAMovedDirectoryIsLeftAlone(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = doEnv
	h.ensure(s)
	running := h.agents(s.Machine)
	aside := h.dir + ".aside"
	require.NoError(t, exec.Command("cp", "-a", h.dir, h.dir+".copy").Run())
	require.NoError(t, os.Rename(h.dir, aside))
	require.NoError(t, os.Rename(h.dir+".copy", h.dir))
	h.reopen()
	require.False(t, h.alive(s))
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.Equal(t, running, h.agents(s.Machine), "it is left alone")
	h.kill(s.Machine)
}
