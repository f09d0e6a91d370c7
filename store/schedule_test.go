package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

func (w *tenant) scheduled(cron string, spec job.Spec) job.Job {
	w.t.Helper()
	j, err := w.services.Jobs.Create(w.t.Context(), w.admin,
		job.NewJob{Name: "scheduled", Spec: spec, Schedule: &job.NewSchedule{Cron: cron}}, domain.Idempotency{})
	require.NoError(w.t, err)
	return j
}

func (w *tenant) read(id domain.JobID) job.Schedule {
	w.t.Helper()
	j, err := w.services.Jobs.Get(w.t.Context(), w.admin, id)
	require.NoError(w.t, err)
	return *j.Schedule
}

func (w *tenant) runsOf(id domain.JobID) []job.Run {
	w.t.Helper()
	list, err := w.services.Runs.List(w.t.Context(), w.admin, job.RunFilter{JobID: id}, domain.Page{})
	require.NoError(w.t, err)
	return list.Items
}

// due moves the clock to the job's next tick.
func (w *tenant) due(id domain.JobID) {
	w.clock.move(w.read(id).NextAt.Sub(w.clock.Now()))
}

func TestATickStartsOneRunOnHoweverManyReplicas(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	j := w.scheduled("0 * * * *", job.Spec{Command: "true"})
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Empty(t, w.runsOf(j.ID), "not yet")
	next, err := domain.Tick(ctx, w.clock, w.scheduler.Due)
	require.NoError(t, err)
	require.Equal(t, *w.read(j.ID).NextAt, next)
	w.due(j.ID)
	require.Equal(t, map[domain.Code]int{"": 8}, atOnce(8, func(int) error { return second(domain.Tick(ctx, w.clock, w.scheduler.Due)) }))
	runs := w.runsOf(j.ID)
	require.Len(t, runs, 1)
	require.Equal(t, job.TriggerSchedule, runs[0].Trigger)
	require.Equal(t, domain.ActorSystem, runs[0].StartedBy.Kind)
	require.Equal(t, next.Add(time.Hour), *w.read(j.ID).NextAt)
}

func TestATickWaitsForTheQuota(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	j := w.scheduled("0 * * * *", job.Spec{Command: "true"})
	require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(1)))))
	blocker := w.start(w.job(job.Spec{Command: "true"}).ID)
	w.due(j.ID)
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Empty(t, w.runsOf(j.ID))
	since := *w.read(j.ID).WaitingSince
	due, err := w.system.Schedules(ctx, w.clock.Now(), 10)
	require.NoError(t, err)
	require.Empty(t, due, "there is no room for it, so it keeps no other from being seen")
	quotas, err := w.services.Quotas.List(ctx, w.admin)
	require.NoError(t, err)
	require.EqualValues(t, 1, quotas[0].Current, "what waits is not counted")
	w.due(j.ID)
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Equal(t, 1, w.read(j.ID).Missed)
	require.Equal(t, since, *w.read(j.ID).WaitingSince)

	require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, nil)))
	due, err = w.system.Schedules(ctx, w.clock.Now(), 10)
	require.NoError(t, err)
	require.Len(t, due, 1, "the default has room")
	require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(1)))))

	wake, stop := w.store.Topics().Subscribe(domain.ScheduleTopic)
	defer stop()
	require.NoError(t, second(w.services.Runs.Cancel(ctx, w.admin, blocker.ID)))
	woken(t, wake, "a place is free")
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Len(t, w.runsOf(j.ID), 1)
	require.Nil(t, w.read(j.ID).WaitingSince)
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Len(t, w.runsOf(j.ID), 1)
}

// TestAScheduleWithNothingToRun, which older versions allowed, misses its ticks and blocks no other
// schedule.
func TestAScheduleWithNothingToRun(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	empty, full := w.scheduled("0 * * * *", job.Spec{Command: "true"}), w.scheduled("0 * * * *", job.Spec{Command: "true"})
	require.NoError(t, w.store.In(ctx, w.admin, func(tx *store.Tx) error {
		return second(tx.UpdateJob(ctx, empty.ID, func(j *job.Job) error {
			j.Command = ""
			return nil
		}))
	}))
	w.due(empty.ID)
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Len(t, w.runsOf(full.ID), 1)
	require.Empty(t, w.runsOf(empty.ID))
	require.Equal(t, 1, w.read(empty.ID).Missed)
	require.True(t, w.read(empty.ID).NextAt.After(w.clock.Now()))
	require.Nil(t, w.read(empty.ID).WaitingSince)
}

func TestAScheduleThatIsChangedOrRemoved(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	wake, stop := w.store.Topics().Subscribe(domain.ScheduleTopic)
	defer stop()
	j := w.scheduled("0 * * * *", job.Spec{Command: "true"})
	woken(t, wake, "a new schedule")
	yes := true
	paused := &job.ScheduleChange{Paused: &yes}
	_, err := w.services.Jobs.Update(ctx, w.admin, j.ID, job.Change{Schedule: &paused})
	require.NoError(t, err)
	woken(t, wake, "another")
	require.Nil(t, w.read(j.ID).NextAt)
	w.clock.move(48 * time.Hour)
	require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	require.Empty(t, w.runsOf(j.ID))
	next, err := domain.Tick(ctx, w.clock, w.scheduler.Due)
	require.NoError(t, err)
	require.True(t, next.IsZero(), "%v", next)
	var none *job.ScheduleChange
	updated, err := w.services.Jobs.Update(ctx, w.admin, j.ID, job.Change{Schedule: &none})
	require.NoError(t, err)
	require.Nil(t, updated.Schedule)
}

func TestASchedulesConcurrencyLimitQueuesItsRuns(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	j := w.scheduled("0 * * * *", job.Spec{Command: "true", MaxConcurrentRuns: 1})
	for range 3 {
		w.due(j.ID)
		require.NoError(t, second(domain.Tick(ctx, w.clock, w.scheduler.Due)))
	}
	admitted := 0
	for _, run := range w.runsOf(j.ID) {
		require.Equal(t, job.RunPending, run.Status)
		if run.Admitted {
			admitted++
		}
	}
	require.Equal(t, 1, admitted)
	require.Len(t, w.runsOf(j.ID), 3)
}
