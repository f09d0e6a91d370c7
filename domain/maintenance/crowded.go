package maintenance

import (
	"context"
	"errors"
	"fmt"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
)

// crowdedTables is the page size of Relieve.
const crowdedTables = 500

// Relieve expires snapshots of tables with far too many of them, without waiting for their
// schedule: each commit of such a table costs more than the last. The server calls it hourly,
// because younger snapshots do not expire.
func (m *Maintenances) Relieve(ctx context.Context) error {
	var failed []error
	for after := (lake.TableRef{}); ; {
		found, err := m.System.CrowdedTables(ctx, minSnapshots, after, crowdedTables)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		failed = append(failed, m.relieveAll(ctx, found))
		if len(found) < crowdedTables {
			return errors.Join(failed...)
		}
		after = found[len(found)-1]
	}
}

func (m *Maintenances) relieveAll(ctx context.Context, found []lake.TableRef) error {
	byWorkspace := map[domain.WorkspaceID][]domain.TableID{}
	for _, ref := range found {
		byWorkspace[ref.Workspace] = append(byWorkspace[ref.Workspace], ref.Table)
	}
	var failed []error
	for ws, ids := range byWorkspace {
		s := domain.SystemScope(ws, "maintenance")
		if err := m.Store.In(ctx, s, func(tx Tx) error { return m.relieve(ctx, tx, s, ids) }); err != nil {
			failed = append(failed, fmt.Errorf("maintenance of %s: %w", ws, err))
		}
	}
	return errors.Join(failed...)
}

func (m *Maintenances) relieve(ctx context.Context, tx Tx, s domain.Scope, ids []domain.TableID) error {
	shared, err := readLevels(ctx, tx)
	if err != nil {
		return err
	}
	tables, err := tx.MaintainedByID(ctx, ids)
	if err != nil {
		return err
	}
	now := m.Clock.Now()
	var runs []Run
	for _, t := range tables {
		if set := shared.settings(t); set.Enabled && set.Expire && !t.Open && t.overcrowded(set) {
			runs = append(runs, newRun(s, t.Table, set, []Kind{Expire}, job.TriggerSchedule, now, now))
		}
	}
	made, err := tx.InsertMaintenanceRuns(ctx, runs)
	if err == nil && made > 0 {
		announce(tx, s)
	}
	return err
}

// overcrowded reports whether the table has a tenth more snapshots than its maximum, or than the
// last expiry could not remove. Fewer are not worth an expiry.
func (t MaintainedTable) overcrowded(s Settings) bool {
	return t.Snapshots != nil && *t.Snapshots*10 > max(int64(s.MaxSnapshots), t.Done.ExpiredSnapshots)*11
}
