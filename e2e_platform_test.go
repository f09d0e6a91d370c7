package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// platform is an instance with its own database, one or two servers and an agent beside the first.
type platform struct {
	*client // of the last server: with two replicas, the one without the agent
	t       testing.TB
	dir     string
	arena   string // a directory that every task can write to
	servers []*server
}

// options of a platform.
type options struct {
	replicas int // 1 or 2; 0 stands for 1
	args     []string
	noAgent  bool // the test starts one by hand
}

// newPlatform starts a platform. Its agent is connected.
func newPlatform(t testing.TB, o options) *platform {
	t.Helper()
	from := seed(t)
	p := &platform{t: t, dir: newDir(t)}
	out, err := exec.Command("cp", "-a", from.dir+"/.", p.dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.arena = filepath.Join(p.dir, "arena")
	p.mkdir(p.arena)
	t.Cleanup(p.end)
	args := o.args
	if o.noAgent {
		args = append([]string{"--no-local-agent"}, args...)
	}
	p.servers = []*server{newServer(t, p.dir, args...)}
	p.client = &client{url: p.servers[0].url, key: from.key}
	p.servers[0].start()
	if o.replicas == 2 {
		p.addReplica()
	}
	if !o.noAgent {
		p.awaitAgent("connected")
	}
	return p
}

// agentByHand starts an agent that finds the platform at the address, and returns how to kill it with SIGKILL. A second one works in the
// directory of the first.
func (p *platform) agentByHand(address string) (kill func()) {
	p.t.Helper()
	cmd := command(p.t, "agent", "--server", address, "--token-file", filepath.Join(p.dir, "agent.token"), "--data-dir", filepath.Join(p.dir, "agent"))
	log, err := os.OpenFile(filepath.Join(p.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, log.Close()) }()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(p.t, cmd.Start())
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	p.t.Cleanup(kill)
	p.awaitAgent("connected")
	return kill
}

// addReplica starts a second server on the first one's database and storage.
func (p *platform) addReplica() {
	p.t.Helper()
	dsn, err := os.ReadFile(filepath.Join(p.dir, "database.url"))
	require.NoError(p.t, err)
	s := newServer(p.t, newDir(p.t), "--database", string(dsn), "--storage", "file://"+filepath.Join(p.dir, "objects"), "--no-local-agent")
	s.start()
	p.servers = append(p.servers, s)
	p.client = &client{url: s.url, key: p.key}
}

// lend makes what fails while t runs fail t, a subtest.
func (p *platform) lend(t testing.TB) {
	owner := p.t
	hold := func(t testing.TB) {
		p.t = t
		for _, s := range p.servers {
			s.t = t
		}
	}
	hold(t)
	t.Cleanup(func() { hold(owner) })
}

// end stops everything that belongs to the platform, whatever state the test has left it in.
func (p *platform) end() {
	if p.t.Failed() {
		for _, name := range []string{"agent.log", "agent/shim.log"} {
			if b, err := os.ReadFile(filepath.Join(p.dir, name)); err == nil {
				p.t.Logf("%s:\n%s", name, last(string(b), 6<<10))
			}
		}
	}
	for i := len(p.servers) - 1; i >= 0; i-- {
		if s := p.servers[i]; s.exited != nil && !s.over() {
			s.signal(syscall.SIGTERM)
		}
	}
	await(p.t, "nothing of the platform is left", func() bool {
		left := p.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
	p.racesReported()
	p.removeGroups()
	require.NoError(p.t, os.RemoveAll(p.dir))
}

// removeGroups removes the control groups of machines that were not stopped, which are empty by now.
func (p *platform) removeGroups() {
	records, _ := filepath.Glob(filepath.Join(p.dir, "machines", "*", "machine.json"))
	for _, path := range records {
		var record struct{ Cgroup string }
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &record) == nil && record.Cgroup != "" {
			below, _ := filepath.Glob(filepath.Join(record.Cgroup, "*", "cgroup.procs"))
			for _, procs := range below {
				_ = os.Remove(filepath.Dir(procs))
			}
			_ = os.Remove(record.Cgroup)
		}
	}
}

// racesReported fails the test when the race detector has found something in a server or the agent; see raceEnv.
func (p *platform) racesReported() {
	log, _ := os.ReadFile(filepath.Join(p.dir, "agent.log"))
	all := [][]byte{log}
	for _, s := range p.servers {
		all = append(all, []byte(s.out.String()))
	}
	for _, text := range all {
		if i := bytes.Index(text, []byte("WARNING: DATA RACE")); i >= 0 {
			p.t.Errorf("%s", text[i:min(len(text), i+6<<10)])
		}
	}
}

// get reads and says whether that worked: while something is down, it does not.
func (p *platform) get(path string, into any) bool {
	return p.do(p.t.Context(), http.MethodGet, path, nil, into) == nil
}

// must makes a request that has to succeed.
func (p *platform) must(method, path string, body, into any) {
	p.t.Helper()
	require.NoError(p.t, p.do(p.t.Context(), method, path, body, into), "%s %s", method, path)
}

type page[T any] struct {
	Data []T `json:"data"`
}

type agentRow struct {
	ID, Status string
	Busy       int
}

func (p *platform) awaitAgent(status string) {
	p.t.Helper()
	await(p.t, "the agent is "+status, func() bool {
		var agents page[agentRow]
		return p.get("/settings/agents", &agents) && len(agents.Data) == 1 && agents.Data[0].Status == status
	})
}

type runRow struct {
	ID              string
	Status          string
	Message         string
	Trigger         string
	CancelRequested *time.Time `json:"cancel_requested_at"`
	CreatedAt       time.Time  `json:"created_at"`
	StartedAt       *time.Time `json:"started_at"`
	FinishedAt      *time.Time `json:"finished_at"`
}

func (r runRow) over() bool {
	return r.Status == "success" || r.Status == "failed" || r.Status == "cancelled"
}

type taskRow struct {
	Key, Status, Message string
	RetryCount           int `json:"retry_count"`
	Attempts             int
	StartedAt            *time.Time `json:"started_at"`
	FinishedAt           *time.Time `json:"finished_at"`
}

type attemptRow struct {
	ID, Status, Message, Signal string
	TaskKey                     string `json:"task_key"`
	Number                      int
	ExitCode                    *int       `json:"exit_code"`
	StartedAt                   *time.Time `json:"started_at"`
	FinishedAt                  *time.Time `json:"finished_at"`
}

// job makes a job and returns its id.
func (p *platform) job(spec map[string]any) string {
	p.t.Helper()
	var made struct{ ID string }
	if spec["name"] == nil {
		spec["name"] = p.t.Name()
	}
	p.must(http.MethodPost, "/jobs", spec, &made)
	return made.ID
}

// run starts a run of the job and returns its id.
func (p *platform) run(job string) string {
	p.t.Helper()
	var started struct {
		RunID string `json:"run_id"`
	}
	p.must(http.MethodPost, "/jobs/"+job+"/run", nil, &started)
	return started.RunID
}

func (p *platform) runRow(run string) (r runRow) {
	p.get("/runs/"+run, &r)
	return r
}

func (p *platform) tasks(run string) (t []taskRow) {
	p.get("/runs/"+run+"/tasks", &t)
	return t
}

func (p *platform) attempts(run string) (a []attemptRow) {
	p.get("/runs/"+run+"/attempts", &a)
	return a
}

// awaitAttempt waits until the latest of number attempts has the status.
func (p *platform) awaitAttempt(run string, number int, status string) (found attemptRow) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("attempt %d of %s is %s", number, run, status), func() bool {
		for _, a := range p.attempts(run) {
			if a.Number == number && a.Status == status {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// awaitRun waits for the run's end.
func (p *platform) awaitRun(run string) (r runRow) {
	p.t.Helper()
	await(p.t, "the run "+run+" ends", func() bool {
		r = p.runRow(run)
		return r.over()
	})
	return r
}

// requireTrueEnd holds a run that is over to what that means: everything below it is over too.
func (p *platform) requireTrueEnd(run, status string) []attemptRow {
	p.t.Helper()
	r := p.awaitRun(run)
	if r.Status != status {
		p.showLogs(run)
	}
	require.Equal(p.t, status, r.Status, r.Message)
	require.NotNil(p.t, r.FinishedAt)
	for _, task := range p.tasks(run) {
		require.Contains(p.t, []string{"success", "failed", "cancelled", "skipped"}, task.Status, task.Key)
	}
	attempts := p.attempts(run)
	for _, a := range attempts {
		require.NotContains(p.t, []string{"starting", "running"}, a.Status, a.ID)
		require.NotNil(p.t, a.FinishedAt)
	}
	return attempts
}

// showLogs prints the ends of the logs of a run that did not come to what it should.
func (p *platform) showLogs(run string) {
	for _, a := range p.attempts(run) {
		res, err := p.send(p.t.Context(), http.MethodGet, fmt.Sprintf("/runs/%s/tasks/%s/logs?attempt=%d", run, a.TaskKey, a.Number), nil, nil)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		p.t.Logf("%s %d %s: %s\n%q", a.TaskKey, a.Number, a.Status, a.Message, last(string(text), 600))
	}
}

// text is the whole log of a task's latest attempt so far; of a single command, where the key is empty.
func (p *platform) text(run, key string) string {
	path := "/runs/" + run + "/logs"
	if key != "" {
		path = "/runs/" + run + "/tasks/" + key + "/logs"
	}
	res, err := p.send(p.t.Context(), http.MethodGet, path, nil, nil)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// release makes a file that tasks wait for.
func (p *platform) release(file string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(file, nil, 0o644))
}

// mkdir makes a directory that every task can write to.
func (p *platform) mkdir(dir string) {
	p.t.Helper()
	require.NoError(p.t, os.Mkdir(dir, 0o777))
	require.NoError(p.t, os.Chmod(dir, 0o777))
}
