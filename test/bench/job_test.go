package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// gatedJob is a created job, and the gate that its tasks wait for.
type gatedJob struct {
	id   string
	gate *os.File // locked until it is opened
}

// newJob creates a job of parallel tasks that write. They wait for the gate.
func (p *platform) newJob(tasks int, w writing) gatedJob {
	p.b.Helper()
	p.jobs++
	gate, err := os.Create(filepath.Join(p.dir, fmt.Sprintf("gate-%d", p.jobs)))
	require.NoError(p.b, err)
	require.NoError(p.b, unix.Flock(int(gate.Fd()), unix.LOCK_EX))
	j := gatedJob{gate: gate}
	w.gate = gate.Name()
	var all []map[string]any
	for i := range tasks {
		all = append(all, map[string]any{"key": taskKey(i), "command": "exec " + taskProgram()})
	}
	j.id = p.createJob(map[string]any{"name": fmt.Sprintf("bench-%d", p.jobs), "tasks": all, "environment": w.environment()})
	return j
}

func taskKey(i int) string { return fmt.Sprintf("t%03d", i) }

func (p *platform) createJob(body any) string {
	p.b.Helper()
	var made struct{ ID string }
	require.NoError(p.b, p.do(http.MethodPost, "/jobs", body, &made))
	return made.ID
}

// open starts the waiting tasks.
func (j gatedJob) open() error { return j.gate.Close() }

// startRun starts a run and returns its id.
func (p *platform) startRun(job string) string {
	p.b.Helper()
	var started struct {
		RunID string `json:"run_id"`
	}
	require.NoError(p.b, p.do(http.MethodPost, "/jobs/"+job+"/run", nil, &started))
	return started.RunID
}

// runState is a run as the API shows it.
type runState struct {
	Status     string     `json:"status"`
	FinishedAt *time.Time `json:"finished_at"`
}

// awaitRun waits for the run's successful end. It returns the time at which this client knew of it.
func (p *platform) awaitRun(run string, every time.Duration) (state runState, known time.Time) {
	p.b.Helper()
	await(p.b, "the run ends", every, func() bool {
		state = runState{}
		require.NoError(p.b, p.do(http.MethodGet, "/runs/"+run, nil, &state))
		known = time.Now()
		return state.FinishedAt != nil
	})
	require.Equal(p.b, "success", state.Status)
	return state, known
}

// awaitProcesses waits until all tasks of the run have a process, and returns their attempts by
// task key.
func (p *platform) awaitProcesses(run string, tasks int) map[string]string {
	p.b.Helper()
	attempts := map[string]string{}
	await(p.b, "all tasks run", 100*time.Millisecond, func() bool {
		var all []struct {
			ID      string `json:"id"`
			TaskKey string `json:"task_key"`
			Status  string `json:"status"`
			Message string `json:"message"`
		}
		require.NoError(p.b, p.do(http.MethodGet, "/runs/"+run+"/attempts", nil, &all))
		for _, a := range all {
			require.Contains(p.b, []string{"starting", "running"}, a.Status, "task %s: %s %s", a.TaskKey, a.Message, p.log(run, a.TaskKey))
			if a.Status == "running" {
				attempts[a.TaskKey] = a.ID
			}
		}
		return len(attempts) == tasks
	})
	return attempts
}

// log returns the log of a task so far.
func (p *platform) log(run, key string) string {
	res, err := p.request(context.Background(), http.MethodGet, "/runs/"+run+"/tasks/"+key+"/logs", nil)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
