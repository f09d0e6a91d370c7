package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
	"github.com/millpond/millpond/agent/worker/proc"
	"github.com/millpond/millpond/agent/worker/shim"
)

func TestAStartSaidTwiceRunsOnce(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	a := agent.Attempt{ID: "att_1", Command: "echo once; sleep 0.3"}
	c.start(a)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if status := c.put("att_1", a); status != http.StatusNoContent {
				t.Errorf("answered %d", status)
			}
		})
	}
	group.Wait()
	c.exited("att_1")
	require.Equal(t, http.StatusNoContent, c.put("att_1", a), "late, when it has ended and is forgotten")
	c.start(agent.Attempt{ID: "att_2", Command: "true"})
	c.exited("att_2")
	require.Equal(t, "once\n", string(c.record("att_1").head))
}

func TestBadAttemptsAreRefused(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	for name, bad := range map[string]any{
		"no JSON":         "x",
		"another id":      agent.Attempt{ID: "att_2", Command: "true"},
		"NUL in command":  agent.Attempt{ID: "att_1", Command: "true\x00"},
		"NUL in a value":  agent.Attempt{ID: "att_1", Env: map[string]string{"A": "\x00"}},
		"= in a name":     agent.Attempt{ID: "att_1", Env: map[string]string{"A=B": "c"}},
		"negative limit":  agent.Attempt{ID: "att_1", LogLimit: -1},
		"absolute path":   agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "/etc/x"}}},
		"parent":          agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "../x"}}},
		"hidden parent":   agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a/../../x"}}},
		"empty path":      agent.Attempt{ID: "att_1", Files: []agent.File{{Path: ""}}},
		"dot":             agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "."}}},
		"slash at end":    agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a/"}}},
		"NUL in path":     agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a\x00"}}},
		"twice":           agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a"}, {Path: "a"}}},
		"file and parent": agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a"}, {Path: "a/b"}}},
		"parent and file": agent.Attempt{ID: "att_1", Files: []agent.File{{Path: "a/b"}, {Path: "a"}}},
		"temporary files": agent.Attempt{ID: "att_1", Files: []agent.File{{Path: ".tmp/x"}}},
	} {
		require.Equal(t, http.StatusBadRequest, c.put("att_1", bad), name)
	}
	for _, id := range []string{"..", ".", "a%2Fb", "a b", strings.Repeat("x", 65)} {
		require.NotEqual(t, http.StatusNoContent, c.put(id, agent.Attempt{ID: strings.ReplaceAll(id, "%2F", "/"), Command: "true"}), id)
	}
	entries, err := os.ReadDir(filepath.Join(o.Dir, "attempts"))
	require.NoError(t, err)
	require.Empty(t, entries, "a refused attempt left something behind")
}

func TestFilesAreLaidOut(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: "bin/run.sh; stat -c '%a %U' data.csv | cut -d' ' -f1; cat data.csv; rm -r bin && echo removed", Files: []agent.File{
			{Path: "bin/run.sh", Mode: 0o755, Data: []byte("#!/bin/sh\necho ran in $(basename $PWD)\n")},
			{Path: "data.csv", Mode: 0o640, Data: []byte("1,2\n")},
		}})
		c.exited("att_1")
		require.Equal(t, "ran in work\n640\n1,2\nremoved\n", string(c.record("att_1").head))
	})
}

func TestNothingIsLeftOfAnAttemptThatIsOver(t *testing.T) {
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{ID: "att_1", Command: "mkdir -p a/b && touch a/b/c && chmod 000 a/b a"})
		c.exited("att_1")
		for _, dir := range []string{"attempts", "trash"} {
			waitFor(t, func() bool {
				entries, err := os.ReadDir(filepath.Join(o.Dir, dir))
				return err == nil && len(entries) == 0
			})
		}
	})
}

func TestWhatTheControlPlaneForgotIsKilled(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	for _, id := range []string{"att_hello", "att_beat", "att_log", "att_status"} {
		c.start(agent.Attempt{ID: id, Command: "echo $$; while [ ! -e go ]; do sleep 0.05; done; [ -e quiet ] || echo more; [ -e end ] || exec sleep 1000"})
	}
	touch := func(id string, names ...string) {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "attempts", id, shim.WorkDir, name), nil, 0o644))
		}
	}
	forget := func(id string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.attempts, id)
	}
	requireForgotten := func(id string, pid int) {
		waitFor(t, func() bool { return gone(pid) && !fileExists(filepath.Join(o.Dir, "attempts", id)) })
	}
	pid := map[string]int{}
	for _, id := range []string{"att_hello", "att_beat", "att_log", "att_status"} {
		pid[id] = c.pids(id, 1)[0]
	}
	c.desire("att_beat", agent.DesireForget)
	requireForgotten("att_beat", pid["att_beat"])

	forget("att_log")
	touch("att_log", "go")
	requireForgotten("att_log", pid["att_log"])

	forget("att_status")
	touch("att_status", "quiet", "end", "go")
	requireForgotten("att_status", pid["att_status"])

	forget("att_hello")
	c.cut()
	requireForgotten("att_hello", pid["att_hello"])
}

// TestOrdersAboutAnAttemptThatIsNotHereChangeNothing: the control plane starts an attempt only by
// PUT.
func TestOrdersAboutAnAttemptThatIsNotHereChangeNothing(t *testing.T) {
	c := newControl(t)
	ids := map[agent.Desire]string{agent.DesireRun: "att_run", agent.DesireForget: "att_forget"}
	for desire, id := range ids {
		c.extra = append(c.extra, agent.DesiredAttempt{ID: id, Desire: desire})
	}
	c.agent(c.options())
	c.until("two heartbeats", waitLimit, func() bool { return c.beats >= 2 })
	for _, id := range ids {
		c.cancel(id)
	}
	c.mu.Lock()
	c.extra = nil
	c.mu.Unlock()
	c.cut()
	c.until("another hello", waitLimit, func() bool { return c.hellos >= 2 })
	require.Empty(t, c.last.Attempts)
	for _, id := range ids {
		c.start(agent.Attempt{ID: id, Command: "echo started"})
		require.Equal(t, 0, *c.exited(id).ExitCode)
		require.Equal(t, "started\n", string(c.record(id).head))
	}
}

func TestAnAttemptSentTwiceAcrossAHelloRunsOnce(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	a := agent.Attempt{ID: "att_1", Command: "echo once; exec sleep 1000"}
	c.start(a)
	c.contains("att_1", "once\n")
	c.cut()
	require.Equal(t, http.StatusNoContent, c.put("att_1", a))
	c.cancel("att_1")
	c.exited("att_1")
	require.Equal(t, http.StatusNoContent, c.put("att_1", a))
	c.until("two heartbeats", waitLimit, func() bool { return c.beats >= 2 })
	require.Equal(t, "once\n", string(c.record("att_1").head))
}

func TestAHeartbeatCancels(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "echo $$; exec sleep 1000"})
	c.pids("att_1", 1)
	c.desire("att_1", agent.DesireCancel)
	require.Equal(t, agent.ReasonCancelled, c.exited("att_1").Reason)
}

func TestACommandThatCannotStartSaysWhy(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: strings.Repeat("x", 3<<20)})
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonStart, s.Reason)
	require.Contains(t, s.Message, "argument list too long")
	require.Nil(t, s.ExitCode)
}

func TestFinalRefusalsEndTheAgent(t *testing.T) {
	for _, status := range []int{401, 403, 426} {
		c := newControl(t)
		c.refuse.Store(int32(status))
		err := Run(t.Context(), c.options())
		var final *tunnel.FinalError
		require.True(t, errors.As(err, &final))
		require.Equal(t, status, final.Status)
		require.ErrorContains(t, err, "refused by the test")
	}
}

// said collects an agent's log.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestAConflictIsSaidAndTriedAgain(t *testing.T) {
	c := newControl(t)
	c.busy.Store(3)
	o := c.options()
	log := &said{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	c.agent(o)
	require.Equal(t, 4, c.hellos)
	require.Equal(t, 3, strings.Count(log.String(), "Another instance of the agent may still be at work."))
}

func TestTheInstanceIsTheDirectorys(t *testing.T) {
	c := newControl(t)
	o := c.options()
	hello := func() string {
		stop := c.agent(o)
		defer c.cut()
		defer stop()
		return c.last.Instance
	}
	first := hello()
	require.Regexp(t, "^[A-Z2-7]{26}$", first)
	require.Equal(t, first, hello())
	path := filepath.Join(o.Dir, "directory.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.NoError(t, os.Truncate(path, 0)) // a crash of the machine
	second := hello()
	require.Regexp(t, "^[A-Z2-7]{26}$", second)
	require.NotEqual(t, first, second)
	o.Dir += "-other"
	require.NotEqual(t, second, hello())
}

func TestTheLogSaysWhyASessionEnded(t *testing.T) {
	c := newControl(t)
	o := c.options()
	log := &said{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	c.agent(o)
	const cuts = 5
	for range cuts {
		c.cut()
		c.session()
	}
	require.Equal(t, cuts, strings.Count(log.String(), "it is retried"))
	require.Equal(t, cuts, strings.Count(log.String(), `error="the agent's connection ended: websocket: close 1000 (normal)"`), log.String())
}

func TestASecondAgentOnTheDirectoryIsRefused(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	err := Run(context.Background(), o)
	require.ErrorContains(t, err, fmt.Sprintf("another agent (process %d) works in %s", os.Getpid(), o.Dir))
}

func TestFiftyAttemptsEndAtOnce(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.Slots = 8 // more are accepted: the control plane enforces the slots
	c.agent(o)
	var group sync.WaitGroup
	for i := range 50 {
		a := agent.Attempt{ID: fmt.Sprint("att_", i), Command: fmt.Sprintf("echo %d; exit %d", i, i)}
		c.want(a)
		group.Go(func() { c.put(a.ID, a) })
	}
	group.Wait()
	for i := range 50 {
		id := fmt.Sprint("att_", i)
		require.Equal(t, i, *c.exited(id).ExitCode)
		require.Equal(t, fmt.Sprintln(i), string(c.record(id).head))
	}
}

func TestLogTheControlPlaneHasLostIsNamed(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "yes | head -c 5000000; while [ ! -e go ]; do sleep 0.02; done; echo end"})
	c.reached("att_1", 5_000_000)
	c.mu.Lock()
	r := c.attempts["att_1"]
	r.next, r.head = 100, r.head[:100]
	c.mu.Unlock()
	c.cut()
	c.contains("att_1", " bytes of log are missing here")
	c.cancel("att_1")
	s := c.exited("att_1")
	require.Equal(t, s.LogEnd, c.received("att_1"))
}

func TestNothingIsLeakedByAttempts(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	n := 0
	run := func(count int) {
		for range count {
			n++
			id := fmt.Sprint("att_", n)
			c.start(agent.Attempt{ID: id, Command: "echo hello; echo world >&2"})
			c.exited(id)
		}
	}
	open := func(pid int) int {
		fds, _ := os.ReadDir(proc.Path(pid, "fd"))
		maps, _ := os.ReadFile(proc.Path(pid, "maps"))
		return len(fds) + strings.Count(string(maps), "memfd:millpond")
	}
	settled := func() bool {
		entries, err := os.ReadDir(filepath.Join(o.Dir, "trash"))
		return err == nil && len(entries) == 0
	}
	run(10)
	waitFor(t, settled)
	before := open(os.Getpid())
	run(40)
	waitFor(t, settled)
	waitFor(t, func() bool { return open(os.Getpid()) <= before+4 }) // streams of the tunnel open and close
	for _, pid := range idleShims() {
		waitFor(t, func() bool { return open(pid) < 20 }) // a shim closes its files shortly after it reports an end
	}
}

// TestAnAttemptThatWasCancelledOnItsWayIsNotStarted: the agent gets the cancellation before the
// start.
func TestAnAttemptThatWasCancelledOnItsWayIsNotStarted(t *testing.T) {
	c := newControl(t)
	c.beat = 20 * time.Millisecond
	o := c.options()
	c.agent(o)
	a := agent.Attempt{ID: "att_1", Command: "sleep 1000"}
	c.want(a)
	c.mu.Lock()
	c.extra = []agent.DesiredAttempt{{ID: a.ID, Desire: agent.DesireCancel}}
	c.mu.Unlock()
	require.Equal(t, agent.ReasonCancelled, c.exited(a.ID).Reason)
	require.Equal(t, http.StatusNoContent, c.put(a.ID, a), "it is accepted, and not started")
	require.NoDirExists(t, filepath.Join(o.Dir, "attempts", a.ID))
}
