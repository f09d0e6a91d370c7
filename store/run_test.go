package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

// atOnce runs fn n times concurrently and returns the errors' codes, counted.
func atOnce(n int, fn func(i int) error) map[domain.Code]int {
	codes := make(chan domain.Code, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { codes <- code(fn(i)) })
	}
	all.Wait()
	close(codes)
	counted := map[domain.Code]int{}
	for c := range codes {
		counted[c]++
	}
	return counted
}

func TestTheQuotaIsExactUnderFiftyStarts(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	j := w.job(job.Spec{Command: "true"})
	limited := w.job(job.Spec{Command: "true", MaxConcurrentRuns: 2})
	codes := atOnce(50, func(i int) error {
		id := j.ID
		if i%2 == 0 {
			id = limited.ID
		}
		return second(w.services.Runs.Start(t.Context(), w.admin, id, nil, domain.Idempotency{}))
	})
	require.Equal(t, map[domain.Code]int{"": 10, domain.CodeQuota: 40}, codes)
	require.Equal(t, 10, count(t, db, `SELECT count(*) FROM runs`))
	require.Equal(t, 10, count(t, db, `SELECT count(*) FROM audit_events WHERE action = 'run.start'`), "one row for each that was started")
	_, err := w.services.Runs.Start(t.Context(), w.admin, j.ID, nil, domain.Idempotency{})
	require.Equal(t, "max_running_runs=10, current=10", domain.AsError(err).Message)

	q, err := w.services.Quotas.Update(t.Context(), w.admin, quota.MaxRunningRuns, new(int64(11)))
	require.NoError(t, err)
	require.Equal(t, quota.Of(quota.MaxRunningRuns, new(int64(11)), 10), q)
	w.start(j.ID)
	_, err = w.services.Quotas.Update(t.Context(), w.admin, "max_cats", new(int64(11)))
	require.Equal(t, domain.CodeNotFound, code(err))
	_, err = w.services.Quotas.Update(t.Context(), w.admin, quota.MaxRunningRuns, new(int64(-1)))
	require.Equal(t, domain.CodeInvalid, code(err))
	all, err := w.services.Quotas.List(t.Context(), w.admin)
	require.NoError(t, err)
	require.Len(t, all, len(quota.Definitions))
	q, err = w.services.Quotas.Update(t.Context(), w.admin, quota.MaxRunningRuns, nil)
	require.NoError(t, err)
	require.Equal(t, quota.Of(quota.MaxRunningRuns, nil, 11), q)
	require.EqualValues(t, 10, q.Limit, "the default again")
}

func TestAnIdempotencyKeyMakesOneRun(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	j := w.job(job.Spec{Command: "true", Parameters: []job.Variable{{Name: "A", Value: "1"}}})
	key := domain.Idempotency{Key: "k"}
	ids := make(chan domain.RunID, 20)
	codes := atOnce(20, func(int) error {
		run, err := w.services.Runs.Start(t.Context(), w.admin, j.ID, nil, key)
		if err == nil {
			ids <- run.ID
		}
		return err
	})
	require.Equal(t, map[domain.Code]int{"": 20}, codes)
	first := <-ids
	for range 19 {
		require.Equal(t, first, <-ids)
	}
	require.Equal(t, 1, count(t, db, `SELECT count(*) FROM runs`))

	_, err := w.services.Runs.Start(t.Context(), w.admin, j.ID, []job.Variable{{Name: "A", Value: "2"}}, key)
	require.Equal(t, domain.CodeConflict, code(err), "another body")
	_, err = w.services.Jobs.Create(t.Context(), w.admin, job.NewJob{Name: "x"}, key)
	require.Equal(t, domain.CodeConflict, code(err), "another operation")
	_, err = w.services.Runs.Start(t.Context(), w.admin, j.ID, nil, domain.Idempotency{Key: strings.Repeat("k", 256)})
	require.Equal(t, domain.CodeInvalid, code(err))

	editor := w.member("editor", domain.RoleEditor)
	other, err := w.services.Runs.Start(t.Context(), editor, j.ID, nil, key)
	require.NoError(t, err)
	require.NotEqual(t, first, other.ID, "a key is its caller's own")

	execute(t, db, `UPDATE idempotency_keys SET created_at = now() - interval '25 hours'`)
	fresh, err := w.services.Runs.Start(t.Context(), w.admin, j.ID, []job.Variable{{Name: "A", Value: "2"}}, key)
	require.NoError(t, err, "after a day the key is a new one")
	require.NotEqual(t, first, fresh.ID)
}

func TestAKeyWhoseRequestFailedIsFree(t *testing.T) {
	w := newTenant(t, open(t), "one")
	j := w.job(job.Spec{})
	key := domain.Idempotency{Key: "k"}
	_, err := w.services.Runs.Start(t.Context(), w.admin, j.ID, nil, key)
	require.Equal(t, domain.CodeConflict, code(err), "there is nothing to run")
	command := "true"
	_, err = w.services.Jobs.Update(t.Context(), w.admin, j.ID, job.Change{Command: &command})
	require.NoError(t, err)
	_, err = w.services.Runs.Start(t.Context(), w.admin, j.ID, nil, key)
	require.NoError(t, err)
}

func TestSameRequestSameJob(t *testing.T) {
	w := newTenant(t, open(t), "one")
	n := job.NewJob{Name: "x", Spec: job.Spec{Command: "true", Files: []job.File{{Path: "a", Content: []byte("1")}}}}
	first, err := w.services.Jobs.Create(t.Context(), w.admin, n, domain.Idempotency{Key: "k"})
	require.NoError(t, err)
	again, err := w.services.Jobs.Create(t.Context(), w.admin, n, domain.Idempotency{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, first, again)
	n.Files = first.Files
	again, err = w.services.Jobs.Create(t.Context(), w.admin, n, domain.Idempotency{Key: "k"})
	require.NoError(t, err, "a file's hash stands for its content")
	require.Equal(t, first, again)
	n.Files = []job.File{{Path: "a", Content: []byte("2")}}
	_, err = w.services.Jobs.Create(t.Context(), w.admin, n, domain.Idempotency{Key: "k"})
	require.Equal(t, domain.CodeConflict, code(err), "the files are part of the request")
}

// member creates a member with the role and returns the scope of their session.
func (w *tenant) member(name string, role domain.Role) domain.Scope {
	w.t.Helper()
	_, token, err := w.services.Members.Add(w.t.Context(), w.admin, name+"@example.com", name, role)
	require.NoError(w.t, err)
	return w.accept(token, name+"@example.com")
}

// TestARunFromStartToEnd checks every row that changes on the way.
func TestARunFromStartToEnd(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	j := w.job(job.Spec{
		Tasks:       []job.TaskSpec{{Key: "a", Command: "echo a"}, {Key: "b", Command: "echo b", DependsOn: []string{"a"}, MaxRetries: 1}},
		Environment: []job.Variable{{Name: "E", Value: "1"}}, Files: []job.File{{Path: "f", Content: []byte("data")}},
	})
	run := w.start(j.ID)
	require.Equal(t, "Waits for the agent one agent to connect.", w.run(run.ID).Message)
	w.connect("s1", 2)
	require.NoError(t, second(w.services.Runs.Dispatch(ctx)))
	d := w.delivered()
	require.Equal(t, "echo a", d.Command)
	require.Equal(t, "1", d.Environment["E"])
	require.Equal(t, string(run.ID), d.Environment["MILLPOND_RUN_ID"])
	require.Equal(t, "data", string(d.Files[0].Content))
	require.NotEmpty(t, d.Environment["MILLPOND_TOKEN"])
	require.Equal(t, job.RunPending, w.run(run.ID).Status, "until its process exists")
	w.begin(d.Attempt.ID)
	require.Equal(t, job.RunRunning, w.run(run.ID).Status)
	require.NoError(t, w.exit(d.Attempt.ID, 0))
	require.NoError(t, w.exit(d.Attempt.ID, 0), "the same report again")

	b := w.delivered()
	require.Equal(t, "b", b.Attempt.TaskKey)
	w.begin(b.Attempt.ID)
	require.NoError(t, w.exit(b.Attempt.ID, 3))
	require.Equal(t, 1, count(t, db, `SELECT retry_count FROM tasks WHERE key = 'b'`))
	next, err := w.services.Runs.Dispatch(ctx)
	require.NoError(t, err)
	require.Equal(t, w.clock.Now().Add(time.Second), next, "the back-off")
	w.clock.move(time.Second)
	require.NoError(t, second(w.services.Runs.Dispatch(ctx)))
	retry := w.delivered()
	require.Equal(t, 2, retry.Attempt.Number)
	require.Equal(t, "1", retry.Environment["MILLPOND_RETRY_COUNT"])
	require.Equal(t, job.ErrAttemptOver, w.exit(b.Attempt.ID, 0), "what an attempt says that ended otherwise changes nothing")
	w.begin(retry.Attempt.ID)
	require.NoError(t, w.exit(retry.Attempt.ID, 0))
	over := w.run(run.ID)
	require.Equal(t, job.RunSuccess, over.Status)
	require.NotNil(t, over.FinishedAt)
	attempts, err := w.services.Runs.Attempts(ctx, w.admin, run.ID)
	require.NoError(t, err)
	require.Len(t, attempts, 3)
	latest, err := w.services.Runs.Attempt(ctx, w.admin, run.ID, "b", 0)
	require.NoError(t, err)
	require.Equal(t, retry.Attempt.ID, latest.ID)
	_, err = w.services.Runs.Attempt(ctx, w.admin, run.ID, "b", 9)
	require.Equal(t, domain.CodeNotFound, code(err))
	_, err = w.services.Runs.Attempt(ctx, w.admin, run.ID, "", 0)
	require.Equal(t, domain.CodeNotFound, code(err))
}

// TestReportsAtOnce: repeated reports of an agent, and the sweep that declares its work lost, end
// an attempt once.
func TestReportsAtOnce(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s1", 4)
	for range 5 {
		id := w.attempt()
		w.clock.move(machine.DefaultLease.Length + 1)
		codes := atOnce(12, func(i int) error {
			if i%4 == 0 {
				return w.services.Agents.Sweep(context.Background())
			}
			return w.exit(id, 0)
		})
		require.Zero(t, codes[domain.CodeInternal], "%v", codes)
		attempts := w.attemptsOf(id)
		require.Contains(t, []job.AttemptStatus{job.AttemptSuccess, job.AttemptLost}, attempts.Status)
		run := w.run(attempts.RunID)
		require.True(t, run.Status.Final())
		require.Equal(t, attempts.Status == job.AttemptSuccess, run.Status == job.RunSuccess)
		w.connect("s1", 4)
	}
}

func (w *tenant) attemptsOf(id domain.AttemptID) (a job.Attempt) {
	w.t.Helper()
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) (err error) {
		a, err = tx.Attempt(ctx, id)
		return err
	})
	return a
}

func TestCancelAndRepair(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 4)
	j := w.job(job.Spec{Command: "true"})
	run := w.start(j.ID)
	d := w.delivered()
	w.begin(d.Attempt.ID)
	cancelled, err := w.services.Runs.Cancel(ctx, w.admin, run.ID)
	require.NoError(t, err)
	require.Equal(t, job.RunRunning, cancelled.Status, "until the agent acknowledges")
	require.Equal(t, d.Attempt.ID, <-w.fleet.cancelled)
	_, err = w.services.Runs.Cancel(ctx, w.admin, run.ID)
	require.Equal(t, domain.CodeConflict, code(err))
	_, err = w.services.Runs.Repair(ctx, w.admin, run.ID, domain.Idempotency{})
	require.Equal(t, domain.CodeConflict, code(err))
	require.NoError(t, w.services.Runs.Report(ctx, w.agent, job.AttemptReport{Attempt: d.Attempt.ID, Exited: true, Reason: job.ReasonCancelled}))
	require.Equal(t, job.RunCancelled, w.run(run.ID).Status)

	repaired, err := w.services.Runs.Repair(ctx, w.admin, run.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, job.RunPending, repaired.Status)
	again := w.delivered()
	require.Equal(t, 2, again.Attempt.Number)
	w.begin(again.Attempt.ID)
	require.NoError(t, w.exit(again.Attempt.ID, 0))
	require.Equal(t, job.RunSuccess, w.run(run.ID).Status)
	_, err = w.services.Runs.Repair(ctx, w.admin, run.ID, domain.Idempotency{})
	require.Equal(t, domain.CodeConflict, code(err), "a success needs none")
}

// TestRepairCountsToTheQuota, exactly, also among starts.
func TestRepairCountsToTheQuota(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	for _, limit := range []int{0, 3} {
		j := w.job(job.Spec{Command: "true", MaxConcurrentRuns: limit})
		var over []domain.RunID
		for range 8 {
			run := w.start(j.ID)
			require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, run.ID)))
			over = append(over, run.ID)
		}
		require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(5)))))
		codes := atOnce(16, func(i int) error {
			if i%2 == 0 {
				return second(w.services.Runs.Start(ctx, w.admin, j.ID, nil, domain.Idempotency{}))
			}
			return second(w.services.Runs.Repair(ctx, w.admin, over[i/2], domain.Idempotency{}))
		})
		require.Equal(t, map[domain.Code]int{"": 5, domain.CodeQuota: 11}, codes)
		list, err := w.services.Runs.List(ctx, w.admin, job.RunFilter{JobID: j.ID, Status: []job.RunStatus{job.RunPending}}, domain.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 5)
		admitted := 0
		for _, run := range list.Items {
			if run.Admitted {
				admitted++
			} else {
				require.Equal(t, "Waits for an earlier run of the job to end.", run.Message)
			}
			require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, run.ID)))
		}
		if limit > 0 {
			require.Equal(t, limit, admitted)
		}
		require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(100)))))
	}
}

// TestHeldRunsAreAdmittedInOrder: a run blocked by its job's limit starts when another ends, the
// oldest first.
func TestHeldRunsAreAdmittedInOrder(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 10)
	j := w.job(job.Spec{Command: "true", MaxConcurrentRuns: 2})
	wake, stop := w.store.Topics().Subscribe(domain.DispatchTopic)
	defer stop()
	var runs []*job.Run
	for range 6 {
		w.clock.move(time.Millisecond)
		runs = append(runs, w.start(j.ID))
	}
	slices.SortFunc(runs, func(a, b *job.Run) int { return strings.Compare(string(a.ID), string(b.ID)) })
	var active []job.Delivery
	started := map[domain.RunID]bool{}
	next := func() {
		d := w.delivered()
		started[d.Attempt.RunID] = true
		w.begin(d.Attempt.ID)
		active = append(active, d)
	}
	next()
	next()
	require.Empty(t, w.fleet.started)
	for i := 2; i < 6; i++ {
		require.False(t, started[runs[i].ID])
		d := active[0]
		active = active[1:]
		require.NoError(t, w.exit(d.Attempt.ID, 0))
		woken(t, wake, "a place is free")
		due, err := w.system.DueRuns(ctx, w.clock.Now(), 100)
		require.NoError(t, err)
		require.Equal(t, []domain.RunRef{{Workspace: w.admin.Workspace(), Run: runs[i].ID}}, due)
		atOnce(3, func(int) error { return second(w.services.Runs.Dispatch(ctx)) })
		next()
		require.True(t, started[runs[i].ID], "the oldest of those that wait")
		require.Empty(t, w.fleet.started, "and no other")
	}
}

// TestSlotsGoByAge: an agent with one slot runs the task that waited longest, although a younger
// run's next task is ready at once.
func TestSlotsGoByAge(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s1", 1)
	long := w.job(job.Spec{Tasks: []job.TaskSpec{{Key: "a", Command: "true"}, {Key: "b", Command: "true", DependsOn: []string{"a"}}}})
	short := w.job(job.Spec{Command: "true"})
	first := w.start(short.ID)
	d := w.delivered()
	require.Equal(t, first.ID, d.Attempt.RunID)
	w.clock.move(2 * time.Millisecond)
	older, younger := w.start(short.ID), w.start(long.ID)
	if older.ID > younger.ID {
		older = younger
	}
	require.Equal(t, "Waits for a free slot of the agent one agent, which has 1.", w.run(older.ID).Message)
	codes := atOnce(4, func(int) error { return second(w.services.Runs.Dispatch(ctx)) })
	require.Equal(t, map[domain.Code]int{"": 4}, codes)
	require.Empty(t, w.fleet.started)
	w.begin(d.Attempt.ID)
	require.NoError(t, w.exit(d.Attempt.ID, 0))
	atOnce(4, func(int) error { return second(w.services.Runs.Dispatch(ctx)) })
	require.Equal(t, older.ID, w.delivered().Attempt.RunID)
	require.Empty(t, w.fleet.started, "one slot, one attempt")
}

// TestDispatchEverywhereAtOnce never exceeds an agent's slots, and dispatches no task twice.
func TestDispatchEverywhereAtOnce(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	var tasks []job.TaskSpec
	for i := range 30 {
		tasks = append(tasks, job.TaskSpec{Key: fmt.Sprint("t", i), Command: "true"})
	}
	j := w.job(job.Spec{Tasks: tasks})
	for range 3 {
		w.start(j.ID)
	}
	w.connect("s1", 7)
	for done := 0; done < 90; {
		codes := atOnce(6, func(int) error { return second(w.services.Runs.Dispatch(ctx)) })
		require.Equal(t, map[domain.Code]int{"": 6}, codes)
		require.LessOrEqual(t, count(t, db, `SELECT count(*) FROM attempts WHERE status IN ('starting', 'running')`), 7)
		var batch []domain.AttemptID
		for len(batch) == 0 || len(w.fleet.started) > 0 {
			batch = append(batch, w.delivered().Attempt.ID)
		}
		codes = atOnce(len(batch), func(i int) error { return w.exit(batch[i], 0) })
		require.Equal(t, map[domain.Code]int{"": len(batch)}, codes)
		done += len(batch)
	}
	require.Equal(t, 90, count(t, db, `SELECT count(*) FROM attempts`))
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM runs WHERE status = 'success'`))
}

// TestDueRunsStayQuick with a hundred thousand queued tasks, with and without a free slot on the
// agent.
func TestDueRunsStayQuick(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	w.connect("s1", 1)
	w.attempt()
	queue(t, db, w.admin.Workspace(), 200, 500)
	began := time.Now()
	due, err := w.system.DueRuns(ctx, w.clock.Now(), domain.MaxLimit)
	require.NoError(t, err)
	require.Empty(t, due, "no slot is free")
	full := time.Since(began)
	require.NoError(t, second(w.services.Agents.Hello(ctx, w.agent, w.hello("s2", 2))))
	began = time.Now()
	due, err = w.system.DueRuns(ctx, w.clock.Now(), domain.MaxLimit)
	require.NoError(t, err)
	require.Len(t, due, 200)
	free := time.Since(began)
	t.Logf("100,000 queued tasks: %v without a free slot, %v with one", full, free)
	require.Less(t, full, 2*time.Second)
	require.Less(t, free, 5*time.Second)
}

// queue inserts runs with queued tasks, like those of a busy agent.
func queue(t testing.TB, db *sql.DB, ws domain.WorkspaceID, runs, tasks int) {
	execute(t, db, `INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
		SELECT $1, 'run_q' || lpad(i::text, 8, '0'), 'job_q', 'q', '{"tasks":[]}', '[]', 'running', 'manual', 'user', 'u', 'u', true, now() FROM generate_series(1, $2) i`, ws, runs)
	execute(t, db, `INSERT INTO tasks (workspace_id, run_id, key, position, status)
		SELECT $1, 'run_q' || lpad(i::text, 8, '0'), 't' || k, k, 'queued' FROM generate_series(1, $2) i, generate_series(1, $3) k`, ws, runs, tasks)
	execute(t, db, `ANALYZE runs, tasks, attempts, agents`)
}
