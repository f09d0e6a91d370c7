package maintenance

import (
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
func newMaintenanceRun(t lake.Table, todo []Kind, trigger job.Trigger, by domain.Actor, due, now time.Time) Run {
	return Run{
		ID: domain.NewID[domain.MaintenanceRunID](domain.PrefixMaintenance), TableID: t.ID, DatabaseID: t.DatabaseID, Database: t.Database, Schema: t.Schema, Table: t.Name, Trigger: trigger,
		CreatedBy: by, CreatedAt: now, DueAt: due, State: Queued, Message: "Waits for its turn.", Todo: todo, LookAt: now,
	}
}

// begin adds the run's next operation, and returns its statement.
func (r *Run) begin(by domain.Scope, t lake.Table, s Settings, warehouse domain.MachineID, now time.Time) statement.Statement {
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	st := statement.ForTable(by, t.ID, statement.NewStatement{Query: r.Todo[0].sql(t, s), Timeout: maintenanceTime}, now)
	st.Warehouse = warehouse
	r.State, r.Message, r.Warehouse, r.Statement = Running, "", warehouse, st.ID
	r.Operations = append(r.Operations, Operation{
		Kind: r.Todo[0], Query: st.Query, Warehouse: warehouse, Statement: st.ID, State: statement.Running, StartedAt: now, Before: totalsOf(t),
	})
	return st
}

// current returns the run's last operation.
func (r *Run) current() *Operation { return &r.Operations[len(r.Operations)-1] }

// finalize records the end of the current operation's statement. The run stays running if there is
// more to do now.
func (r *Run) finalize(st statement.Statement, after lake.Table, reported map[string]int64, price machine.Price, now time.Time) {
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
	if st.State == statement.Succeeded {
		r.Todo = r.Todo[1:]
		r.next(now)
		return
	}
	r.fail(o, st.Failure, now)
}

var secondsAnHour = decimal.NewFromInt(3600)

// expired returns the number of snapshots that an expiry removed, as the engine reports it, or else
// from the table's totals before and after.
func (o *Operation) expired() *int64 {
	if n, reported := o.Metrics["expired_snapshots"]; reported {
		return &n
	}
	if o.Kind != Expire || o.Before.Snapshots == nil || o.After.Snapshots == nil {
		return nil
	}
	return new(max(0, *o.Before.Snapshots-*o.After.Snapshots))
}

// removed returns the number of files that the engine reports as deleted, or as listed for erasure.
func (o *Operation) removed() (n *int64) {
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
func (r *Run) fail(o *Operation, f *statement.Failure, now time.Time) {
	if f == nil {
		f = &statement.Failure{Fault: statement.FaultEngine, Message: "Its statement is gone."}
	}
	o.Fault, o.Message = f.Fault, f.Message
	switch f.Fault {
	case statement.FaultCancelled:
		r.end(Cancelled, "Its statement was cancelled.", now)
	case statement.FaultEngine:
		r.Tries++
		if r.Tries >= maintenanceTries {
			r.end(Failed, f.Message, now)
			return
		}
		r.State, r.Warehouse = Queued, ""
		r.LookAt = now.Add(time.Duration(r.Tries) * maintenanceAgain)
		r.Message = "It is retried: " + f.Message
	default:
		r.Todo = r.Todo[1:]
		r.next(now)
	}
}

// next ends the run if no kinds are left.
func (r *Run) next(now time.Time) {
	if len(r.Todo) > 0 {
		return
	}
	for _, o := range r.Operations {
		switch o.Fault {
		case "", statement.FaultEngine: // it was retried
		case statement.FaultConflict:
			r.end(Failed, "It lost the race with another writer and runs again at its next due time: "+o.Message, now)
			return
		default:
			r.end(Failed, o.Message, now)
			return
		}
	}
	r.end(Succeeded, "", now)
}

func (r *Run) end(state State, message string, now time.Time) {
	r.State, r.Message, r.FinishedAt, r.Warehouse, r.Statement = state, message, &now, "", ""
}

// putOff delays the run until then; after maintenanceWait it is skipped.
func (r *Run) putOff(until time.Time, why string, now time.Time) {
	if now.Sub(r.CreatedAt) >= maintenanceWait {
		r.end(Skipped, why+" It has waited for six hours; it is due again at the next time.", now)
		return
	}
	r.LookAt, r.Message = until, why
}

// waitsForQuiet reports whether the run may still wait until its table is quiet.
func (r *Run) waitsForQuiet(now time.Time) bool {
	return r.Trigger == job.TriggerSchedule && now.Sub(r.CreatedAt) < maintenanceWait && r.compacts()
}

func (r *Run) compacts() bool { return len(r.Todo) > 0 && r.Todo[0] == Compact }

// expedite turns a queued run into a manual one that is due now.
func (r *Run) expedite(by domain.Actor, todo []Kind, now time.Time) error {
	if r.State != Queued {
		return domain.Errorf(domain.CodeConflict, "Maintenance of the table is already running (%s); wait for its end.", r.ID)
	}
	r.Trigger, r.CreatedBy, r.Todo, r.LookAt, r.Message = job.TriggerManual, by, todo, now, "Waits for its turn."
	return nil
}
