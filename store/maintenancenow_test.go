package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/maintenance"
)

func TestMaintenanceNow(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	table := w.table("events", func(l *lake.Table) { l.DataFiles = new(int64(1)) })
	empty := w.table("empty", func(l *lake.Table) { l.Snapshot = nil })
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, table.ID, maintenance.Policy{Enabled: new(false), Orphans: maintenance.OrphansPolicy{Enabled: new(false)}})))
	key := domain.Idempotency{Key: "once"}
	run, err := w.server.RunTable(ctx, w.admin, table.ID, key)
	require.NoError(t, err)
	again, err := w.server.RunTable(ctx, w.admin, table.ID, key)
	require.NoError(t, err)
	require.Equal(t, run, again)
	require.Equal(t, []any{job.TriggerManual, w.admin.Actor().Name, []maintenance.Kind{maintenance.Compact, maintenance.Expire}}, []any{run.Trigger, run.CreatedBy.Name, run.Todo()})
	release := w.engines.hold()
	w.until(func() bool { return len(w.engines.statements()) == 1 })
	require.Equal(t, domain.CodeConflict, code(second(w.server.RunTable(ctx, w.admin, table.ID, domain.Idempotency{}))))
	release()
	w.until(w.over)
	require.Equal(t, maintenance.Succeeded, w.latest().State, "needed or not, and although its schedule is off")
	require.Len(t, w.engines.statements(), 2)
	require.Equal(t, domain.CodeConflict, code(second(w.server.RunTable(ctx, w.admin, empty.ID, domain.Idempotency{}))), "there is nothing in it")
	require.Equal(t, domain.CodeNotFound, code(second(w.server.RunTable(ctx, w.admin, "tbl_none", domain.Idempotency{}))))

	for i := range 3 {
		w.table(fmt.Sprint("many", i))
	}
	queued, err := w.server.RunDatabase(ctx, w.admin, w.database, key)
	require.Equal(t, domain.CodeConflict, code(err), "the key was used for something else: %d", queued)
	for range 2 {
		queued, err = w.server.RunDatabase(ctx, w.admin, w.database, domain.Idempotency{Key: "other"})
		require.NoError(t, err)
		require.Equal(t, 3, queued, "those that need something")
	}
	w.until(w.over)
	require.Len(t, w.history(maintenance.Filter{Database: w.database}), 4)
	require.Len(t, w.history(maintenance.Filter{Table: table.ID}), 1)
	require.Equal(t, domain.CodeNotFound, code(second(w.server.RunDatabase(ctx, w.admin, "db_none", domain.Idempotency{}))))
}

// A run that waits for a quiet table starts at once on a manual request.
func TestARunThatWaitsIsHurried(t *testing.T) {
	w := newUpkeep(t)
	table := w.table("events")
	w.night()
	w.change(t.Context(), "events", func(*lake.Table) {})
	w.tick()
	w.tick()
	waiting := w.latest()
	run, err := w.server.RunTable(t.Context(), w.admin, table.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, waiting.ID, run.ID)
	w.until(w.over)
	require.Equal(t, []any{maintenance.Succeeded, job.TriggerManual}, []any{w.latest().State, w.latest().Trigger})
}

func TestMaintenanceTurnedOffAndMoved(t *testing.T) {
	w := newUpkeep(t)
	ctx := t.Context()
	own, off, other := w.table("own"), w.table("off"), w.table("other")
	hourly := &maintenance.Schedule{Cron: "30 * * * *"}
	of, err := w.server.SetTable(ctx, w.admin, own.ID, maintenance.Policy{Schedule: hourly, Compact: maintenance.CompactPolicy{Threshold: new(int64(1 << 20))}})
	require.NoError(t, err)
	require.Equal(t, maintenance.OfTable, of.Settings.Origins["schedule"])
	require.NoError(t, second(w.server.SetTable(ctx, w.admin, off.ID, maintenance.Policy{Enabled: new(false)})))
	require.Nil(t, w.get(off.ID).NextAt)
	w.clock.move(of.NextAt.Sub(w.clock.Now()))
	w.until(w.over)
	require.Equal(t, []string{strings.Replace(optimize("own"), "128MB", "1MB", 1)}, w.engines.statements(), "at its own time, alone")
	w.change(ctx, "own", func(l *lake.Table) { l.DataFiles = new(int64(50)) })
	before := w.clock.Now()
	w.night()
	w.until(w.over)
	require.Contains(t, w.engines.statements(), optimize("other"))
	require.Empty(t, w.history(maintenance.Filter{Table: off.ID}))

	of, err = w.server.SetDatabase(ctx, w.admin, w.database, maintenance.Policy{Schedule: &maintenance.Schedule{Cron: "0 12 * * *", TimeZone: "Europe/Rome"}})
	require.NoError(t, err)
	require.Equal(t, of.NextAt, w.get(other.ID).NextAt)
	require.NotEqual(t, of.NextAt, w.get(own.ID).NextAt)
	_, err = w.server.SetWorkspace(ctx, w.admin, maintenance.Policy{Enabled: new(false)})
	require.NoError(t, err)
	require.Nil(t, w.get(own.ID).NextAt)
	require.True(t, w.clock.Now().After(before))

	w.table("late")
	ran := len(w.engines.statements())
	_, err = w.server.SetWorkspace(ctx, w.admin, maintenance.Policy{})
	require.NoError(t, err)
	w.clock.move(w.get(other.ID).NextAt.Sub(w.clock.Now()))
	w.change(ctx, "late", func(*lake.Table) {}) // it waits
	w.tick()
	w.tick()
	require.NoError(t, second(w.server.SetWorkspace(ctx, w.admin, maintenance.Policy{Enabled: new(false)})))
	w.clock.move(5 * time.Minute)
	w.until(w.over)
	for _, run := range w.history() {
		if run.Table == "late" {
			require.Equal(t, maintenance.Cancelled, run.State, run.Message)
			require.Contains(t, run.Message, "turned off")
		}
	}
	require.NotContains(t, w.engines.statements()[ran:], optimize("late"))
	require.Equal(t, domain.CodeInvalid, code(second(w.server.SetWorkspace(ctx, w.admin, maintenance.Policy{Warehouse: new(domain.MachineID("none"))}))))
	require.Equal(t, domain.CodeNotFound, code(second(w.server.SetDatabase(ctx, w.admin, "db_none", maintenance.Policy{}))))
	require.Equal(t, domain.CodeNotFound, code(second(w.server.SetTable(ctx, w.admin, "tbl_none", maintenance.Policy{}))))
}
