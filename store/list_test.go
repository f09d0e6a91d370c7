package store_test

import (
	"context"
	"database/sql"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

// seedRuns inserts n runs of seven jobs in every state into the workspace, most of them finished.
// It inserts as many into other workspaces.
func seedRuns(t testing.TB, db *sql.DB, ws domain.WorkspaceID, n int) {
	t.Helper()
	execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) SELECT 'ws_other' || i, 'other' || i, now() FROM generate_series(1, 3) i`)
	execute(t, db, `INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name, admitted, created_at)
		SELECT w, 'run_' || lpad(i::text, 9, '0'), 'job_' || i % 7, 'job', '{"command":"true"}', '[]',
			CASE WHEN i % 50 = 0 THEN 'pending' WHEN i % 50 = 1 THEN 'running' WHEN i % 5 = 0 THEN 'failed' WHEN i % 11 = 0 THEN 'cancelled' ELSE 'success' END,
			'manual', 'user', 'u', 'u', true, now()
		FROM generate_series(1, $2::int) i, unnest(ARRAY[$1, 'ws_other1', 'ws_other2', 'ws_other3']) w`, ws, n)
	execute(t, db, `ANALYZE runs`)
}

// filters are all combinations of filters of a list of runs.
func filters() (all []job.RunFilter) {
	for _, j := range []domain.JobID{"", "job_3", "job_none"} {
		for bits := range 1 << len(job.RunStatuses) {
			f := job.RunFilter{JobID: j}
			for i, s := range job.RunStatuses {
				if bits&(1<<i) != 0 {
					f.Status = append(f.Status, s)
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// TestPagesMakeTheWholeList for every filter: no duplicates, no gaps, newest first, and no other
// workspace's runs.
func TestPagesMakeTheWholeList(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	seedRuns(t, db, w.admin.Workspace(), 450)
	for _, f := range filters() {
		var want []domain.RunID
		query := `SELECT id FROM runs WHERE workspace_id = $1 AND ($2 = '' OR job_id = $2) AND ($3 = '' OR status = ANY(string_to_array($3, ','))) ORDER BY id DESC`
		var statuses []string
		for _, st := range f.Status {
			statuses = append(statuses, string(st))
		}
		rows, err := db.QueryContext(t.Context(), query, w.admin.Workspace(), f.JobID, strings.Join(statuses, ","))
		require.NoError(t, err)
		for rows.Next() {
			var id domain.RunID
			require.NoError(t, rows.Scan(&id))
			want = append(want, id)
		}
		require.NoError(t, rows.Err())
		for _, limit := range []int{37, 200} {
			var got []domain.RunID
			for cursor, more := "", true; more; {
				list, err := w.services.Runs.List(t.Context(), w.admin, f, domain.Page{Limit: limit, Cursor: cursor})
				require.NoError(t, err)
				for _, r := range list.Items {
					got = append(got, r.ID)
				}
				cursor, more = list.Next, list.Next != ""
			}
			require.Equal(t, want, got, "%+v by %d", f, limit)
		}
	}
	for _, f := range filters() {
		jobs := []domain.JobID{"job_1", "job_3", "job_none"}
		recent, err := w.services.Runs.Recent(t.Context(), w.admin, jobs, f.Status, 5)
		require.NoError(t, err)
		for _, j := range jobs {
			want, err := w.services.Runs.Heads(t.Context(), w.admin, job.RunFilter{JobID: j, Status: f.Status}, domain.Page{Limit: 5})
			require.NoError(t, err)
			require.Equal(t, want.Next, recent[j].Next)
			require.Equal(t, append([]job.Run{}, want.Items...), append([]job.Run{}, recent[j].Items...))
		}
	}
	list, err := w.services.Runs.List(t.Context(), w.admin, job.RunFilter{}, domain.Page{Limit: 1})
	require.NoError(t, err)
	_, err = w.services.Runs.List(t.Context(), w.admin, job.RunFilter{JobID: "job_3"}, domain.Page{Cursor: list.Next})
	require.Equal(t, domain.CodeInvalid, code(err), "another filter's cursor")
	_, err = w.services.Jobs.List(t.Context(), w.admin, job.Filter{}, domain.Page{Cursor: list.Next})
	require.Equal(t, domain.CodeInvalid, code(err), "another list's cursor")
	_, err = w.services.Runs.List(t.Context(), w.admin, job.RunFilter{Status: []job.RunStatus{"paused"}}, domain.Page{})
	require.Equal(t, domain.CodeInvalid, code(err))
}

// TestEveryListGoesByIndex, as app, under its policies, at any depth: a page reads its own rows and
// not the table.
func TestEveryListGoesByIndex(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	seedRuns(t, db, w.admin.Workspace(), 8000)
	for _, f := range filters() {
		for _, before := range []domain.RunID{"", "run_000004000"} {
			args := []any{w.admin.Workspace(), 51}
			if before != "" {
				args = append(args, before)
			}
			if f.JobID != "" {
				args = append(args, f.JobID)
			}
			if len(f.Status) > 0 {
				args = append(args, pq.Array(f.Status))
			}
			plan := w.plan(db, args, func(ctx context.Context, tx *store.Tx) error {
				return second(tx.Runs(ctx, f, before, 51))
			})
			require.NotContains(t, plan, "Seq Scan on runs", "%+v", f)
			require.NotContains(t, plan, "Bitmap", "a bitmap reads all that the filter lets through: %+v\n%s", f, plan)
			require.LessOrEqual(t, scanned(t, plan), 51*max(1, len(f.Status)), "%+v before %q:\n%s", f, before, plan)
		}
	}
	plan := w.plan(db, []any{w.admin.Workspace(), pq.Array([]string{"job_1", "job_2"})}, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.LatestRuns(ctx, []domain.JobID{"job_1", "job_2"}))
	})
	require.LessOrEqual(t, scanned(t, plan), 2, plan)
	plan = w.plan(db, []any{w.admin.Workspace(), pq.Array([]string{"job_1", "job_2"}), 15}, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.RecentRuns(ctx, []domain.JobID{"job_1", "job_2"}, nil, 15))
	})
	require.LessOrEqual(t, scanned(t, plan), 30, plan)
	plan = w.plan(db, []any{w.admin.Workspace(), pq.Array([]string{string(quota.MaxRunningRuns)})}, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.LockQuota(ctx, quota.MaxRunningRuns))
	})
	require.NotContains(t, plan, "Seq Scan on runs", "the quota counts what is active, not history")
	plan = w.plan(db, []any{w.admin.Workspace(), "job_3"}, func(ctx context.Context, tx *store.Tx) error {
		return second(tx.ActiveRuns(ctx, "job_3"))
	})
	require.NotContains(t, plan, "Seq Scan on runs")
	require.NotContains(t, plan, "Rows Removed by Filter", plan)
}

// plan runs fn, and returns the plan of its last statement, executed again as app in the workspace.
func (w *tenant) plan(db *sql.DB, args []any, fn func(context.Context, *store.Tx) error) string {
	w.t.Helper()
	var query string
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return db.QueryRowContext(ctx, `SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`).Scan(&query)
	})
	tx, err := db.BeginTx(w.t.Context(), nil)
	require.NoError(w.t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec(`SELECT set_config('app.workspace', $1, true), set_config('role', 'millpond_app', true)`, w.admin.Workspace())
	require.NoError(w.t, err)
	rows, err := tx.Query("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+query, args...)
	require.NoError(w.t, err, query)
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		require.NoError(w.t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(w.t, rows.Err())
	return strings.Join(lines, "\n")
}

var scans = regexp.MustCompile(`Scan[^(\n]*\bon (?:public\.)?runs\b[^(\n]*\(actual rows=([0-9.]+) loops=(\d+)\)`)

// scanned is the number of rows of runs that the plan's scans returned or discarded.
func scanned(t testing.TB, plan string) (n int) {
	t.Helper()
	all := scans.FindAllStringSubmatch(plan, -1)
	if len(all) == 0 {
		require.Contains(t, plan, "never executed", plan)
	}
	for _, m := range all {
		rows, err := strconv.ParseFloat(m[1], 64) // 18 prints fractions
		require.NoError(t, err)
		loops, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		n += int(math.Ceil(rows)) * loops
	}
	for _, m := range removed.FindAllStringSubmatch(plan, -1) {
		rows, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		n += rows
	}
	return n
}

var removed = regexp.MustCompile(`Rows Removed by Filter: (\d+)`)
