package harness

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// Platform is an instance with its own database, one or two servers and an agent beside the first.
type Platform struct {
	*Client // of the last server; with two replicas, the one without the agent
	T       testing.TB
	Dir     string // data directory of the first server
	Arena   string // a directory that every task can write to
	Servers []*Server
}

// Options of a platform.
type Options struct {
	Replicas int      // 1 or 2; 0 stands for 1
	Args     []string // of the first server
	NoAgent  bool     // the test starts an agent itself
}

// NewPlatform starts a platform. Its agent is connected on return.
func NewPlatform(t testing.TB, o Options) *Platform {
	t.Helper()
	from := seed(t)
	p := &Platform{T: t, Dir: NewDir(t)}
	out, err := exec.Command("cp", "-a", from.dir+"/.", p.Dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.Arena = filepath.Join(p.Dir, "arena")
	p.Mkdir(p.Arena)
	t.Cleanup(p.End)
	args := o.Args
	if o.NoAgent {
		args = append([]string{"--no-local-agent"}, args...)
	}
	p.Servers = []*Server{NewServer(t, p.Dir, args...)}
	p.Client = &Client{URL: p.Servers[0].URL, Key: from.key}
	p.Servers[0].Start()
	if o.Replicas == 2 {
		p.addReplica()
	}
	if !o.NoAgent {
		p.AwaitAgent("connected")
	}
	return p
}

// AgentByHand starts an agent for the platform at the address. kill ends it with SIGKILL. A second
// agent uses the first one's directory.
func (p *Platform) AgentByHand(address string) (kill func()) {
	p.T.Helper()
	cmd := Command(p.T, "agent", "--server", address, "--token-file", filepath.Join(p.Dir, "agent.token"), "--data-dir", filepath.Join(p.Dir, "agent"))
	log, err := os.OpenFile(filepath.Join(p.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.T, err)
	defer func() { require.NoError(p.T, log.Close()) }()
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(p.T, cmd.Start())
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	p.T.Cleanup(kill)
	p.AwaitAgent("connected")
	return kill
}

// addReplica starts a second server on the first one's database and storage.
func (p *Platform) addReplica() {
	p.T.Helper()
	dsn, err := os.ReadFile(filepath.Join(p.Dir, "database.url"))
	require.NoError(p.T, err)
	s := NewServer(p.T, NewDir(p.T), "--database", string(dsn), "--storage", "file://"+filepath.Join(p.Dir, "objects"), "--no-local-agent")
	s.Start()
	p.Servers = append(p.Servers, s)
	p.Client = &Client{URL: s.URL, Key: p.Key}
}

// Lend directs failures to t, a subtest, while it runs.
func (p *Platform) Lend(t testing.TB) {
	owner := p.T
	hold := func(t testing.TB) {
		p.T = t
		for _, s := range p.Servers {
			s.T = t
		}
	}
	hold(t)
	t.Cleanup(func() { hold(owner) })
}

// End stops all processes of the platform, whatever state the test has left.
func (p *Platform) End() {
	if p.T.Failed() {
		p.showAgents()
	}
	for i := len(p.Servers) - 1; i >= 0; i-- {
		if s := p.Servers[i]; s.exited != nil && !s.Over() {
			s.Signal(syscall.SIGTERM)
		}
	}
	Await(p.T, "nothing of the platform is left", func() bool {
		left := p.Processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
	p.racesReported()
	p.removeGroups()
	require.NoError(p.T, os.RemoveAll(p.Dir))
}

// showAgents prints the ends of the logs of agents, machines and their Trino.
func (p *Platform) showAgents() {
	_ = filepath.WalkDir(p.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil {
			p.T.Logf("%s:\n%s", path, Last(string(b), 6<<10))
		}
		return nil
	})
}

// removeGroups removes the empty control groups of machines that were not stopped.
func (p *Platform) removeGroups() {
	records, _ := filepath.Glob(filepath.Join(p.Dir, "machines", "*", "machine.json"))
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

// racesReported fails the test if the race detector has reported a race in a server or the agent;
// see raceEnv.
func (p *Platform) racesReported() {
	log, _ := os.ReadFile(filepath.Join(p.Dir, "agent.log"))
	all := [][]byte{log}
	for _, s := range p.Servers {
		all = append(all, []byte(s.Out.String()))
	}
	for _, text := range all {
		if i := bytes.Index(text, []byte("WARNING: DATA RACE")); i >= 0 {
			p.T.Errorf("%s", text[i:min(len(text), i+6<<10)])
		}
	}
}

// Get reads and reports whether that succeeded. It fails while a part is down.
func (p *Platform) Get(path string, into any) bool {
	return p.Do(p.T.Context(), http.MethodGet, path, nil, into) == nil
}

// Must sends a request that must succeed.
func (p *Platform) Must(method, path string, body, into any) {
	p.T.Helper()
	require.NoError(p.T, p.Do(p.T.Context(), method, path, body, into), "%s %s", method, path)
}

// Post sends a request without a body, whose answer is not needed.
func (p *Platform) Post(path string) error {
	return p.Do(p.T.Context(), http.MethodPost, path, nil, nil)
}

// AwaitAgent waits until the workspace's agent has the status.
func (p *Platform) AwaitAgent(status string) {
	p.T.Helper()
	Await(p.T, "the agent is "+status, func() bool {
		var agents Page[AgentRow]
		return p.Get("/settings/agents", &agents) && len(agents.Data) == 1 && agents.Data[0].Status == status
	})
}

// CreateJob creates a job and returns its id.
func (p *Platform) CreateJob(spec map[string]any) string {
	p.T.Helper()
	var made struct{ ID string }
	if spec["name"] == nil {
		spec["name"] = p.T.Name()
	}
	p.Must(http.MethodPost, "/jobs", spec, &made)
	return made.ID
}

// StartRun starts a run of the job and returns its id.
func (p *Platform) StartRun(job string) string {
	p.T.Helper()
	var started struct {
		RunID string `json:"run_id"`
	}
	p.Must(http.MethodPost, "/jobs/"+job+"/run", nil, &started)
	return started.RunID
}

// RunRow returns the run; an empty one if the platform does not answer.
func (p *Platform) RunRow(run string) (r RunRow) {
	p.Get("/runs/"+run, &r)
	return r
}

// Tasks returns the run's tasks; none if the platform does not answer.
func (p *Platform) Tasks(run string) (t []TaskRow) {
	p.Get("/runs/"+run+"/tasks", &t)
	return t
}

// TaskRow returns the task, which must be there.
func (p *Platform) TaskRow(run, key string) TaskRow {
	p.T.Helper()
	for _, row := range p.Tasks(run) {
		if row.Key == key {
			return row
		}
	}
	p.T.Fatalf("the run %s has no task %q", run, key)
	return TaskRow{}
}

// Attempts returns the run's attempts so far; none if the platform does not answer.
func (p *Platform) Attempts(run string) (a []AttemptRow) {
	p.Get("/runs/"+run+"/attempts", &a)
	return a
}

// AwaitAttempt waits until there are number attempts and the latest has the status.
func (p *Platform) AwaitAttempt(run string, number int, status string) (found AttemptRow) {
	p.T.Helper()
	Await(p.T, fmt.Sprintf("attempt %d of %s is %s", number, run, status), func() bool {
		for _, a := range p.Attempts(run) {
			if a.Number == number && a.Status == status {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// AwaitRun waits for the run's end.
func (p *Platform) AwaitRun(run string) (r RunRow) {
	p.T.Helper()
	Await(p.T, "the run "+run+" ends", func() bool {
		r = p.RunRow(run)
		return r.Over()
	})
	return r
}

// RequireTrueEnd requires that the run has the status and that all its tasks and attempts have
// ended.
func (p *Platform) RequireTrueEnd(run, status string) []AttemptRow {
	p.T.Helper()
	r := p.AwaitRun(run)
	if r.Status != status {
		p.showLogs(run)
	}
	require.Equal(p.T, status, r.Status, r.Message)
	require.NotNil(p.T, r.FinishedAt)
	for _, task := range p.Tasks(run) {
		require.Contains(p.T, []string{"success", "failed", "cancelled", "skipped"}, task.Status, task.Key)
	}
	attempts := p.Attempts(run)
	for _, a := range attempts {
		require.NotContains(p.T, []string{"starting", "running"}, a.Status, a.ID)
		require.NotNil(p.T, a.FinishedAt)
	}
	return attempts
}

// showLogs prints the ends of the logs of a run with an unexpected status.
func (p *Platform) showLogs(run string) {
	for _, a := range p.Attempts(run) {
		res, err := p.Send(p.T.Context(), http.MethodGet, fmt.Sprintf("/runs/%s/tasks/%s/logs?attempt=%d", run, a.TaskKey, a.Number), nil, nil)
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		p.T.Logf("%s %d %s: %s\n%q", a.TaskKey, a.Number, a.Status, a.Message, Last(string(text), 600))
	}
}

// LogText returns the log so far of a task's latest attempt. An empty key means a single command.
func (p *Platform) LogText(run, key string) string {
	path := "/runs/" + run + "/logs"
	if key != "" {
		path = "/runs/" + run + "/tasks/" + key + "/logs"
	}
	res, err := p.Send(p.T.Context(), http.MethodGet, path, nil, nil)
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

// Release creates a file that tasks wait for.
func (p *Platform) Release(file string) {
	p.T.Helper()
	require.NoError(p.T, os.WriteFile(file, nil, 0o644))
}

// Mkdir creates a directory that every task can write to.
func (p *Platform) Mkdir(dir string) {
	p.T.Helper()
	require.NoError(p.T, os.Mkdir(dir, 0o777))
	require.NoError(p.T, os.Chmod(dir, 0o777))
}

// Database opens the platform's own database as superuser.
func (p *Platform) Database() *sql.DB {
	p.T.Helper()
	dsn, err := os.ReadFile(filepath.Join(p.Dir, "database.url"))
	require.NoError(p.T, err)
	db, err := sql.Open("postgres", string(dsn))
	require.NoError(p.T, err)
	return db
}
