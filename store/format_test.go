package store_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// unset lists the fields of the value, and of the structs in it, that are not set. A field added to
// the domain must be set in the values below. Its test then fails until the store has it.
func unset(path string, v reflect.Value) (all []string) {
	if v.IsZero() {
		return []string{path}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct {
			return unset(path, v.Elem())
		}
	case reflect.Map:
		if v.Len() == 0 {
			return []string{path}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			return []string{path}
		}
		return unset(path+"[0]", v.Index(0))
	case reflect.Struct:
		_, apart := v.Interface().(statement.Statement) // in a row of its own
		if apart || !strings.HasPrefix(v.Type().PkgPath(), "github.com/millpond/") {
			return nil
		}
		for _, field := range reflect.VisibleFields(v.Type()) {
			all = append(all, unset(path+"."+field.Name, v.FieldByIndex(field.Index))...)
		}
	}
	return all
}

func TestUnsetFieldsAreFound(t *testing.T) {
	require.Equal(t, []string{"v.Value"}, unset("v", reflect.ValueOf(job.Variable{Name: "a"})))
	require.Equal(t, []string{"v[0].Name"}, unset("v", reflect.ValueOf([]job.Variable{{Value: "a"}, {Name: "a", Value: "b"}})))
	require.Equal(t, []string{"v.Cron"}, unset("v", reflect.ValueOf(&maintenance.Schedule{TimeZone: "UTC"})))
	require.Equal(t, []string{"v"}, unset("v", reflect.ValueOf([]job.Variable{})))
	require.Empty(t, unset("v", reflect.ValueOf(job.Variable{Name: "a", Value: "b"})))
}

var (
	fullSpec = job.Spec{
		Command: `echo "hi" <&> é`,
		Tasks: []job.TaskSpec{{
			Key: "load", Command: "load.sh", DependsOn: []string{"check", "fetch"}, MaxRetries: 1, TimeoutSeconds: 2, Environment: []job.Variable{{Name: "A", Value: "1"}}, Compute: "cmp_1",
		}, {}},
		MaxRetries: 3, TimeoutSeconds: 4, Environment: []job.Variable{{Name: "B", Value: "2"}, {}}, Parameters: []job.Variable{{Name: "P", Value: "3"}, {}}, MaxConcurrentRuns: 5,
		Files:   []job.File{{Path: "bin/run", SHA256: "abc", Size: 6, Executable: true, Content: []byte("not in the row")}, {}},
		Compute: "cmp_2", ComputeFallback: true,
	}
	fullParameters = []job.Variable{{Name: "Q", Value: "4"}, {}}
	fullEngines    = []machine.Engine{{Name: "trino", Version: "476", State: machine.EngineFailed, Message: "It has no memory.", Nodes: 2}, {}}
	fullGPUs       = []machine.GPUMetrics{{Name: "A100", Load: 0.25, Memory: 1 << 33, MemoryTotal: 1 << 36}, {}}
	fullPolicy     = maintenance.Policy{
		Enabled: new(true), Schedule: &maintenance.Schedule{Cron: "0 3 * * *", TimeZone: "Europe/Rome"},
		Compact:   maintenance.CompactPolicy{Enabled: new(false), Threshold: new(int64(1 << 40)), MinFiles: new(0), DeletePercent: new(7)},
		Expire:    maintenance.ExpirePolicy{Enabled: new(true), KeepDays: new(8), MaxSnapshots: new(90), EraseAfterDays: new(1)},
		Orphans:   maintenance.OrphansPolicy{Enabled: new(false), OlderDays: new(11)},
		Warehouse: new(domain.MachineID("wh_1")), StartWarehouse: new(false),
	}
	fullOperations = []maintenance.Operation{{
		Kind: maintenance.Compact, Statement: statement.Statement{ID: "stm_1"},
		Before:           &maintenance.TableTotals{Files: new(int64(1)), Bytes: new(int64(2)), DeleteFiles: new(int64(3)), Snapshots: new(int64(4))},
		After:            &maintenance.TableTotals{Files: new(int64(5)), Bytes: new(int64(6)), DeleteFiles: new(int64(7)), Snapshots: new(int64(8))},
		SnapshotsExpired: new(int64(9)), FilesRemoved: new(int64(0)), Metrics: map[string]int64{"rewritten": 10}, Cost: new(decimal.RequireFromString("0.012")), Currency: "EUR",
	}, {Before: &maintenance.TableTotals{}}}
	fullChunks = []statement.ResultChunk{{Rows: 1, Bytes: 2}, {}}
	fullValues = []json.RawMessage{[]byte("null"), []byte("true"), []byte("12345678901234567890.10"), []byte(`"a"`)}

	formatTime = time.Date(2026, 3, 4, 5, 6, 7, 89_000, time.UTC)
)

const (
	storedSpec = `{"command": "echo \"hi\" <&> é",
		"tasks": [{"key": "load", "command": "load.sh", "depends_on": ["check", "fetch"], "max_retries": 1, "timeout_seconds": 2, "environment": [{"name": "A", "value": "1"}],
			"compute": "cmp_1"}, {"key": "", "command": ""}],
		"max_retries": 3, "timeout_seconds": 4, "environment": [{"name": "B", "value": "2"}, {"name": "", "value": ""}],
		"parameters": [{"name": "P", "value": "3"}, {"name": "", "value": ""}], "max_concurrent_runs": 5,
		"files": [{"path": "bin/run", "sha256": "abc", "size": 6, "executable": true}, {"path": "", "sha256": "", "size": 0}], "compute": "cmp_2", "compute_fallback": true}`
	storedParameters = `[{"name": "Q", "value": "4"}, {"name": "", "value": ""}]`
	storedEngines    = `[{"name": "trino", "version": "476", "state": "failed", "message": "It has no memory.", "nodes": 2}, {"name": "", "version": ""}]`
	storedGPUs       = `[{"name": "A100", "load": 0.25, "memory": 8589934592, "memory_total": 68719476736}, {"name": "", "load": 0, "memory": 0, "memory_total": 0}]`
	storedPolicy     = `{"enabled": true, "schedule": {"cron": "0 3 * * *", "time_zone": "Europe/Rome"},
		"compact": {"enabled": false, "threshold": 1099511627776, "min_files": 0, "delete_percent": 7},
		"expire": {"enabled": true, "keep_days": 8, "max_snapshots": 90, "erase_after_days": 1}, "orphans": {"enabled": false, "older_days": 11},
		"warehouse": "wh_1", "start_warehouse": false}`
	storedOperations = `[{"kind": "compact", "statement": "stm_1",
		"before": {"files": 1, "bytes": 2, "delete_files": 3, "snapshots": 4}, "after": {"files": 5, "bytes": 6, "delete_files": 7, "snapshots": 8},
		"snapshots_expired": 9, "files_removed": 0, "metrics": {"rewritten": 10}, "cost": "0.012", "currency": "EUR"},
		{"kind": "", "statement": "", "before": {"files": null, "bytes": null, "delete_files": null, "snapshots": null}}]`
	storedChunks = `[{"rows": 1, "bytes": 2}, {"rows": 0, "bytes": 0}]`
	storedValues = `[null, true, 12345678901234567890.10, "a"]`
)

// documents is a column of one row that holds JSON, and how the store writes and reads it.
type documents[T any] struct {
	table, column, where string
	write                func(ctx context.Context, tx *store.Tx, v T) error
	read                 func(ctx context.Context, tx *store.Tx) (T, error)
}

// document is a value, the text that the store writes for it, and the value that it reads.
type document[T any] struct {
	value T
	text  string
	read  T
}

// kept is a document of a value that is read as it was written.
func kept[T any](v T, text string) document[T] { return document[T]{v, text, v} }

// check writes and reads each document; all fields of the first one's value are set. It also reads
// the old texts, which the store itself would not write.
func (d documents[T]) check(t *testing.T, db *sql.DB, w *tenant, old map[string]T, all ...document[T]) {
	t.Helper()
	require.Empty(t, unset(d.column, reflect.ValueOf(all[0].value)))
	reads := func(want T, text string) {
		in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
			got, err := d.read(ctx, tx)
			require.Equal(t, want, got, text)
			return err
		})
	}
	for _, c := range all {
		in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error { return d.write(ctx, tx, c.value) })
		var text string
		require.NoError(t, db.QueryRowContext(t.Context(), `SELECT `+d.column+` FROM `+d.table+` WHERE `+d.where).Scan(&text))
		require.JSONEq(t, c.text, text)
		reads(c.read, text)
	}
	for text, want := range old {
		execute(t, db, `UPDATE `+d.table+` SET `+d.column+` = $1 WHERE `+d.where, text)
		reads(want, text)
	}
}

// TestTheFormatOfStoredDocuments holds the JSON documents in the columns of rows. Rows of earlier
// releases have them, so no text below may change.
func TestTheFormatOfStoredDocuments(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "acme")
	b := w.furnish()
	db := superuser(t, dsn)

	bare := fullSpec // a row has no contents of files
	bare.Files = slices.Clone(bare.Files)
	bare.Files[0].Content = nil
	specs := []document[job.Spec]{
		{fullSpec, storedSpec, bare},
		kept(job.Spec{}, `{}`),
		{job.Spec{Tasks: []job.TaskSpec{}, Environment: []job.Variable{}, Parameters: []job.Variable{}, Files: []job.File{}}, `{}`, job.Spec{}},
	}
	oldSpecs := map[string]job.Spec{
		`{"tasks": [], "environment": [], "parameters": null, "files": [], "command": null, "unknown": 1}`: {Tasks: []job.TaskSpec{}, Environment: []job.Variable{}, Files: []job.File{}},
		`{"tasks": [{"depends_on": [], "environment": []}]}`:                                               {Tasks: []job.TaskSpec{{DependsOn: []string{}, Environment: []job.Variable{}}}},
	}
	documents[job.Spec]{
		"jobs", "spec", `id = 'job_inserted'`,
		func(ctx context.Context, tx *store.Tx, v job.Spec) error {
			execute(t, db, `DELETE FROM jobs WHERE id = 'job_inserted'`)
			return tx.InsertJob(ctx, job.Job{ID: "job_inserted", Spec: v})
		},
		func(ctx context.Context, tx *store.Tx) (job.Spec, error) {
			all, err := tx.JobSpecs(ctx, []domain.JobID{"job_inserted"})
			return all["job_inserted"], err
		},
	}.check(t, db, w, oldSpecs, specs...)
	documents[job.Spec]{
		"jobs", "spec", `id = '` + string(b.job) + `'`,
		func(ctx context.Context, tx *store.Tx, v job.Spec) error {
			return second(tx.UpdateJob(ctx, b.job, func(j *job.Job) error { j.Spec = v; return nil }))
		},
		func(ctx context.Context, tx *store.Tx) (job.Spec, error) {
			j, err := tx.Job(ctx, b.job)
			return j.Spec, err
		},
	}.check(t, db, w, oldSpecs, specs...)

	insertRun := func(ctx context.Context, tx *store.Tx, r job.Run) error {
		execute(t, db, `DELETE FROM runs WHERE id = 'run_1'`)
		r.ID, r.Status = "run_1", job.RunPending
		return tx.InsertRun(ctx, &r)
	}
	run := func(ctx context.Context, tx *store.Tx) job.Run {
		r, err := tx.Run(ctx, "run_1")
		require.NoError(t, err)
		return r
	}
	documents[job.Spec]{
		"runs", "spec", `id = 'run_1'`,
		func(ctx context.Context, tx *store.Tx, v job.Spec) error { return insertRun(ctx, tx, job.Run{Spec: v}) },
		func(ctx context.Context, tx *store.Tx) (job.Spec, error) {
			all, err := tx.RunSpecs(ctx, []domain.RunID{"run_1"})
			require.Equal(t, run(ctx, tx).Spec, all["run_1"])
			return all["run_1"], err
		},
	}.check(t, db, w, oldSpecs, specs...)
	documents[[]job.Variable]{
		"runs", "parameters", `id = 'run_1'`,
		func(ctx context.Context, tx *store.Tx, v []job.Variable) error {
			return insertRun(ctx, tx, job.Run{Parameters: v})
		},
		func(ctx context.Context, tx *store.Tx) ([]job.Variable, error) {
			all, err := tx.RunParameters(ctx, []domain.RunID{"run_1"})
			require.Equal(t, run(ctx, tx).Parameters, all["run_1"])
			return all["run_1"], err
		},
	}.check(t, db, w, nil, kept(fullParameters, storedParameters), kept[[]job.Variable](nil, `null`), kept([]job.Variable{}, `[]`))

	documents[[]machine.Engine]{
		"agents", "engines", `id = '` + string(b.machineAgent) + `'`,
		func(ctx context.Context, tx *store.Tx, v []machine.Engine) error {
			return tx.SetEngines(ctx, b.machineAgent, v)
		},
		func(ctx context.Context, tx *store.Tx) ([]machine.Engine, error) {
			m, err := tx.Machine(ctx, b.machine)
			return m.Engines, err
		},
	}.check(t, db, w, nil, kept(fullEngines, storedEngines), kept[[]machine.Engine](nil, `null`), kept([]machine.Engine{}, `[]`))
	documents[[]machine.GPUMetrics]{
		"machine_metrics", "gpus", `machine_id = '` + string(b.machine) + `' AND at = '` + formatTime.Format(time.RFC3339Nano) + `'`,
		func(ctx context.Context, tx *store.Tx, v []machine.GPUMetrics) error {
			return tx.SaveMetrics(ctx, b.machine, machine.Metrics{At: formatTime, GPUs: v})
		},
		func(ctx context.Context, tx *store.Tx) ([]machine.GPUMetrics, error) {
			all, err := tx.Metrics(ctx, b.machine, formatTime.Add(-time.Second), formatTime)
			require.Len(t, all, 1)
			return all[0].GPUs, err
		},
	}.check(t, db, w, nil, kept(fullGPUs, storedGPUs), kept[[]machine.GPUMetrics](nil, `null`), kept([]machine.GPUMetrics{}, `[]`))

	documents[maintenance.Policy]{
		"maintenance_policies", "policy", `subject_id = '` + string(b.table.ID) + `'`,
		func(ctx context.Context, tx *store.Tx, v maintenance.Policy) error {
			return tx.UpdateMaintenance(ctx, maintenance.Holder{Table: b.table.ID, Policy: v})
		},
		func(ctx context.Context, tx *store.Tx) (maintenance.Policy, error) {
			all, err := tx.MaintainedByID(ctx, []domain.TableID{b.table.ID})
			require.NoError(t, err)
			h, err := tx.LockMaintenance(ctx, maintenance.Holder{Table: b.table.ID})
			require.Equal(t, h.Policy, all[0].Policy)
			return h.Policy, err
		},
	}.check(t, db, w, map[string]maintenance.Policy{`{}`: {}, `{"schedule": null, "compact": null, "expire": {"keep_days": 3}}`: {Expire: maintenance.ExpirePolicy{KeepDays: new(3)}}},
		kept(fullPolicy, storedPolicy), kept(maintenance.Policy{}, `{"compact": {}, "expire": {}, "orphans": {}}`))

	documents[[]maintenance.Operation]{
		"maintenance_runs", "operations", `id = '` + string(b.upkeep) + `'`,
		func(ctx context.Context, tx *store.Tx, v []maintenance.Operation) error {
			return tx.UpdateMaintenanceRun(ctx, maintenance.Run{ID: b.upkeep, Trigger: job.TriggerManual, State: maintenance.Failed, Operations: v})
		},
		func(ctx context.Context, tx *store.Tx) ([]maintenance.Operation, error) {
			r, err := tx.MaintenanceRun(ctx, b.upkeep)
			return r.Operations, err
		},
	}.check(t, db, w, map[string][]maintenance.Operation{`[{"metrics": {}}]`: {{Metrics: map[string]int64{}}}, `[]`: {}},
		kept(fullOperations, storedOperations), document[[]maintenance.Operation]{nil, `[]`, []maintenance.Operation{}}, kept([]maintenance.Operation{}, `[]`))

	documents[[]statement.ResultChunk]{
		"statements", "chunks", `id = '` + string(b.traced) + `'`,
		func(ctx context.Context, tx *store.Tx, v []statement.ResultChunk) error {
			return tx.UpdateStatement(ctx, statement.Statement{ID: b.traced, State: statement.Failed, Chunks: v}, nil)
		},
		func(ctx context.Context, tx *store.Tx) ([]statement.ResultChunk, error) {
			st, err := tx.Statement(ctx, b.traced)
			return st.Chunks, err
		},
	}.check(t, db, w, nil, kept(fullChunks, storedChunks), document[[]statement.ResultChunk]{nil, `[]`, []statement.ResultChunk{}})
	documents[[]json.RawMessage]{
		"statements", "parameters", `id = 'stm_inserted'`,
		func(ctx context.Context, tx *store.Tx, v []json.RawMessage) error {
			execute(t, db, `DELETE FROM statements WHERE id = 'stm_inserted'`)
			return tx.InsertStatement(ctx, statement.Statement{ID: "stm_inserted", State: statement.Queued, Parameters: v})
		},
		func(ctx context.Context, tx *store.Tx) ([]json.RawMessage, error) {
			st, err := tx.Statement(ctx, "stm_inserted")
			return st.Parameters, err
		},
	}.check(t, db, w, nil, kept(fullValues, storedValues), document[[]json.RawMessage]{nil, `[]`, []json.RawMessage{}})
}
