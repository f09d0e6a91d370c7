package tracking

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

// lineageTx reads what tasks read and wrote.
type lineageTx interface {
	// RunLineage returns entries of a job's run, oldest first.
	RunLineage(ctx context.Context, id domain.RunID, limit int) ([]lineage.Fact, error)
}

// Lineage returns the tables that the run's task read and wrote from the run's creation to its end,
// and the datasets that the run logged. A run that no task made has no tables. x is its experiment,
// or empty for any.
func (r *Runs) Lineage(ctx context.Context, s domain.Scope, x domain.ExperimentID, id domain.TrackingRunID) (tables lake.Lineage, inputs []Input, err error) {
	err = r.read(ctx, s, func(tx Tx) error {
		tables = lake.Lineage{} // left by an earlier try of the transaction
		run, err := whole(ctx, tx, x, id)
		if inputs = run.Inputs; err != nil || run.JobRun == "" {
			return err
		}
		facts, err := tx.RunLineage(ctx, run.JobRun, lineage.MaxOfRun)
		for _, f := range facts {
			switch {
			case f.TaskKey != run.TaskKey || f.TableID.External() || !run.during(f):
			case f.Direction == lake.LineageRead:
				tables.Read = append(tables.Read, f.LineageEntry)
			default:
				tables.Written = append(tables.Written, f.LineageEntry)
			}
		}
		return err
	})
	return tables, inputs, err
}

// during reports whether it was done while the run went on. Its end is cut to milliseconds.
func (r Run) during(f lineage.Fact) bool {
	return !f.At.Before(r.CreatedAt) && (r.FinishedAt == nil || !f.At.After(r.FinishedAt.Add(time.Millisecond)))
}
