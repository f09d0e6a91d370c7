package maintenance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

// Due returns the tables to check, and the workspaces whose runs go on. At rest it costs one query.
func (m *Maintenances) Due(ctx context.Context, now time.Time, limit int) ([]domain.Due, error) {
	found, err := m.System.DueMaintenance(ctx, now, limit+1) // one more tells Tick that there is more
	all := make([]domain.Due, len(found))
	for i, d := range found {
		all[i] = domain.Due{At: d.At, Do: func(ctx context.Context) error {
			if d.Runs {
				return m.advance(ctx, d.Workspace)
			}
			return m.sweep(ctx, d)
		}}
	}
	return all, err
}

// sweep queues runs for the tables of a due holder, one transaction for each page. After an
// interruption the next sweep continues at the same page. A missed time is done once.
func (m *Maintenances) sweep(ctx context.Context, d Due) error {
	s := domain.SystemScope(d.Workspace, "maintenance")
	for more := true; more; {
		err := m.Store.In(ctx, s, func(tx Tx) (err error) {
			more, err = m.sweepPage(ctx, tx, s, Holder{Database: d.Database, Table: d.Table})
			return err
		})
		if err != nil {
			return fmt.Errorf("maintenance of %s %s: %w", d.Workspace, string(d.Database)+string(d.Table), err)
		}
	}
	return nil
}

func (m *Maintenances) sweepPage(ctx context.Context, tx Tx, s domain.Scope, of Holder) (more bool, err error) {
	now := m.Clock.Now()
	h, err := tx.LockMaintenance(ctx, of)
	if err != nil {
		return false, err
	}
	if h.NextAt == nil && h.Subject() == "" { // a new workspace
		h.arm(now)
		return false, tx.UpdateMaintenance(ctx, h)
	}
	if h.NextAt == nil || h.NextAt.After(now) { // another replica has done it
		return false, nil
	}
	shared, err := readLevels(ctx, tx)
	if err != nil {
		return false, err
	}
	tables, err := tx.MaintainedTables(ctx, h, false, h.SweepAfter, maintenanceSweep)
	if err != nil {
		return false, err
	}
	made, err := tx.InsertMaintenanceRuns(ctx, shared.runs(s, tables, job.TriggerSchedule, *h.NextAt, now))
	if err != nil {
		return false, err
	}
	if made > 0 {
		announce(tx, s)
	}
	if more = len(tables) == maintenanceSweep; more {
		h.SweepAfter = tables[len(tables)-1].ID
	} else {
		h.arm(now)
	}
	return more, tx.UpdateMaintenance(ctx, h)
}

// advance advances the runs of a workspace: it records ended statements, and starts queued runs
// while there is room.
func (m *Maintenances) advance(ctx context.Context, ws domain.WorkspaceID) error {
	s := domain.SystemScope(ws, "maintenance")
	err := m.Store.In(ctx, s, func(tx Tx) error {
		if _, err := tx.LockMaintenance(ctx, Holder{}); err != nil { // one replica at a time
			return err
		}
		return (&pass{m: m, tx: tx, scope: s, now: m.Clock.Now()}).run(ctx)
	})
	if err != nil {
		return fmt.Errorf("maintenance of %s: %w", ws, err)
	}
	return nil
}

// pass is one pass over the runs of a workspace, in a transaction that locks them.
type pass struct {
	m          *Maintenances
	tx         Tx
	scope      domain.Scope
	now        time.Time
	shared     levels
	warehouses []machine.Machine
	tables     map[domain.TableID]MaintainedTable // of the runs that may start; the live ones
	busy       []domain.MachineID                 // warehouses with a statement of maintenance
}

func (t *pass) run(ctx context.Context) (err error) {
	if t.shared, err = readLevels(ctx, t.tx); err != nil {
		return err
	}
	ready, err := t.recordAll(ctx)
	if err != nil {
		return err
	}
	waiting, err := t.tx.WaitingMaintenance(ctx, t.now, maintenanceRead)
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if !slices.ContainsFunc(ready, func(o Run) bool { return o.ID == r.ID }) {
			ready = append(ready, r)
		}
	}
	if err := t.read(ctx, ready); err != nil {
		return err
	}
	for _, r := range ready {
		if err := t.proceed(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// recordAll records the ended statements of the running runs, and returns the runs that go on.
func (t *pass) recordAll(ctx context.Context) (ready []Run, err error) {
	running, err := t.tx.RunningMaintenance(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		if o := r.Operations[r.current()]; !o.Statement.State.Final() {
			t.busy = append(t.busy, o.Statement.Warehouse)
			continue
		}
		if err := t.record(ctx, &r); err != nil {
			return nil, err
		}
		if r.State == Queued {
			ready = append(ready, r)
		}
	}
	return ready, nil
}

// read reads the warehouses and the runs' tables.
func (t *pass) read(ctx context.Context, runs []Run) (err error) {
	if len(runs) == 0 {
		return nil
	}
	if t.warehouses, err = t.tx.Machines(ctx, machine.KindWarehouse, "", machine.MaxMachines); err != nil {
		return err
	}
	ids := make([]domain.TableID, len(runs))
	for i, r := range runs {
		ids[i] = r.TableID
	}
	all, err := t.tx.MaintainedByID(ctx, ids)
	t.tables = make(map[domain.TableID]MaintainedTable, len(all))
	for _, table := range all {
		t.tables[table.ID] = table
	}
	return err
}

// save stores the run with its state. The operation that comes next may start now.
func (t *pass) save(ctx context.Context, r *Run) error {
	if o := r.head(); o != nil && o.held() && o.Statement.NotBefore == nil {
		r.line(t.now)
		if err := t.tx.UpdateHeld(ctx, o.Statement); err != nil {
			return err
		}
	}
	r.derive(t.now)
	t.tx.Notify(domain.MaintenanceRunsTopic(t.scope.Workspace()), domain.StatementsTopic(t.scope.Workspace()))
	if o := r.head(); o != nil {
		t.tx.Notify(domain.StatementTopic(o.Statement.ID))
	}
	return t.tx.UpdateMaintenanceRun(ctx, *r)
}

// withdraw ends the operations that are held and selected.
func (t *pass) withdraw(ctx context.Context, r *Run, fault statement.Fault, why string, is func(Operation) bool) (err error) {
	for i, o := range r.Operations {
		if !o.held() || !is(o) {
			continue
		}
		r.Operations[i].Statement, err = statement.Withdraw(ctx, t.tx, t.scope, o.Statement.ID, statement.Failure{Fault: fault, Message: why}, t.now)
		if err != nil {
			return err
		}
	}
	return nil
}

// end ends the run: what is held will not run.
func (t *pass) end(ctx context.Context, r *Run, fault statement.Fault, why string) error {
	if err := t.withdraw(ctx, r, fault, why, Operation.held); err != nil {
		return err
	}
	return t.save(ctx, r)
}

// record records the end of a statement: the table's totals, the engine's metrics, and the cost.
// After a lost engine the operation is retried. After a conflict or a refusal the run goes on with
// its next operation.
func (t *pass) record(ctx context.Context, r *Run) error {
	o := &r.Operations[r.current()]
	after, err := t.tx.LakeTable(ctx, r.TableID)
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return err
	}
	price, err := t.price(ctx, o.Statement.Warehouse)
	if err != nil {
		return err
	}
	reported, err := t.reported(ctx, o.Statement)
	if err != nil {
		return err
	}
	o.record(after, reported, price)
	switch o.fault() {
	case "":
		err = t.maintained(ctx, o.Kind, after)
	case statement.FaultCancelled:
		return t.end(ctx, r, statement.FaultCancelled, "An earlier operation of the run was cancelled.")
	case statement.FaultEngine:
		if r.lost() >= maintenanceTries {
			return t.end(ctx, r, statement.FaultCancelled, "An earlier operation of the run has failed.")
		}
		err = t.tx.InsertStatement(ctx, r.retry(t.scope, t.now).Statement)
	}
	if err != nil {
		return err
	}
	return t.save(ctx, r)
}

// maintained records the operation in the table's past, unless the table is gone.
func (t *pass) maintained(ctx context.Context, k Kind, after lake.Table) error {
	found, err := t.tx.MaintainedByID(ctx, []domain.TableID{after.ID})
	if err != nil || len(found) == 0 {
		return err
	}
	done := found[0].Done
	done.note(k, after, t.now)
	return t.tx.SetMaintained(ctx, after.ID, done)
}

// price returns the hourly price of the warehouse; the zero value without a price or a warehouse.
func (t *pass) price(ctx context.Context, id domain.MachineID) (machine.Price, error) {
	w, err := t.tx.Machine(ctx, id)
	if domain.IsCode(err, domain.CodeNotFound) {
		return machine.Price{}, nil
	}
	if err != nil {
		return machine.Price{}, err
	}
	prices, err := t.tx.Prices(ctx, w.Provider, w.Region, t.now)
	return prices[w.Flavor], err
}

// reported returns the engine's answer, if it consists of names and numbers.
func (t *pass) reported(ctx context.Context, st statement.Statement) (map[string]int64, error) {
	if st.State != statement.Succeeded || len(st.Chunks) != 1 {
		return nil, nil
	}
	result, err := t.tx.StatementResult(ctx, st.ID)
	if err != nil || result == nil {
		return nil, err
	}
	rows, err := t.m.Rows(result)
	if err != nil {
		return nil, nil // numbers for people only: the work is done
	}
	return metrics(rows), nil
}

// proceed ends what is cancelled or not needed any more, and starts the run's next operation. It
// leaves the run unchanged while its warehouse is busy: the end of the statement there triggers the
// next pass.
func (t *pass) proceed(ctx context.Context, r Run) error {
	table, live := t.tables[r.TableID]
	if !live {
		return t.end(ctx, &r, statement.FaultCancelled, "The table was dropped.")
	}
	s := t.shared.settings(table)
	before := len(r.Todo())
	if err := t.review(ctx, &r, table, s); err != nil {
		return err
	}
	if len(r.Todo()) < before {
		if err := t.save(ctx, &r); err != nil {
			return err
		}
	}
	if r.State != Queued || r.NextTryAt().After(t.now) || len(t.busy) >= AtOnce {
		return nil
	}
	if until := r.pause(); until.After(t.now) {
		return t.delay(ctx, &r, until, r.head().Statement.Message)
	}
	at := t.choose(s, r.asked())
	if at.busy {
		return nil
	}
	until, why, err := t.written(ctx, r, table)
	if err != nil {
		return err
	}
	if why != "" {
		return t.putOff(ctx, &r, until, why)
	}
	return t.startOn(ctx, &r, table, s, at)
}

// review withdraws what is cancelled, and each operation that is not needed any more when its turn
// comes: the run may have waited for hours.
func (t *pass) review(ctx context.Context, r *Run, table MaintainedTable, s Settings) error {
	err := t.withdraw(ctx, r, statement.FaultCancelled, "The statement was cancelled.", func(o Operation) bool { return o.Statement.CancelRequestedAt != nil })
	if err != nil {
		return err
	}
	if r.Trigger == job.TriggerSchedule && !s.Enabled {
		return t.withdraw(ctx, r, statement.FaultCancelled, "Maintenance was turned off meanwhile.", Operation.held)
	}
	needs := s.kinds()
	if r.Trigger == job.TriggerSchedule {
		needs = table.needs(s, t.now)
	}
	for o := r.head(); o != nil && o.held() && !slices.Contains(needs, o.Kind); o = r.head() {
		why := "There was nothing left to do when its turn came."
		if !s.does(o.Kind) {
			why = "It was turned off before its turn came."
		}
		err := t.withdraw(ctx, r, statement.FaultCancelled, why, func(other Operation) bool { return other.Statement.ID == o.Statement.ID })
		if err != nil {
			return err
		}
	}
	return nil
}

// putOff delays the run until then; after maintenanceWait it ends.
func (t *pass) putOff(ctx context.Context, r *Run, until time.Time, why string) error {
	if r.waited(t.now) {
		return t.end(ctx, r, statement.FaultCancelled, why+" It has waited for six hours; it is due again at the next time.")
	}
	return t.delay(ctx, r, until, why)
}

func (t *pass) delay(ctx context.Context, r *Run, until time.Time, why string) error {
	o := r.head()
	o.Statement.NotBefore, o.Statement.Message = &until, why
	if err := t.tx.UpdateHeld(ctx, o.Statement); err != nil {
		return err
	}
	return t.save(ctx, r)
}

// written returns why and until when a run must wait for writers of its table. Only compaction
// waits: it would conflict with a writer.
func (t *pass) written(ctx context.Context, r Run, table MaintainedTable) (until time.Time, why string, err error) {
	if !r.waitsForQuiet(t.now) {
		return time.Time{}, "", nil
	}
	if quiet := table.UpdatedAt.Add(maintenanceQuiet); quiet.After(t.now) {
		return quiet, fmt.Sprintf("The table is being written: it was changed at %s. Compaction waits until it was quiet for five minutes.", table.UpdatedAt.Format(time.RFC3339)), nil
	}
	busy, err := t.tx.BeingWritten(ctx, table.ID)
	if err != nil || !busy {
		return time.Time{}, "", err
	}
	return t.now.Add(maintenanceQuiet), "A statement that writes has the table open. Compaction waits for its end.", nil
}

// startOn starts the run's next operation on the chosen warehouse.
func (t *pass) startOn(ctx context.Context, r *Run, table MaintainedTable, s Settings, at choice) error {
	switch {
	case at.fail != "":
		return t.end(ctx, r, statement.FaultQuery, at.fail)
	case at.wait != "":
		return t.putOff(ctx, r, t.now.Add(maintenanceLook), at.wait)
	}
	o := r.head()
	o.Before = totalsOf(table.Table)
	o.Statement.Query, o.Statement.Warehouse, o.Statement.Message, o.Statement.NotBefore = o.Kind.sql(table.Table, s), at.id, "Waits for a server.", &t.now
	t.busy = append(t.busy, at.id)
	if err := statement.Release(ctx, t.tx, t.scope, o.Statement); err != nil {
		return err
	}
	return t.save(ctx, r)
}

// choice is the result of choose: exactly one field is set.
type choice struct {
	id   domain.MachineID
	busy bool   // with other maintenance
	wait string // what the run waits for, as a sentence
	fail string // why no warehouse can run it
}

// choose returns the policy's warehouse if it names one; otherwise a running one, or one to start
// if the policy allows it. It starts no warehouse that a person stopped after the run was asked
// for.
func (t *pass) choose(s Settings, asked time.Time) choice {
	all := t.warehouses
	if s.Warehouse != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(w machine.Machine) bool { return w.ID != s.Warehouse })
	}
	switch {
	case len(all) == 0 && s.Warehouse != "":
		return choice{fail: "The warehouse " + string(s.Warehouse) + ", which its policy names, is gone; name another one."}
	case len(all) == 0:
		return choice{fail: "The workspace has no warehouse; create one for maintenance to run on."}
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b machine.Machine) int { return rank(b) - rank(a) })
	free := slices.DeleteFunc(slices.Clone(all), func(w machine.Machine) bool { return slices.Contains(t.busy, w.ID) })
	switch {
	case len(free) > 0 && free[0].State == machine.Running:
		return choice{id: free[0].ID}
	// one busy warehouse is enough: do not start another
	case len(free) < len(all) || s.Warehouse == "" && len(t.busy) > 0:
		return choice{busy: true}
	case !s.StartWarehouse:
		return choice{wait: "No warehouse is running, and the policy does not start one."}
	}
	startable := func(w machine.Machine) bool { return w.HeldAt == nil || w.HeldAt.Before(asked) }
	if i := slices.IndexFunc(free, startable); i >= 0 {
		return choice{id: free[i].ID}
	}
	return choice{wait: "Waits: the warehouse " + free[0].Name + " was stopped by a person; start it, or run the maintenance again."}
}

// rank orders warehouses: running, starting, stopped, others.
func rank(w machine.Machine) int {
	switch w.State {
	case machine.Running:
		return 3
	case machine.Starting:
		return 2
	case machine.Stopped, machine.Stopping:
		return 1
	}
	return 0
}
