package main_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// task declares one task of a DAG.
func task(key, command string, after ...string) map[string]any {
	return map[string]any{"key": key, "command": command, "depends_on": after}
}

func (p *platform) taskRow(run, key string) taskRow {
	p.t.Helper()
	for _, row := range p.tasks(run) {
		if row.Key == key {
			return row
		}
	}
	p.t.Fatalf("the run %s has no task %q", run, key)
	return taskRow{}
}

// TestJobs is what jobs do, on the real wiring.
func TestJobs(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--agent-slots", "16"}})
	p.must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 100}, nil)
	for name, test := range map[string]func(*testing.T, *platform){
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
			own.t = t
			test(t, &own)
		})
	}
}

func fanOutAndIn(t *testing.T, p *platform) {
	tasks := []any{task("split", "echo split")}
	var parts []string
	for _, part := range strings.Split("abcdefgh", "") {
		tasks = append(tasks, task(part, "sleep 0.3; echo "+part, "split"))
		parts = append(parts, part)
	}
	run := p.run(p.job(map[string]any{"tasks": append(tasks, task("join", "echo join", parts...))}))
	p.requireTrueEnd(run, "success")
	split, join := p.taskRow(run, "split"), p.taskRow(run, "join")
	for _, part := range parts {
		row := p.taskRow(run, part)
		require.Equal(t, "success", row.Status)
		require.False(t, row.StartedAt.Before(*split.FinishedAt), "%s began before split ended", part)
		require.False(t, join.StartedAt.Before(*row.FinishedAt), "join began before %s ended", part)
		require.Equal(t, part+"\n", p.text(run, part))
	}
	require.Equal(t, "join\n", p.text(run, "join"))
}

func failureSkips(t *testing.T, p *platform) {
	run := p.run(p.job(map[string]any{"tasks": []any{
		task("good", "true"), task("bad", "echo no; exit 7"), task("behind", "true", "bad", "good"), task("far-behind", "true", "behind"), task("beside", "true", "good"),
	}}))
	attempts := p.requireTrueEnd(run, "failed")
	require.Len(t, attempts, 3, "what is skipped has no attempt")
	require.Equal(t, "bad: The process ended with exit code 7.", p.runRow(run).Message)
	for key, status := range map[string]string{"good": "success", "bad": "failed", "behind": "skipped", "far-behind": "skipped", "beside": "success"} {
		require.Equal(t, status, p.taskRow(run, key).Status, key)
	}
	require.Contains(t, p.taskRow(run, "behind").Message, "bad")
	require.Contains(t, p.taskRow(run, "far-behind").Message, "behind")
}

func parametersAndEnvironment(t *testing.T, p *platform) {
	show := task("show", `printf '%s|' "$DAY" "$REGION" "$OF_JOB" "$OF_TASK" "$BOTH" "$MILLPOND_RUN_ID" "$MILLPOND_TASK_KEY" "$MILLPOND_ATTEMPT" "$MILLPOND_URL"; `+
		`test -n "$MILLPOND_TOKEN" && echo token; env | grep -c MILLPOND_AGENT`)
	show["environment"] = map[string]string{"OF_TASK": "a 'task'\n\"line\"", "BOTH": "task"}
	job := p.job(map[string]any{
		"tasks": []any{show}, "environment": map[string]string{"OF_JOB": "jöb", "BOTH": "job"},
		"parameters": map[string]string{"DAY": "monday", "REGION": "$(hostname)"},
	})
	var started struct {
		RunID string `json:"run_id"`
	}
	p.must(http.MethodPost, "/jobs/"+job+"/run", map[string]any{"parameters": map[string]string{"DAY": "tuesday"}}, &started)
	p.awaitRun(started.RunID)
	require.Equal(t, "tuesday|$(hostname)|jöb|a 'task'\n\"line\"|task|"+started.RunID+"|show|1|"+p.servers[0].url+"|token\n0\n", p.text(started.RunID, "show"))
	err := p.do(t.Context(), http.MethodPost, "/jobs/"+job+"/run", map[string]any{"parameters": map[string]string{"NIGHT": "x"}}, nil)
	require.Equal(t, http.StatusBadRequest, status(err))
}

func retries(t *testing.T, p *platform) {
	flaky := task("flaky", `echo try $MILLPOND_ATTEMPT $MILLPOND_RETRY_COUNT; test $MILLPOND_ATTEMPT -ge 3`)
	flaky["max_retries"] = 5
	hopeless := task("hopeless", "exit 9")
	hopeless["max_retries"] = 1
	run := p.run(p.job(map[string]any{"tasks": []any{flaky, hopeless}}))
	attempts := p.requireTrueEnd(run, "failed")
	var tries []attemptRow
	for _, a := range attempts {
		if a.TaskKey == "flaky" {
			tries = append(tries, a)
		}
	}
	require.Len(t, tries, 3)
	require.GreaterOrEqual(t, tries[1].StartedAt.Sub(*tries[0].FinishedAt), time.Second)
	require.GreaterOrEqual(t, tries[2].StartedAt.Sub(*tries[1].FinishedAt), 2*time.Second)
	require.Less(t, tries[2].StartedAt.Sub(*tries[1].FinishedAt), 4500*time.Millisecond, "the back-off's end is waited for, not found at the next round")
	row := p.taskRow(run, "flaky")
	require.Equal(t, []any{"success", 2, 3}, []any{row.Status, row.RetryCount, row.Attempts})
	require.Equal(t, "try 3 2\n", p.text(run, "flaky"))
	row = p.taskRow(run, "hopeless")
	require.Equal(t, []any{"failed", 1, 2}, []any{row.Status, row.RetryCount, row.Attempts})
}

func timeOut(t *testing.T, p *platform) {
	slow := task("slow", "echo begun; sleep 3600")
	slow["timeout_seconds"] = 1
	run := p.run(p.job(map[string]any{"tasks": []any{slow, task("after", "true", "slow")}}))
	attempts := p.requireTrueEnd(run, "failed")
	require.Len(t, attempts, 1)
	require.Equal(t, "failed", attempts[0].Status)
	require.Contains(t, attempts[0].Message, "time-out")
	took := attempts[0].FinishedAt.Sub(*attempts[0].StartedAt)
	require.GreaterOrEqual(t, took, time.Second)
	require.Less(t, took, 9*time.Second, "SIGTERM ends it, before the grace is over")
	require.Equal(t, "begun\n", p.text(run, "slow"))
	require.Equal(t, "skipped", p.taskRow(run, "after").Status)
}

func limit(t *testing.T, p *platform) {
	job := p.job(map[string]any{"command": "sleep 0.5", "max_concurrent_runs": 1})
	var runs []string
	for range 4 {
		runs = append(runs, p.run(job))
	}
	waiting := p.runRow(runs[3])
	require.Equal(t, "pending", waiting.Status)
	require.Equal(t, "Waits for an earlier run of the job to end.", waiting.Message)
	for i, run := range runs {
		p.requireTrueEnd(run, "success")
		if i > 0 {
			require.False(t, p.runRow(run).StartedAt.Before(*p.runRow(runs[i-1]).FinishedAt), "run %d began before the one ahead of it ended", i)
		}
	}
}

func repair(t *testing.T, p *platform) {
	arena := p.arena + "/repaired"
	run := p.run(p.job(map[string]any{"environment": map[string]string{"FLAG": arena}, "tasks": []any{
		task("good", "echo once"), task("bad", `test -e "$FLAG" && echo mended`, "good"), task("behind", "echo behind", "bad"),
	}}))
	p.requireTrueEnd(run, "failed")
	good := p.taskRow(run, "good")
	p.release(arena)
	p.must(http.MethodPost, "/runs/"+run+"/repair", nil, nil)
	attempts := p.requireTrueEnd(run, "success")
	require.Len(t, attempts, 4)
	require.Equal(t, good, p.taskRow(run, "good"), "what had succeeded is left alone")
	bad := p.taskRow(run, "bad")
	require.Equal(t, []any{"success", 1, 2}, []any{bad.Status, bad.RetryCount, bad.Attempts})
	require.Equal(t, "mended\n", p.text(run, "bad"))
	require.Equal(t, "behind\n", p.text(run, "behind"))
	require.Equal(t, http.StatusConflict, status(p.do(t.Context(), http.MethodPost, "/runs/"+run+"/repair", nil, nil)))
}

func frozen(t *testing.T, p *platform) {
	gate := p.arena + "/frozen"
	job := p.job(map[string]any{"environment": map[string]string{"GATE": gate}, "tasks": []any{
		task("first", `until test -e "$GATE"; do sleep 0.05; done`), task("second", "echo as it was", "first"),
	}})
	run := p.run(job)
	p.must(http.MethodPatch, "/jobs/"+job, map[string]any{"tasks": []any{task("other", "echo as it is")}}, nil)
	p.release(gate)
	p.requireTrueEnd(run, "success")
	require.Equal(t, "as it was\n", p.text(run, "second"))
	after := p.run(job)
	p.requireTrueEnd(after, "success")
	require.Equal(t, "as it is\n", p.text(after, "other"))
}

func cancelBeforeStart(t *testing.T, p *platform) {
	gate := p.arena + "/ahead"
	job := p.job(map[string]any{
		"command": `until test -e "$GATE"; do sleep 0.05; done`, "environment": map[string]string{"GATE": gate}, "max_concurrent_runs": 1,
	})
	ahead, held := p.run(job), p.run(job)
	var answer runRow
	p.must(http.MethodPost, "/runs/"+held+"/cancel", nil, &answer)
	require.Equal(t, "cancelled", answer.Status, "a run that has not begun is over at once")
	p.release(gate)
	p.requireTrueEnd(ahead, "success")
	require.Empty(t, p.attempts(held))
	require.Equal(t, http.StatusConflict, status(p.do(t.Context(), http.MethodPost, "/runs/"+ahead+"/cancel", nil, nil)))
}

func cancelBackOff(t *testing.T, p *platform) {
	w := task("fails", "exit 1")
	w["max_retries"] = 20
	run := p.run(p.job(map[string]any{"tasks": []any{w}}))
	await(t, "a later retry waits", func() bool {
		row := p.tasks(run)
		return len(row) == 1 && row[0].Status == "queued" && row[0].Attempts >= 2
	})
	p.must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
	p.requireTrueEnd(run, "cancelled")
	require.Equal(t, "cancelled", p.taskRow(run, "fails").Status)
}

// TestFreeSlot: a slot that a run does not need any more goes to the next one at once, although the run goes on.
func TestFreeSlot(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--agent-slots", "2"}})
	wait := func(file string) string { return "until test -e " + p.arena + "/" + file + "; do sleep 0.02; done" }
	for _, round := range []string{"a", "b", "c", "d"} {
		long := p.run(p.job(map[string]any{"tasks": []any{task("short", wait("short-"+round)), task("long", wait("long-"+round))}}))
		await(t, "both slots are taken", func() bool {
			rows := p.tasks(long)
			return len(rows) == 2 && rows[0].Status == "running" && rows[1].Status == "running"
		})
		next := p.run(p.job(map[string]any{"command": "true"}))
		await(t, "the next run waits", func() bool { return strings.Contains(p.runRow(next).Message, "slot") })
		p.release(p.arena + "/short-" + round)
		p.requireTrueEnd(next, "success")
		short, began := p.taskRow(long, "short"), p.runRow(next).StartedAt
		require.Less(t, began.Sub(*short.FinishedAt), 2500*time.Millisecond, "the slot stood empty")
		p.release(p.arena + "/long-" + round)
		p.requireTrueEnd(long, "success")
	}
}

// TestSchedule waits for a real minute: the tick finds the quota reached and waits, once there is room the run starts, and a paused schedule does
// not.
func TestSchedule(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{})
	p.must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 0}, nil)
	every := map[string]any{"cron": "* * * * *", "time_zone": "Asia/Kathmandu"}
	job := p.job(map[string]any{"command": "echo on time", "schedule": every})
	paused := p.job(map[string]any{"command": "true", "schedule": map[string]any{"cron": "* * * * *", "paused": true}})
	var row struct {
		Schedule struct {
			NextAt       *time.Time `json:"next_at"`
			WaitingSince *time.Time `json:"waiting_since"`
			Missed       int
		}
	}
	p.must(http.MethodGet, "/jobs/"+job, nil, &row)
	due := *row.Schedule.NextAt
	if row.Schedule.WaitingSince != nil { // the minute has just turned
		due = *row.Schedule.WaitingSince
	}
	require.Zero(t, due.Second())
	require.LessOrEqual(t, time.Until(due), time.Minute)
	await(t, "the tick waits for the quota", func() bool {
		return p.get("/jobs/"+job, &row) && row.Schedule.WaitingSince != nil
	})
	require.True(t, due.Equal(*row.Schedule.WaitingSince))
	require.False(t, time.Now().Before(due))
	var runs page[runRow]
	p.must(http.MethodGet, "/runs", nil, &runs)
	require.Empty(t, runs.Data)

	p.must(http.MethodPatch, "/settings/quotas/max_running_runs", map[string]int{"limit": 1}, nil)
	raised := time.Now()
	await(t, "the run starts", func() bool { return p.get("/jobs/"+job+"/runs", &runs) && len(runs.Data) > 0 })
	require.Less(t, time.Since(raised), 15*time.Second, "the schedules are woken, not found at their next round")
	require.Equal(t, "schedule", runs.Data[0].Trigger)
	p.requireTrueEnd(runs.Data[0].ID, "success")
	require.Equal(t, "on time\n", p.text(runs.Data[0].ID, ""))
	p.must(http.MethodGet, "/jobs/"+paused+"/runs", nil, &runs)
	require.Empty(t, runs.Data)
}
