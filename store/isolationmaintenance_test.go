package store_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// furnishMaintenance gives the table a policy, a history, and a waiting run.
func (w *tenant) furnishMaintenance(table lake.Table) domain.MaintenanceRunID {
	held := statement.ForTable(w.admin, table.ID, statement.NewStatement{Query: "OPTIMIZE"}, now)
	held.ID, held.NotBefore = heldBy(w.admin.Workspace()), &now
	run := maintenance.Run{
		ID: domain.MaintenanceRunID("mnt_" + string(w.admin.Workspace())), TableID: table.ID, DatabaseID: table.DatabaseID, Trigger: job.TriggerManual, CreatedAt: now, DueAt: now,
		State: maintenance.Queued, Operations: []maintenance.Operation{{Kind: maintenance.Compact, Statement: held}},
	}
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		for _, h := range []maintenance.Holder{{}, {Database: table.DatabaseID}, {Table: table.ID}} {
			h, err := tx.LockMaintenance(ctx, h)
			require.NoError(w.t, err)
			h.NextAt = &now
			require.NoError(w.t, tx.UpdateMaintenance(ctx, h))
		}
		require.NoError(w.t, tx.SetMaintained(ctx, table.ID, maintenance.Maintained{CompactedAt: &now}))
		made, err := tx.InsertMaintenanceRuns(ctx, []maintenance.Run{run})
		require.Equal(w.t, 1, made)
		return err
	})
	return run.ID
}

// heldBy is the held statement of the workspace's maintenance.
func heldBy(ws domain.WorkspaceID) domain.StatementID { return domain.StatementID("stm_held_" + ws) }

// failing is for rows that refer to a missing table.
func failing(err error) bool { return err != nil }

// maintenanceTrespasses are the trespasses on another workspace's maintenance.
var maintenanceTrespasses = map[string]trespass{
	"SharedMaintenance": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		all, err := tx.SharedMaintenance(ctx)
		found := 0
		for _, h := range all {
			if h.Database == b.catalog {
				found++
			}
		}
		return found, err
	}},
	// A row about another workspace's table refers to a missing table.
	"LockMaintenance": {failing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockMaintenance(ctx, maintenance.Holder{Table: b.table.ID}))
	}},
	"UpdateMaintenance": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateMaintenance(ctx, maintenance.Holder{Table: b.table.ID}))
	}},
	"MaintainedTables": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.MaintainedTables(ctx, maintenance.Holder{Database: b.catalog}, true, "", 100))
	}},
	"MaintainedByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.MaintainedByID(ctx, []domain.TableID{b.table.ID}))
	}},
	"SetMaintained": {failing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetMaintained(ctx, b.table.ID, maintenance.Maintained{}))
	}},
	"BeingWritten": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.BeingWritten(ctx, b.table.ID))
	}},
	// So does a run for another workspace's table.
	"InsertMaintenanceRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		_, err := tx.InsertMaintenanceRuns(ctx, []maintenance.Run{{
			ID: "mnt_forged", TableID: b.table.ID, DatabaseID: b.catalog, Trigger: job.TriggerManual, State: maintenance.Queued,
			Operations: []maintenance.Operation{},
		}})
		return 0, err
	}},
	"MaintenanceRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.MaintenanceRun(ctx, b.upkeep))
	}},
	"LockMaintenanceRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockMaintenanceRun(ctx, b.upkeep))
	}},
	"UpdateMaintenanceRun": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateMaintenanceRun(ctx, maintenance.Run{ID: b.upkeep, Trigger: job.TriggerManual, State: maintenance.Failed}))
	}},
	"UpdateHeld": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateHeld(ctx, statement.Statement{ID: heldBy(b.ws), Warehouse: "wh_stolen"}))
	}},
	"HurryHeld": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return none(tx.HurryHeld(ctx, now.Add(-time.Hour)))
	}},
	"ChangedMaintenanceRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		all, _, err := tx.ChangedMaintenanceRuns(ctx, domain.Position{})
		return len(theirs(all, b)), err
	}},
	"MaintenanceRuns": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		all, err := tx.MaintenanceRuns(ctx, maintenance.Filter{Table: b.table.ID}, "", 100)
		return len(theirs(all, b)), err
	}},
	"RunningMaintenance": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return nobody(tx.RunningMaintenance(ctx))
	}},
	"WaitingMaintenance": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		all, err := tx.WaitingMaintenance(ctx, now, 100)
		return len(theirs(all, b)), err
	}},
}

// theirs returns the runs that belong to the other workspace.
func theirs(all []maintenance.Run, b belongings) (found []maintenance.Run) {
	for _, r := range all {
		if r.ID == b.upkeep {
			found = append(found, r)
		}
	}
	return found
}
