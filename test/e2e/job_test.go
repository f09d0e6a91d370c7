package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// task declares one task of a DAG.
func task(key, command string, after ...string) map[string]any {
	return map[string]any{"key": key, "command": command, "depends_on": after}
}

// TestJobs runs all features of jobs on the real binary.
func TestJobs(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--agent-slots", "16"}})
	p.Must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 100}, nil)
	for name, test := range map[string]func(*testing.T, *harness.Platform){
		"a fan-out and a fan-in":             fanOutAndIn,
		"a failure skips what depends on it": failureSkips,
		"parameters and environment":         parametersAndEnvironment,
		"a retry waits longer each time":     retries,
		"a time-out ends a task":             timeOut,
		"a limit lets runs through in order": limit,
		"a repair runs what did not succeed": repair,
		"a run is a frozen copy of the job":  frozen,
		"a cancel before the start":          cancelBeforeStart,
		"a cancel of a retry that waits":     cancelBackOff,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *p // each has its own t
			own.T = t
			test(t, &own)
		})
	}
}

func fanOutAndIn(t *testing.T, p *harness.Platform) {
	tasks := []any{task("split", "echo split")}
	var parts []string
	for _, part := range strings.Split("abcdefgh", "") {
		tasks = append(tasks, task(part, "sleep 0.3; echo "+part, "split"))
		parts = append(parts, part)
	}
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": append(tasks, task("join", "echo join", parts...))}))
	p.RequireTrueEnd(run, "success")
	split, join := p.TaskRow(run, "split"), p.TaskRow(run, "join")
	for _, part := range parts {
		row := p.TaskRow(run, part)
		require.Equal(t, "success", row.Status)
		require.False(t, row.StartedAt.Before(*split.FinishedAt), "%s began before split ended", part)
		require.False(t, join.StartedAt.Before(*row.FinishedAt), "join began before %s ended", part)
		require.Equal(t, part+"\n", p.LogText(run, part))
	}
	require.Equal(t, "join\n", p.LogText(run, "join"))
}

func failureSkips(t *testing.T, p *harness.Platform) {
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{
		task("good", "true"), task("bad", "echo no; exit 7"), task("behind", "true", "bad", "good"), task("far-behind", "true", "behind"), task("beside", "true", "good"),
	}}))
	attempts := p.RequireTrueEnd(run, "failed")
	require.Len(t, attempts, 3, "a skipped task has no attempt")
	require.Equal(t, "bad: The process ended with exit code 7.", p.RunRow(run).Message)
	for key, status := range map[string]string{"good": "success", "bad": "failed", "behind": "skipped", "far-behind": "skipped", "beside": "success"} {
		require.Equal(t, status, p.TaskRow(run, key).Status, key)
	}
	require.Contains(t, p.TaskRow(run, "behind").Message, "bad")
	require.Contains(t, p.TaskRow(run, "far-behind").Message, "behind")
}

func parametersAndEnvironment(t *testing.T, p *harness.Platform) {
	show := task("show", `printf '%s|' "$DAY" "$REGION" "$OF_JOB" "$OF_TASK" "$BOTH" "$MILLPOND_RUN_ID" "$MILLPOND_TASK_KEY" "$MILLPOND_ATTEMPT" "$MILLPOND_URL"; `+
		`test -n "$MILLPOND_TOKEN" && echo token; env | grep -c MILLPOND_AGENT`)
	show["environment"] = map[string]string{"OF_TASK": "a 'task'\n\"line\"", "BOTH": "task"}
	job := p.CreateJob(map[string]any{
		"tasks": []any{show}, "environment": map[string]string{"OF_JOB": "jöb", "BOTH": "job"},
		"parameters": map[string]string{"DAY": "monday", "REGION": "$(hostname)"},
	})
	var started struct {
		RunID string `json:"run_id"`
	}
	p.Must(http.MethodPost, "/jobs/"+job+"/run", map[string]any{"parameters": map[string]string{"DAY": "tuesday"}}, &started)
	p.AwaitRun(started.RunID)
	require.Equal(t, "tuesday|$(hostname)|jöb|a 'task'\n\"line\"|task|"+started.RunID+"|show|1|"+p.Servers[0].URL+"|token\n0\n", p.LogText(started.RunID, "show"))
	err := p.Do(t.Context(), http.MethodPost, "/jobs/"+job+"/run", map[string]any{"parameters": map[string]string{"NIGHT": "x"}}, nil)
	require.Equal(t, http.StatusBadRequest, harness.Status(err))
}

func retries(t *testing.T, p *harness.Platform) {
	flaky := task("flaky", `echo try $MILLPOND_ATTEMPT $MILLPOND_RETRY_COUNT; test $MILLPOND_ATTEMPT -ge 3`)
	flaky["max_retries"] = 5
	hopeless := task("hopeless", "exit 9")
	hopeless["max_retries"] = 1
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{flaky, hopeless}}))
	attempts := p.RequireTrueEnd(run, "failed")
	var tries []harness.AttemptRow
	for _, a := range attempts {
		if a.TaskKey == "flaky" {
			tries = append(tries, a)
		}
	}
	require.Len(t, tries, 3)
	require.GreaterOrEqual(t, tries[1].StartedAt.Sub(*tries[0].FinishedAt), time.Second)
	require.GreaterOrEqual(t, tries[2].StartedAt.Sub(*tries[1].FinishedAt), 2*time.Second)
	require.Less(t, tries[2].StartedAt.Sub(*tries[1].FinishedAt), 4500*time.Millisecond, "the end of the back-off wakes the retry")
	row := p.TaskRow(run, "flaky")
	require.Equal(t, []any{"success", 2, 3}, []any{row.Status, row.RetryCount, row.Attempts})
	require.Equal(t, "try 3 2\n", p.LogText(run, "flaky"))
	row = p.TaskRow(run, "hopeless")
	require.Equal(t, []any{"failed", 1, 2}, []any{row.Status, row.RetryCount, row.Attempts})
}

func timeOut(t *testing.T, p *harness.Platform) {
	slow := task("slow", "echo begun; sleep 3600")
	slow["timeout_seconds"] = 1
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{slow, task("after", "true", "slow")}}))
	attempts := p.RequireTrueEnd(run, "failed")
	require.Len(t, attempts, 1)
	require.Equal(t, "failed", attempts[0].Status)
	require.Contains(t, attempts[0].Message, "time-out")
	took := attempts[0].FinishedAt.Sub(*attempts[0].StartedAt)
	require.GreaterOrEqual(t, took, time.Second)
	require.Less(t, took, 9*time.Second, "SIGTERM ends it before the grace period is over")
	require.Equal(t, "begun\n", p.LogText(run, "slow"))
	require.Equal(t, "skipped", p.TaskRow(run, "after").Status)
}

func limit(t *testing.T, p *harness.Platform) {
	job := p.CreateJob(map[string]any{"command": "sleep 0.5", "max_concurrent_runs": 1})
	var runs []string
	for range 4 {
		runs = append(runs, p.StartRun(job))
	}
	waiting := p.RunRow(runs[3])
	require.Equal(t, "pending", waiting.Status)
	require.Equal(t, "Waits for an earlier run of the job to end.", waiting.Message)
	for i, run := range runs {
		p.RequireTrueEnd(run, "success")
		if i > 0 {
			require.False(t, p.RunRow(run).StartedAt.Before(*p.RunRow(runs[i-1]).FinishedAt), "run %d began before the one ahead of it ended", i)
		}
	}
}

func repair(t *testing.T, p *harness.Platform) {
	arena := p.Arena + "/repaired"
	run := p.StartRun(p.CreateJob(map[string]any{"environment": map[string]string{"FLAG": arena}, "tasks": []any{
		task("good", "echo once"), task("bad", `test -e "$FLAG" && echo mended`, "good"), task("behind", "echo behind", "bad"),
	}}))
	p.RequireTrueEnd(run, "failed")
	good := p.TaskRow(run, "good")
	p.Release(arena)
	p.Must(http.MethodPost, "/runs/"+run+"/repair", nil, nil)
	attempts := p.RequireTrueEnd(run, "success")
	require.Len(t, attempts, 4)
	require.Equal(t, good, p.TaskRow(run, "good"), "a succeeded task is left alone")
	bad := p.TaskRow(run, "bad")
	require.Equal(t, []any{"success", 1, 2}, []any{bad.Status, bad.RetryCount, bad.Attempts})
	require.Equal(t, "mended\n", p.LogText(run, "bad"))
	require.Equal(t, "behind\n", p.LogText(run, "behind"))
	require.Equal(t, http.StatusConflict, harness.Status(p.Do(t.Context(), http.MethodPost, "/runs/"+run+"/repair", nil, nil)))
}

func frozen(t *testing.T, p *harness.Platform) {
	gate := p.Arena + "/frozen"
	job := p.CreateJob(map[string]any{"environment": map[string]string{"GATE": gate}, "tasks": []any{
		task("first", `until test -e "$GATE"; do sleep 0.05; done`), task("second", "echo as it was", "first"),
	}})
	run := p.StartRun(job)
	p.Must(http.MethodPatch, "/jobs/"+job, map[string]any{"tasks": []any{task("other", "echo as it is")}}, nil)
	p.Release(gate)
	p.RequireTrueEnd(run, "success")
	require.Equal(t, "as it was\n", p.LogText(run, "second"))
	after := p.StartRun(job)
	p.RequireTrueEnd(after, "success")
	require.Equal(t, "as it is\n", p.LogText(after, "other"))
}

func cancelBeforeStart(t *testing.T, p *harness.Platform) {
	gate := p.Arena + "/ahead"
	job := p.CreateJob(map[string]any{
		"command": `until test -e "$GATE"; do sleep 0.05; done`, "environment": map[string]string{"GATE": gate}, "max_concurrent_runs": 1,
	})
	ahead, held := p.StartRun(job), p.StartRun(job)
	var answer harness.RunRow
	p.Must(http.MethodPost, "/runs/"+held+"/cancel", nil, &answer)
	require.Equal(t, "cancelled", answer.Status, "a run that has not begun is over at once")
	p.Release(gate)
	p.RequireTrueEnd(ahead, "success")
	require.Empty(t, p.Attempts(held))
	require.Equal(t, http.StatusConflict, harness.Status(p.Do(t.Context(), http.MethodPost, "/runs/"+ahead+"/cancel", nil, nil)))
}

func cancelBackOff(t *testing.T, p *harness.Platform) {
	w := task("fails", "exit 1")
	w["max_retries"] = 20
	run := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{w}}))
	harness.Await(t, "a later retry waits", func() bool {
		row := p.Tasks(run)
		return len(row) == 1 && row[0].Status == "queued" && row[0].Attempts >= 2
	})
	p.Must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
	p.RequireTrueEnd(run, "cancelled")
	require.Equal(t, "cancelled", p.TaskRow(run, "fails").Status)
}

// TestFreeSlot: a slot that a run no longer needs goes to the next run at once, although the first
// run goes on.
func TestFreeSlot(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--agent-slots", "2"}})
	wait := func(file string) string { return "until test -e " + p.Arena + "/" + file + "; do sleep 0.02; done" }
	for _, round := range []string{"a", "b", "c", "d"} {
		long := p.StartRun(p.CreateJob(map[string]any{"tasks": []any{task("short", wait("short-"+round)), task("long", wait("long-"+round))}}))
		harness.Await(t, "both slots are in use", func() bool {
			rows := p.Tasks(long)
			return len(rows) == 2 && rows[0].Status == "running" && rows[1].Status == "running"
		})
		next := p.StartRun(p.CreateJob(map[string]any{"command": "true"}))
		harness.Await(t, "the next run waits", func() bool { return strings.Contains(p.RunRow(next).Message, "slot") })
		p.Release(p.Arena + "/short-" + round)
		p.RequireTrueEnd(next, "success")
		short, began := p.TaskRow(long, "short"), p.RunRow(next).StartedAt
		require.Less(t, began.Sub(*short.FinishedAt), 2500*time.Millisecond, "the slot stood empty")
		p.Release(p.Arena + "/long-" + round)
		p.RequireTrueEnd(long, "success")
	}
}

// TestSchedule waits for a real minute. The tick waits for the quota, the run starts once the quota
// allows it, and a paused schedule starts nothing.
func TestSchedule(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{})
	p.Must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 0}, nil)
	every := map[string]any{"cron": "* * * * *", "time_zone": "Asia/Kathmandu"}
	job := p.CreateJob(map[string]any{"command": "echo on time", "schedule": every})
	paused := p.CreateJob(map[string]any{"command": "true", "schedule": map[string]any{"cron": "* * * * *", "paused": true}})
	var row struct {
		Schedule struct {
			NextAt       *time.Time `json:"next_at"`
			WaitingSince *time.Time `json:"waiting_since"`
			Missed       int
		}
	}
	p.Must(http.MethodGet, "/jobs/"+job, nil, &row)
	due := *row.Schedule.NextAt
	if row.Schedule.WaitingSince != nil { // a new minute has just begun
		due = *row.Schedule.WaitingSince
	}
	require.Zero(t, due.Second())
	require.LessOrEqual(t, time.Until(due), time.Minute)
	harness.Await(t, "the tick waits for the quota", func() bool {
		return p.Get("/jobs/"+job, &row) && row.Schedule.WaitingSince != nil
	})
	require.True(t, due.Equal(*row.Schedule.WaitingSince))
	require.False(t, time.Now().Before(due))
	var runs harness.Page[harness.RunRow]
	p.Must(http.MethodGet, "/runs", nil, &runs)
	require.Empty(t, runs.Data)

	p.Must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 1}, nil)
	raised := time.Now()
	harness.Await(t, "the run starts", func() bool { return p.Get("/jobs/"+job+"/runs", &runs) && len(runs.Data) > 0 })
	require.Less(t, time.Since(raised), 15*time.Second, "the raised quota wakes the schedules")
	require.Equal(t, "schedule", runs.Data[0].Trigger)
	p.RequireTrueEnd(runs.Data[0].ID, "success")
	require.Equal(t, "on time\n", p.LogText(runs.Data[0].ID, ""))
	p.Must(http.MethodGet, "/jobs/"+paused+"/runs", nil, &runs)
	require.Empty(t, runs.Data)
}
