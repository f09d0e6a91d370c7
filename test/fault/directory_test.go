package fault_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// serveElsewhere starts a server on another directory with the same administrator.
func serveElsewhere(p *harness.Platform, dir string, args ...string) *harness.Platform {
	p.T.Helper()
	other := &harness.Platform{T: p.T, Dir: dir, Arena: filepath.Join(dir, "arena")}
	p.T.Cleanup(other.End)
	s := harness.NewServer(p.T, dir, args...)
	other.Servers, other.Client = []*harness.Server{s}, &harness.Client{URL: s.URL, Key: p.Key}
	s.Start()
	return other
}

// TestACopyOfADataDirectory runs as a separate server. The original's machine and tasks run on, and
// the copy shows none of them.
func TestACopyOfADataDirectory(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	id := p.CreateCompute("m")
	require.NoError(t, p.Post("/compute/"+id+"/start"))
	p.AwaitCompute(id, "running")
	tasks := map[string]harness.Work{"here": steady(p, "here"), "there": steady(p, "there")}
	runs := map[string]string{"here": p.StartRun(p.CreateJob(tasks["here"].Spec(0))), "there": p.StartRun(p.CreateJob(on(tasks["there"].Spec(0), id)))}
	for _, run := range runs {
		p.AwaitAttempt(run, 1, "running")
	}
	p.Servers[0].Signal(syscall.SIGTERM) // a copy of a running database is unusable
	copied := harness.NewDir(t)
	require.NoError(t, exec.Command("cp", "-a", p.Dir+"/.", copied).Run())
	p.Servers[0].Start()
	p.AwaitAgent("connected")
	agents := []int{p.AgentPID(), p.MachineAgent(id)}

	other := serveElsewhere(p, copied)
	require.Contains(t, other.Servers[0].Out.String(), copied+" is a copy of "+p.Dir)
	other.AwaitAgent("connected")
	for name, run := range runs {
		require.Equal(t, "failed", other.AwaitRun(run).Status, name)
		require.Equal(t, "lost", other.Attempts(run)[0].Status, name)
	}
	other.AwaitCompute(id, "running")
	require.Equal(t, "success", other.AwaitRun(other.StartRun(other.CreateJob(map[string]any{"command": "true", "compute": id}))).Status)
	require.NoError(t, other.Post("/compute/"+id+"/stop"))
	other.AwaitCompute(id, "stopped")
	other.Servers[0].Signal(syscall.SIGTERM)

	require.Equal(t, agents, []int{p.AgentPID(), p.MachineAgent(id)})
	for name, run := range runs {
		tasks[name].Release(t)
		require.Len(t, p.RequireTrueEnd(run, "success"), 1)
	}
}

// TestAMovedDataDirectory: the log reports the move, and all data and machines go on.
func TestAMovedDataDirectory(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	run := p.StartRun(p.CreateJob(map[string]any{"command": "echo kept"}))
	require.Equal(t, "success", p.AwaitRun(run).Status)
	p.Servers[0].Signal(syscall.SIGTERM)
	moved := p.Dir + "-moved"
	require.NoError(t, os.Rename(p.Dir, moved))
	p.Mkdir(p.Dir)
	other := serveElsewhere(p, moved)
	require.Contains(t, other.Servers[0].Out.String(), moved+" was moved here from "+p.Dir)
	other.AwaitAgent("connected")
	require.Equal(t, "success", other.AwaitRun(other.StartRun(other.CreateJob(map[string]any{"command": "true"}))).Status)
	require.Equal(t, "kept\n", other.LogText(run, ""))
}

// TestADataDirectoryIsBegunAnew: all processes of a removed directory end by themselves. The new
// directory has the whole host.
func TestADataDirectoryIsBegunAnew(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	id := p.CreateCompute("m")
	w := steady(p, "work")
	w.Arena = harness.NewDir(t)
	run := p.StartRun(p.CreateJob(on(w.Spec(0), id)))
	a := p.AwaitAttempt(run, 1, "running")
	p.Servers[0].Signal(syscall.SIGKILL)
	before, postmaster := p.Processes(), p.Postmaster()
	pids, shim := harness.ProcessesOf(a.ID)
	before = append(append(before, pids...), shim)
	harness.Await(t, "the directory is removed", func() bool { return os.RemoveAll(p.Dir) == nil })
	p.Mkdir(p.Dir)
	p.Mkdir(p.Arena)
	p.Servers[0].Start()
	harness.Await(t, "the old directory's processes have ended", func() bool {
		left := false
		for _, pid := range before {
			left = left || pid != postmaster && alive(pid) // PostgreSQL checks its directory once a minute
		}
		return !left
	})
	key, err := harness.Administrator(p.Servers[0])
	require.NoError(t, err)
	p.Client = &harness.Client{URL: p.Servers[0].URL, Key: key}
	var flavors harness.Page[struct{ Name string }]
	p.Must(http.MethodGet, "/flavors", nil, &flavors)
	var whole harness.MachineRow
	p.Must(http.MethodPost, "/compute", map[string]string{"name": "whole", "flavor": flavors.Data[len(flavors.Data)-1].Name}, &whole)
	require.NoError(t, p.Post("/compute/"+whole.ID+"/start"))
	p.AwaitCompute(whole.ID, "running")
}

// TestAServerEndsWithItsDirectory: what is at the path later is another server's.
func TestAServerEndsWithItsDirectory(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples", "--no-local-machines"}})
	harness.Await(t, "the directory is removed", func() bool { return os.RemoveAll(p.Dir) == nil })
	p.Mkdir(p.Dir)
	harness.Await(t, "the server has ended", p.Servers[0].Over)
	left, err := os.ReadDir(p.Dir)
	require.NoError(t, err)
	require.Empty(t, left, "nothing is made in a directory of others")
}
