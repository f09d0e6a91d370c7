package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// trackingByPython logs to a new tracking run by the task's own settings, as any client of MLflow's
// protocol does, and says its id. It does not end the run.
const trackingByPython = `
import json, os, urllib.request

def call(path, body):
    request = urllib.request.Request(os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/" + path, json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))

run = call("runs/create", {"experiment_id": "0"})["run"]["info"]["run_id"]
call("runs/log-metric", {"run_id": run, "key": "loss", "value": 0.5, "timestamp": 1000})
print(run, flush=True)
`

// trackingRun is what the API shows of a tracking run.
type trackingRun struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	JobRunID string `json:"job_run_id"`
	Task     string `json:"task"`
	Finished string `json:"finished_at"`
	Metrics  []struct {
		Key   string  `json:"key"`
		Value float64 `json:"value"`
	} `json:"metrics"`
}

// trackingRunsOf returns the tracking runs of Default that the job's run made.
func trackingRunsOf(p *harness.Platform, run string) (made []trackingRun) {
	p.T.Helper()
	var list struct {
		Data []trackingRun `json:"data"`
	}
	p.Must(http.MethodGet, "/experiments/0/runs", nil, &list)
	for _, r := range list.Data {
		if r.JobRunID == run {
			made = append(made, r)
		}
	}
	return made
}

// TestTrackingInATask: a task's tracking run belongs to the task, and ends with it.
func TestTrackingInATask(t *testing.T) {
	t.Parallel()
	python := pyiceberg(t)
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples"}})
	start := func(then string) string {
		command := "cat > task.py <<'END'\n" + trackingByPython + then + "\nEND\nexec " + python + " task.py"
		return p.StartRun(p.CreateJob(map[string]any{"tasks": []any{map[string]any{"key": "train", "command": command}}}))
	}
	becomes := func(run, status string) trackingRun {
		t.Helper()
		harness.Await(t, "the tracking run is "+status, func() bool {
			made := trackingRunsOf(p, run)
			return len(made) == 1 && made[0].Status == status
		})
		return trackingRunsOf(p, run)[0]
	}
	ended := becomes(start(`call("runs/update", {"run_id": run, "status": "FINISHED"})`), "finished")
	require.Equal(t, "train", ended.Task)
	require.Equal(t, "loss", ended.Metrics[0].Key)
	require.InDelta(t, 0.5, ended.Metrics[0].Value, 0)
	require.NotEmpty(t, becomes(start(`raise SystemExit(3)`), "failed").Finished)

	sql := `import subprocess
subprocess.run(["millpond", "sql", "CREATE TABLE IF NOT EXISTS lake.public.taught AS SELECT 1 AS n"], check=True)
call("runs/update", {"run_id": run, "status": "FINISHED"})
subprocess.run(["millpond", "sql", "CREATE TABLE IF NOT EXISTS lake.public.later AS SELECT * FROM lake.public.taught"], check=True)`
	wrote := start(sql)
	becomes(wrote, "finished")
	p.RequireTrueEnd(wrote, "success")
	var lineage struct{ Read, Written []string }
	p.Must(http.MethodGet, "/experiments/0/runs/"+trackingRunsOf(p, wrote)[0].ID+"/lineage", nil, &lineage)
	require.Empty(t, lineage.Read)
	require.Equal(t, []string{"lake.public.taught"}, lineage.Written, "the rest was written after the run's end")

	cancelled := start("import time\ntime.sleep(600)")
	becomes(cancelled, "running")
	p.Must(http.MethodPost, "/runs/"+cancelled+"/cancel", nil, nil)
	require.NotEmpty(t, becomes(cancelled, "killed").Finished)
}
