package maintenance

import (
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

// newMaintenanceRun returns a queued run for the table.
func newMaintenanceRun(t lake.LakeTable, todo []MaintenanceKind, trigger job.Trigger, by domain.Actor, due, now time.Time) MaintenanceRun {
	return MaintenanceRun{
		ID: domain.NewID[domain.MaintenanceRunID](domain.PrefixMaintenance), TableID: t.ID, DatabaseID: t.DatabaseID, Database: t.Database, Schema: t.Schema, Table: t.Name, Trigger: trigger,
		CreatedBy: by, CreatedAt: now, DueAt: due, State: MaintenanceQueued, Message: "Waits for its turn.", Todo: todo, LookAt: now,
	}
}

// begin adds the run's next operation. Its statement must still be submitted.
func (r *MaintenanceRun) begin(t lake.LakeTable, s MaintenanceSettings, warehouse domain.MachineID, now time.Time) {
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	r.State, r.Message, r.Warehouse, r.Statement = MaintenanceRunning, "", warehouse, ""
	r.LookAt = now.Add(maintenanceClaim)
	r.Operations = append(r.Operations, MaintenanceOperation{
		Kind: r.Todo[0], Query: r.Todo[0].sql(t, s), Warehouse: warehouse, State: statement.StatementQueued, StartedAt: now, Before: totalsOf(t),
	})
}

// current returns the run's last operation.
func (r *MaintenanceRun) current() *MaintenanceOperation { return &r.Operations[len(r.Operations)-1] }

// key returns the idempotency key of the current operation's statement, so that it is submitted
// only once.
func (r *MaintenanceRun) key() domain.Idempotency {
	return domain.Idempotency{Key: fmt.Sprintf("%s/%d", r.ID, len(r.Operations))}
}

// statement returns the statement of the current operation.
func (r *MaintenanceRun) statement() statement.NewStatement {
	o := r.current()
	return statement.NewStatement{Query: o.Query, Warehouse: string(o.Warehouse), Timeout: maintenanceTime}
}

// submitted records the statement of the current operation.
func (r *MaintenanceRun) submitted(id domain.StatementID) {
	r.Statement, r.current().Statement, r.current().State = id, id, statement.StatementRunning
}

// finalize records the end of the current operation's statement. The run stays running if there is
// more to do now.
func (r *MaintenanceRun) finalize(st statement.Statement, after lake.LakeTable, reported map[string]int64, price machine.Price, now time.Time) {
	o := r.current()
	o.State, o.FinishedAt, o.After, o.Metrics = st.State, &now, totalsOf(after), reported
	if st.StartedAt != nil && st.FinishedAt != nil {
		o.Seconds = st.FinishedAt.Sub(*st.StartedAt).Seconds()
	}
	if price.Currency != "" {
		o.Cost, o.Currency = new(price.Hourly.Mul(decimal.NewFromFloat(o.Seconds)).Div(secondsAnHour).Round(6)), price.Currency
	}
	o.SnapshotsExpired, o.FilesRemoved = o.expired(), o.removed()
	r.Statement, r.LookAt = "", now
	if st.State == statement.StatementSucceeded {
		r.Todo = r.Todo[1:]
		r.next(now)
		return
	}
	r.fail(o, st.Failure, now)
}

var secondsAnHour = decimal.NewFromInt(3600)

// expired returns the number of snapshots that an expiry removed, as the engine reports it, or else
// from the table's totals before and after.
func (o *MaintenanceOperation) expired() *int64 {
	if n, reported := o.Metrics["expired_snapshots"]; reported {
		return &n
	}
	if o.Kind != MaintenanceExpire || o.Before.Snapshots == nil || o.After.Snapshots == nil {
		return nil
	}
	return new(max(0, *o.Before.Snapshots-*o.After.Snapshots))
}

// removed returns the number of files that the engine reports as deleted, or as listed for erasure.
func (o *MaintenanceOperation) removed() (n *int64) {
	for name, value := range o.Metrics {
		if name != "forgotten_files" && (!strings.HasPrefix(name, "deleted_") || strings.HasSuffix(name, "bytes")) {
			continue
		}
		if n == nil {
			n = new(int64)
		}
		*n += value
	}
	return n
}

// fail records the failure of an operation. After a lost engine the operation is retried. After a
// conflict or a refusal the run continues with the next kind.
func (r *MaintenanceRun) fail(o *MaintenanceOperation, f *statement.StatementFailure, now time.Time) {
	if f == nil {
		f = &statement.StatementFailure{Fault: statement.FaultEngine, Message: "Its statement is gone."}
	}
	o.Fault, o.Message = f.Fault, f.Message
	switch f.Fault {
	case statement.FaultCancelled:
		r.end(MaintenanceCancelled, "Its statement was cancelled.", now)
	case statement.FaultEngine:
		r.Tries++
		if r.Tries >= maintenanceTries {
			r.end(MaintenanceFailed, f.Message, now)
			return
		}
		r.State, r.Warehouse = MaintenanceQueued, ""
		r.LookAt = now.Add(time.Duration(r.Tries) * maintenanceAgain)
		r.Message = "It is retried: " + f.Message
	default:
		r.Todo = r.Todo[1:]
		r.next(now)
	}
}

// next ends the run if no kinds are left.
func (r *MaintenanceRun) next(now time.Time) {
	if len(r.Todo) > 0 {
		return
	}
	for _, o := range r.Operations {
		switch o.Fault {
		case "", statement.FaultEngine: // it was retried
		case statement.FaultConflict:
			r.end(MaintenanceFailed, "It lost the race with another writer and runs again at its next due time: "+o.Message, now)
			return
		default:
			r.end(MaintenanceFailed, o.Message, now)
			return
		}
	}
	r.end(MaintenanceSucceeded, "", now)
}

func (r *MaintenanceRun) end(state MaintenanceState, message string, now time.Time) {
	r.State, r.Message, r.FinishedAt, r.Warehouse, r.Statement = state, message, &now, "", ""
}

// putOff delays the run until then; after maintenanceWait it is skipped.
func (r *MaintenanceRun) putOff(until time.Time, why string, now time.Time) {
	if now.Sub(r.CreatedAt) >= maintenanceWait {
		r.end(MaintenanceSkipped, why+" It has waited for six hours; it is due again at the next time.", now)
		return
	}
	r.LookAt, r.Message = until, why
}

// waitsForQuiet reports whether the run may still wait until its table is quiet.
func (r *MaintenanceRun) waitsForQuiet(now time.Time) bool {
	return r.Trigger == job.TriggerSchedule && now.Sub(r.CreatedAt) < maintenanceWait && r.compacts()
}

func (r *MaintenanceRun) compacts() bool { return len(r.Todo) > 0 && r.Todo[0] == MaintenanceCompact }

// expedite turns a queued run into a manual one that is due now.
func (r *MaintenanceRun) expedite(by domain.Actor, todo []MaintenanceKind, now time.Time) error {
	if r.State != MaintenanceQueued {
		return domain.Errorf(domain.CodeConflict, "Maintenance of the table is already running (%s); wait for its end.", r.ID)
	}
	r.Trigger, r.CreatedBy, r.Todo, r.LookAt, r.Message = job.TriggerManual, by, todo, now, "Waits for its turn."
	return nil
}
