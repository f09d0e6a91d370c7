package store_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store"
)

// heavy is a job with about mib MiB in its tasks.
func heavy(mib int) (spec job.Spec) {
	for i := range 16 * mib {
		spec.Tasks = append(spec.Tasks, job.TaskSpec{Key: fmt.Sprintf("t%d", i), Command: strings.Repeat("x", 64<<10)})
	}
	return spec
}

// allocated is the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestListsOfRunsReadNoSpecs: a page of runs costs the same for jobs of any size.
func TestListsOfRunsReadNoSpecs(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	spec := heavy(3)
	spec.MaxConcurrentRuns = 2
	j := w.job(spec)
	execute(t, db, `INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
		SELECT workspace_id, 'run_' || lpad(i::text, 9, '0'), id, name, spec, '[{"name": "A", "value": "1"}]', 'running', 'manual', 'user', 'u', 'u', true, now()
		FROM jobs, generate_series(1, 20) i`)
	require.Less(t, allocated(func() {
		list, err := w.services.Runs.List(ctx, w.admin, job.RunFilter{JobID: j.ID}, domain.Page{Limit: 200})
		require.NoError(t, err)
		require.Len(t, list.Items, 20)
		head := list.Items[0]
		require.Equal(t, []job.Variable{{Name: "A", Value: "1"}}, head.Parameters)
		require.Equal(t, []int{48, 2}, []int{head.TaskCount, head.MaxConcurrentRuns})
		require.False(t, head.Single())
		require.Greater(t, head.SpecSize, 3<<20)
		require.NoError(t, second(w.services.Runs.Get(ctx, w.admin, head.ID)))
		require.NoError(t, second(w.services.Runs.Latest(ctx, w.admin, []domain.JobID{j.ID})))
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error { return second(tx.ActiveRuns(ctx, j.ID)) })
	}), uint64(3<<20))
}

// TestAHeavyPageIsShorter: a page contains whole jobs, and the pages form the whole list.
func TestAHeavyPageIsShorter(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	var want, got []domain.JobID
	for range 11 {
		want = append([]domain.JobID{w.job(heavy(3)).ID}, want...)
	}
	pages := 0
	for cursor, more := "", true; more; pages++ {
		list, err := w.services.Jobs.List(ctx, w.admin, job.Filter{}, domain.Page{Limit: 200, Cursor: cursor})
		require.NoError(t, err)
		for _, j := range list.Items {
			require.Len(t, j.Tasks, 48)
			got = append(got, j.ID)
		}
		cursor, more = list.Next, list.Next != ""
	}
	require.Equal(t, want, got)
	require.Equal(t, 6, pages, "two jobs of 3 MiB a page")
	_, err := w.services.Jobs.ByID(ctx, w.admin, want)
	require.Equal(t, domain.CodeTooLarge, code(err))
	require.NoError(t, second(w.services.Jobs.ByID(ctx, w.admin, want[:5])))

	execute(t, db, `INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
		SELECT $1, 'run_' || i, 'job_1', 'job', '{}', jsonb_build_array(jsonb_build_object('name', 'A', 'value', repeat('x', 3 << 20))), 'success', 'manual', 'user', 'u', 'u', true, now()
		FROM generate_series(1, 5) i`, w.admin.Workspace())
	runs, err := w.services.Runs.List(ctx, w.admin, job.RunFilter{}, domain.Page{})
	require.NoError(t, err)
	require.Len(t, runs.Items, 2)
	runs, err = w.services.Runs.List(ctx, w.admin, job.RunFilter{}, domain.Page{Cursor: runs.Next})
	require.NoError(t, err)
	require.Equal(t, domain.RunID("run_3"), runs.Items[0].ID)
	require.Len(t, runs.Items[0].Parameters[0].Value, 3<<20)
}
