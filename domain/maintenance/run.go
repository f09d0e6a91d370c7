package maintenance

import (
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

// What a held operation waits for.
const (
	waitsForTurn    = "Waits for its turn."
	waitsForEarlier = "Waits for the earlier operations on its table."
)

// newRun returns a queued run for the table, with a held statement for each kind.
func newRun(s domain.Scope, t lake.Table, set Settings, todo []Kind, trigger job.Trigger, due, now time.Time) Run {
	r := Run{
		ID: domain.NewID[domain.MaintenanceRunID](domain.PrefixMaintenance), TableID: t.ID, DatabaseID: t.DatabaseID, Database: t.Database, Schema: t.Schema, Table: t.Name, Trigger: trigger,
		CreatedBy: s.Actor(), CreatedAt: now, DueAt: due,
	}
	for _, kind := range todo {
		r.Operations = append(r.Operations, newOperation(s, kind, t.ID, kind.sql(t, set), now))
	}
	r.line(now)
	r.derive(now)
	return r
}

// newOperation returns an operation that is held. Its statement is the platform's own, whoever
// wants it.
func newOperation(s domain.Scope, k Kind, t domain.TableID, query string, now time.Time) Operation {
	own := domain.SystemScope(s.Workspace(), "maintenance")
	return Operation{Kind: k, Statement: statement.ForTable(own, t, statement.NewStatement{Query: query, Timeout: maintenanceTime}, now)}
}

// line lets the first held operation start now, and the others after it.
func (r *Run) line(now time.Time) {
	for i := range r.Operations {
		o := &r.Operations[i]
		switch {
		case !o.held():
		case o == r.head():
			o.Statement.NotBefore, o.Statement.Message = &now, waitsForTurn
		default:
			o.Statement.NotBefore, o.Statement.Message = nil, waitsForEarlier
		}
	}
}

// head returns the first operation that has not ended: it runs or comes next. It is nil at the end.
func (r Run) head() *Operation {
	i := slices.IndexFunc(r.Operations, func(o Operation) bool { return !o.Statement.State.Final() })
	if i < 0 {
		return nil
	}
	return &r.Operations[i]
}

// current returns the index of the operation that has started last.
func (r Run) current() int {
	last := 0
	for i, o := range r.Operations {
		if o.started() {
			last = i
		}
	}
	return last
}

func (o Operation) started() bool { return o.Statement.Warehouse != "" }

func (o Operation) held() bool { return o.Statement.Held() }

// Started returns the operations that have started, in order.
func (r Run) Started() []Operation { return selected(r.Operations, Operation.started) }

// selected returns the elements for which is holds.
func selected[T any](all []T, is func(T) bool) (found []T) {
	for _, v := range all {
		if is(v) {
			found = append(found, v)
		}
	}
	return found
}

// Todo returns the kinds that are still to do, in order.
func (r Run) Todo() (kinds []Kind) {
	for _, o := range selected(r.Operations, Operation.held) {
		kinds = append(kinds, o.Kind)
	}
	return kinds
}

// StartedAt returns when the first operation started; nil before.
func (r Run) StartedAt() *time.Time {
	if started := r.Started(); len(started) > 0 {
		return new(started[0].StartedAt())
	}
	return nil
}

// StartedAt returns when the operation's turn came.
func (o Operation) StartedAt() time.Time {
	if o.Statement.NotBefore == nil {
		return o.Statement.CreatedAt
	}
	return *o.Statement.NotBefore
}

// NextTryAt returns when a queued run is tried again; nil for others.
func (r Run) NextTryAt() *time.Time {
	if r.State != Queued || r.head() == nil {
		return nil
	}
	return r.head().Statement.NotBefore
}

// Seconds returns the run time of the operation's statement.
func (o Operation) Seconds() float64 {
	if o.Statement.StartedAt == nil || o.Statement.FinishedAt == nil {
		return 0
	}
	return o.Statement.FinishedAt.Sub(*o.Statement.StartedAt).Seconds()
}

// Message returns why the operation failed; else it is empty.
func (o Operation) Message() string {
	if o.Statement.Failure == nil {
		return ""
	}
	return o.Statement.Failure.Message
}

func (o Operation) fault() statement.Fault {
	if o.Statement.Failure == nil {
		return ""
	}
	return o.Statement.Failure.Fault
}

// record records the result of an operation whose statement has ended.
func (o *Operation) record(after lake.Table, reported map[string]int64, price machine.Price) {
	o.After, o.Metrics = totalsOf(after), reported
	if price.Currency != "" {
		o.Cost, o.Currency = new(price.Hourly.Mul(decimal.NewFromFloat(o.Seconds())).Div(secondsAnHour).Round(6)), price.Currency
	}
	o.SnapshotsExpired, o.FilesRemoved = o.expired(), o.removed()
}

var secondsAnHour = decimal.NewFromInt(3600)

// expired returns the number of snapshots that an expiry removed, as the engine reports it, or else
// from the table's totals before and after.
func (o *Operation) expired() *int64 {
	if n, reported := o.Metrics["expired_snapshots"]; reported {
		return &n
	}
	if o.Kind != Expire || o.Before == nil || o.Before.Snapshots == nil || o.After.Snapshots == nil {
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

// lost returns the number of tries that were lost with an engine or a server.
func (r Run) lost() (n int) {
	for _, o := range r.Operations {
		if o.fault() == statement.FaultEngine {
			n++
		}
	}
	return n
}

// retry adds an operation that repeats the current one after a pause, and returns it.
func (r *Run) retry(s domain.Scope, now time.Time) Operation {
	i := r.current()
	o := r.Operations[i]
	r.Operations = slices.Insert(r.Operations, i+1, newOperation(s, o.Kind, r.TableID, o.Statement.Query, now))
	again := &r.Operations[i+1]
	again.Statement.NotBefore, again.Statement.Message = new(r.pause()), "It is retried: "+o.Message()
	return *again
}

// pause returns the end of the pause before a retry, which only a new request for the run shortens.
// It is zero if no retry comes next.
func (r Run) pause() time.Time {
	last, next := r.Operations[r.current()], r.head()
	if last.fault() != statement.FaultEngine || last.Kind != next.Kind || r.asked().After(next.Statement.CreatedAt) {
		return time.Time{}
	}
	return next.Statement.CreatedAt.Add(time.Duration(r.lost()) * maintenanceAgain)
}

// derive sets the run's state by its statements. Nothing else sets it.
func (r *Run) derive(now time.Time) {
	switch head := r.head(); {
	case head == nil:
		r.State, r.Message = r.outcome()
		r.FinishedAt = &now
	case head.Statement.Held():
		r.State, r.Message = Queued, head.Statement.Message
	default:
		r.State, r.Message = Running, ""
	}
}

// outcome returns the state of a run whose operations have all ended, and why.
func (r Run) outcome() (state State, message string) {
	state = Cancelled
	for _, o := range r.Operations {
		if o.Statement.State == statement.Cancelled && o.Statement.CancelRequestedAt != nil {
			return Cancelled, "Its statement was cancelled."
		}
	}
	for _, o := range r.Operations {
		switch o.fault() {
		case "":
			state = Succeeded
		case statement.FaultCancelled: // it was not needed
			message = o.Message()
		case statement.FaultEngine: // it was retried
			if r.lost() >= maintenanceTries {
				return Failed, o.Message()
			}
		case statement.FaultConflict:
			return Failed, "It lost the race with another writer and runs again at its next due time: " + o.Message()
		default:
			return Failed, o.Message()
		}
	}
	if state == Succeeded {
		message = ""
	}
	return state, message
}

// waitsForQuiet reports whether the run may still wait until its table is quiet.
func (r Run) waitsForQuiet(now time.Time) bool {
	return r.Trigger == job.TriggerSchedule && !r.waited(now) && r.head().Kind == Compact
}

// waited reports whether the run has waited for as long as it may.
func (r Run) waited(now time.Time) bool { return now.Sub(r.CreatedAt) >= maintenanceWait }

// asked returns when its schedule, or a person, last asked for the run.
func (r Run) asked() time.Time {
	if r.DueAt.After(r.CreatedAt) {
		return r.DueAt
	}
	return r.CreatedAt
}

// expedite makes a queued run a manual one that is due now. It adds the given operations of kinds
// that the run does not hold yet, and returns them.
func (r *Run) expedite(by domain.Actor, all []Operation, now time.Time) (added []Operation, err error) {
	if r.State != Queued {
		return nil, domain.Errorf(domain.CodeConflict, "Maintenance of the table is already running (%s); wait for its end.", r.ID)
	}
	r.Trigger, r.CreatedBy, r.DueAt = job.TriggerManual, by, now
	todo := r.Todo()
	added = selected(all, func(o Operation) bool { return !slices.Contains(todo, o.Kind) })
	held := append(selected(r.Operations, Operation.held), added...)
	slices.SortFunc(held, func(a, b Operation) int { return slices.Index(Kinds, a.Kind) - slices.Index(Kinds, b.Kind) })
	r.Operations = append(selected(r.Operations, func(o Operation) bool { return !o.held() }), held...)
	r.line(now)
	r.derive(now)
	return added, nil
}
