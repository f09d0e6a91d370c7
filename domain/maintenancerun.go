package domain

import (
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// newMaintenanceRun is a run of the table's maintenance, which waits.
func newMaintenanceRun(t LakeTable, todo []MaintenanceKind, trigger Trigger, by Actor, due, now time.Time) MaintenanceRun {
	return MaintenanceRun{
		ID: newID[MaintenanceRunID](prefixMaintenance), TableID: t.ID, DatabaseID: t.DatabaseID, Database: t.Database, Schema: t.Schema, Table: t.Name, Trigger: trigger,
		CreatedBy: by, CreatedAt: now, DueAt: due, State: MaintenanceQueued, Message: "Waits for its turn.", Todo: todo, LookAt: now,
	}
}

// begin makes the next operation of the run, whose statement is still to be submitted.
func (r *MaintenanceRun) begin(t LakeTable, s MaintenanceSettings, warehouse MachineID, now time.Time) {
	if r.StartedAt == nil {
		r.StartedAt = &now
	}
	r.State, r.Message, r.Warehouse, r.Statement = MaintenanceRunning, "", warehouse, ""
	r.LookAt = now.Add(maintenanceClaim)
	r.Operations = append(r.Operations, MaintenanceOperation{
		Kind: r.Todo[0], Query: r.Todo[0].sql(t, s), Warehouse: warehouse, State: StatementQueued, StartedAt: now, Before: t.totals(),
	})
}

// current is the operation that runs.
func (r *MaintenanceRun) current() *MaintenanceOperation { return &r.Operations[len(r.Operations)-1] }

// key makes submitting the current operation's statement something that is done once, whoever does it how often.
func (r *MaintenanceRun) key() Idempotency {
	return Idempotency{Key: fmt.Sprintf("%s/%d", r.ID, len(r.Operations))}
}

// statement is what the current operation submits.
func (r *MaintenanceRun) statement() NewStatement {
	o := r.current()
	return NewStatement{Query: o.Query, Warehouse: string(o.Warehouse), Timeout: maintenanceTime}
}

// submitted notes the statement of the current operation.
func (r *MaintenanceRun) submitted(id StatementID) {
	r.Statement, r.current().Statement, r.current().State = id, id, StatementRunning
}

// settle takes how the current operation's statement ended. It leaves the run running when there is more to do at once.
func (r *MaintenanceRun) settle(st Statement, after LakeTable, told map[string]int64, price Price, now time.Time) {
	o := r.current()
	o.State, o.FinishedAt, o.After, o.Metrics = st.State, &now, after.totals(), told
	if st.StartedAt != nil && st.FinishedAt != nil {
		o.Seconds = st.FinishedAt.Sub(*st.StartedAt).Seconds()
	}
	if price.Currency != "" {
		o.Cost, o.Currency = new(price.Hourly.Mul(decimal.NewFromFloat(o.Seconds)).Div(secondsAnHour).Round(6)), price.Currency
	}
	o.SnapshotsExpired, o.FilesRemoved = o.expired(), o.removed()
	r.Statement, r.LookAt = "", now
	if st.State == StatementSucceeded {
		r.Todo = r.Todo[1:]
		r.next(now)
		return
	}
	r.lose(o, st.Failure, now)
}

var secondsAnHour = decimal.NewFromInt(3600)

// expired is how many snapshots an expiry has taken, as the engine says, or as far as the table's rows before and after tell.
func (o *MaintenanceOperation) expired() *int64 {
	if n, told := o.Metrics["expired_snapshots"]; told {
		return &n
	}
	if o.Kind != MaintenanceExpire || o.Before.Snapshots == nil || o.After.Snapshots == nil {
		return nil
	}
	return new(max(0, *o.Before.Snapshots-*o.After.Snapshots))
}

// removed is how many files the engine says that it deleted.
func (o *MaintenanceOperation) removed() (n *int64) {
	for name, value := range o.Metrics {
		if !strings.HasPrefix(name, "deleted_") || strings.HasSuffix(name, "bytes") {
			continue
		}
		if n == nil {
			n = new(int64)
		}
		*n += value
	}
	return n
}

// lose takes the failure of an operation. A race that was lost, or a refusal, leaves the others to be done; what was lost with its engine is tried again.
func (r *MaintenanceRun) lose(o *MaintenanceOperation, f *StatementFailure, now time.Time) {
	if f == nil {
		f = &StatementFailure{Fault: FaultEngine, Message: "Its statement is gone."}
	}
	o.Fault, o.Message = f.Fault, f.Message
	switch f.Fault {
	case FaultCancelled:
		r.end(MaintenanceCancelled, "Its statement was cancelled.", now)
	case FaultEngine:
		r.Tries++
		if r.Tries >= maintenanceTries {
			r.end(MaintenanceFailed, f.Message, now)
			return
		}
		r.State, r.Warehouse = MaintenanceQueued, ""
		r.LookAt = now.Add(time.Duration(r.Tries) * maintenanceAgain)
		r.Message = "It is tried again: " + f.Message
	default:
		r.Todo = r.Todo[1:]
		r.next(now)
	}
}

// next goes on, or ends the run when nothing is left.
func (r *MaintenanceRun) next(now time.Time) {
	if len(r.Todo) > 0 {
		return
	}
	for _, o := range r.Operations {
		switch o.Fault {
		case "", FaultEngine: // which was tried again
		case FaultConflict:
			r.end(MaintenanceFailed, "It lost the race with another writer, and is done again when it is due the next time: "+o.Message, now)
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

// putOff lets the run wait until then; one that has waited for too long is skipped.
func (r *MaintenanceRun) putOff(until time.Time, why string, now time.Time) {
	if now.Sub(r.CreatedAt) >= maintenanceWait {
		r.end(MaintenanceSkipped, why+" It has waited for six hours, and is due again the next time.", now)
		return
	}
	r.LookAt, r.Message = until, why
}

// patient says that the run still waits for its table to be quiet.
func (r *MaintenanceRun) patient(now time.Time) bool {
	return r.Trigger == TriggerSchedule && now.Sub(r.CreatedAt) < maintenanceWait && r.compacts()
}

func (r *MaintenanceRun) compacts() bool { return len(r.Todo) > 0 && r.Todo[0] == MaintenanceCompact }

// hurry makes a run that waits one that somebody wants now.
func (r *MaintenanceRun) hurry(by Actor, todo []MaintenanceKind, now time.Time) error {
	if r.State != MaintenanceQueued {
		return Errorf(CodeConflict, "Maintenance of the table runs already (%s); wait for its end.", r.ID)
	}
	r.Trigger, r.CreatedBy, r.Todo, r.LookAt, r.Message = TriggerManual, by, todo, now, "Waits for its turn."
	return nil
}
