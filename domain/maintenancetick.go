package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Tick goes through the tables that are due and brings their runs on, and returns when it is to look again; the zero time when nothing is known to come. Every
// replica may do it: rows that are locked see to it that each thing is done once. At rest it is one query, whatever there is.
func (m *Maintenances) Tick(ctx context.Context) (next time.Time, err error) {
	due, err := m.System.DueMaintenance(ctx, m.Clock.Now(), MaxLimit)
	if err != nil {
		return time.Time{}, err
	}
	now := m.Clock.Now()
	var failed []error
	for _, d := range due {
		switch {
		case d.At.After(now):
			return d.At, errors.Join(failed...)
		case d.Runs:
			err = m.advance(ctx, d.Workspace)
		default:
			err = m.sweep(ctx, d)
		}
		failed = append(failed, err)
	}
	return time.Time{}, errors.Join(failed...)
}

// sweep goes through the tables of a holder that is due: a transaction for each page of them, so that who goes on after an interruption goes on there. A time that
// was missed comes once.
func (m *Maintenances) sweep(ctx context.Context, d DueMaintenance) error {
	s := SystemScope(d.Workspace, "maintenance")
	for more := true; more; {
		err := m.Store.In(ctx, s, func(tx Tx) (err error) {
			more, err = m.sweepPage(ctx, tx, s, MaintenanceHolder{Database: d.Database, Table: d.Table})
			return err
		})
		if err != nil {
			return fmt.Errorf("maintenance of %s %s: %w", d.Workspace, string(d.Database)+string(d.Table), err)
		}
	}
	return nil
}

func (m *Maintenances) sweepPage(ctx context.Context, tx Tx, s Scope, of MaintenanceHolder) (more bool, err error) {
	now := m.Clock.Now()
	h, err := tx.LockMaintenance(ctx, of)
	if err != nil {
		return false, err
	}
	if h.NextAt == nil && h.Subject() == "" { // a new workspace
		h.arm(now)
		return false, tx.UpdateMaintenance(ctx, h)
	}
	if h.NextAt == nil || h.NextAt.After(now) { // another replica was here
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
	made, err := tx.InsertMaintenanceRuns(ctx, shared.runs(tables, TriggerSchedule, s.actor, *h.NextAt, now))
	if err != nil {
		return false, err
	}
	if made > 0 {
		tx.Notify(MaintenanceTopic, MaintenanceRunsTopic(s.workspace))
	}
	if more = len(tables) == maintenanceSweep; more {
		h.SweepAfter = tables[len(tables)-1].ID
	} else {
		h.arm(now)
	}
	return more, tx.UpdateMaintenance(ctx, h)
}

// advance brings on the runs of a workspace: it takes what came of their statements, lets others begin while there is room, and submits their statements.
func (m *Maintenances) advance(ctx context.Context, ws WorkspaceID) error {
	s := SystemScope(ws, "maintenance")
	var submit []MaintenanceRun
	err := m.Store.In(ctx, s, func(tx Tx) (err error) {
		if _, err := tx.LockMaintenance(ctx, MaintenanceHolder{}); err != nil { // one replica at a time
			return err
		}
		t := &maintenanceTurn{m: m, tx: tx, scope: s, now: m.Clock.Now()}
		err = t.take(ctx)
		submit = t.submit
		return err
	})
	if err != nil {
		return fmt.Errorf("maintenance of %s: %w", ws, err)
	}
	var failed []error
	for _, run := range submit {
		failed = append(failed, m.submit(ctx, s, run))
	}
	return errors.Join(failed...)
}

// submit hands in the statement of the run's current operation. If this server ends in between, the claim runs out, and another one does it with the same key:
// there is one statement in any case.
func (m *Maintenances) submit(ctx context.Context, s Scope, run MaintenanceRun) error {
	st, refused := m.Statements.Submit(ctx, s, run.statement(), run.key())
	passing := refused != nil && (isPassing(refused) || IsCode(refused, CodeRate) || IsCode(refused, CodeUnavailable))
	if passing {
		return refused
	}
	return m.Store.In(ctx, s, func(tx Tx) error {
		now, err := tx.LockMaintenanceRun(ctx, run.ID)
		if err != nil || now.State != MaintenanceRunning || now.Statement != "" || len(now.Operations) != len(run.Operations) {
			return err // it was brought on meanwhile
		}
		if refused != nil {
			t, err := tx.LakeTable(ctx, run.TableID)
			if err != nil {
				return err
			}
			failure := &StatementFailure{Fault: FaultQuery, Message: AsError(refused).Message}
			now.settle(Statement{State: StatementFailed, Failure: failure}, t, nil, Price{}, m.Clock.Now())
			tx.Notify(MaintenanceTopic)
		} else {
			now.submitted(st.ID)
			tx.Notify(MaintenanceTopic) // it may be over already
		}
		tx.Notify(MaintenanceRunsTopic(s.workspace))
		return tx.UpdateMaintenanceRun(ctx, now)
	})
}

// maintenanceTurn is one look at the runs of a workspace, in a transaction that is alone with them.
type maintenanceTurn struct {
	m          *Maintenances
	tx         Tx
	scope      Scope
	now        time.Time
	shared     levels
	warehouses []Machine
	busy       []MachineID // that have a statement of maintenance
	submit     []MaintenanceRun
}

func (t *maintenanceTurn) take(ctx context.Context) error {
	running, err := t.tx.RunningMaintenance(ctx)
	if err != nil {
		return err
	}
	if t.shared, err = readLevels(ctx, t.tx); err != nil {
		return err
	}
	for _, r := range running {
		if err := t.bringOn(ctx, r); err != nil {
			return err
		}
	}
	if len(t.busy) >= MaintenanceAtOnce {
		return nil
	}
	waiting, err := t.tx.WaitingMaintenance(ctx, t.now, maintenanceRead)
	if err != nil || len(waiting) == 0 {
		return err
	}
	if t.warehouses, err = t.tx.Machines(ctx, KindWarehouse, "", maxMachines); err != nil {
		return err
	}
	tables, err := t.tables(ctx, waiting)
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if len(t.busy) >= MaintenanceAtOnce {
			return nil
		}
		if err := t.start(ctx, r, tables); err != nil {
			return err
		}
	}
	return nil
}

// tables are those of the runs that are live.
func (t *maintenanceTurn) tables(ctx context.Context, runs []MaintenanceRun) (map[TableID]MaintainedTable, error) {
	ids := make([]TableID, len(runs))
	for i, r := range runs {
		ids[i] = r.TableID
	}
	all, err := t.tx.MaintainedByID(ctx, ids)
	found := make(map[TableID]MaintainedTable, len(all))
	for _, table := range all {
		found[table.ID] = table
	}
	return found, err
}

// bringOn takes what came of the run's statement, and goes on with its next operation.
func (t *maintenanceTurn) bringOn(ctx context.Context, r MaintenanceRun) error {
	if r.Statement != "" {
		st, err := t.tx.Statement(ctx, r.Statement)
		if err != nil && !IsCode(err, CodeNotFound) {
			return err
		}
		if err == nil && !st.State.Final() {
			t.busy = append(t.busy, r.Warehouse)
			return nil
		}
		if err != nil {
			st = Statement{State: StatementFailed}
		}
		if err := t.settle(ctx, &r, st); err != nil {
			return err
		}
	}
	if r.State == MaintenanceRunning {
		if err := t.goOn(ctx, &r); err != nil {
			return err
		}
	}
	if r.State == MaintenanceRunning {
		t.busy = append(t.busy, r.Warehouse)
	}
	return t.save(ctx, r)
}

// goOn begins the next operation of a run where the one before is over, and else submits that again whose submission was cut off.
func (t *maintenanceTurn) goOn(ctx context.Context, r *MaintenanceRun) error {
	if r.current().State.Final() {
		table, err := maintainable(ctx, t.tx, r.TableID)
		if IsCode(err, CodeNotFound) {
			r.end(MaintenanceSkipped, droppedMeanwhile, t.now)
			return nil
		}
		if err != nil {
			return err
		}
		r.begin(table.LakeTable, t.shared.settings(table), r.Warehouse, t.now)
	} else if r.LookAt.After(t.now) {
		return nil
	}
	r.LookAt = t.now.Add(maintenanceClaim)
	t.submit = append(t.submit, *r)
	return nil
}

const droppedMeanwhile = "The table was dropped."

func (t *maintenanceTurn) save(ctx context.Context, r MaintenanceRun) error {
	t.tx.Notify(MaintenanceRunsTopic(t.scope.workspace))
	return t.tx.UpdateMaintenanceRun(ctx, r)
}

// settle takes how a statement ended: what the table is now, what the engine told, and what it cost.
func (t *maintenanceTurn) settle(ctx context.Context, r *MaintenanceRun, st Statement) error {
	kind := r.current().Kind
	after, err := t.tx.LakeTable(ctx, r.TableID)
	if err != nil && !IsCode(err, CodeNotFound) {
		return err
	}
	price, err := t.price(ctx, r.Warehouse)
	if err != nil {
		return err
	}
	told, err := t.told(ctx, st)
	if err != nil {
		return err
	}
	r.settle(st, after, told, price, t.now)
	if st.State != StatementSucceeded || after.ID == "" {
		return nil
	}
	found, err := t.tx.MaintainedByID(ctx, []TableID{r.TableID})
	if err != nil || len(found) == 0 {
		return err
	}
	done := found[0].Done
	done.note(kind, after, t.now)
	return t.tx.SetMaintained(ctx, r.TableID, done)
}

// price is what an hour of the warehouse costs; the zero value where there is no price, or no such warehouse any more.
func (t *maintenanceTurn) price(ctx context.Context, id MachineID) (Price, error) {
	w, err := t.tx.Machine(ctx, id)
	if IsCode(err, CodeNotFound) {
		return Price{}, nil
	}
	if err != nil {
		return Price{}, err
	}
	prices, err := t.tx.Prices(ctx, w.Provider, w.Region, t.now)
	return prices[w.Flavor], err
}

// told is what the engine answered, where that is rows of names and numbers.
func (t *maintenanceTurn) told(ctx context.Context, st Statement) (map[string]int64, error) {
	if st.State != StatementSucceeded || len(st.Chunks) != 1 {
		return nil, nil
	}
	result, err := t.tx.StatementResult(ctx, st.ID)
	if err != nil || result == nil {
		return nil, err
	}
	rows, err := t.m.Rows(result)
	if err != nil {
		return nil, nil // numbers for people: the work is done in any case
	}
	return metrics(rows), nil
}

// start lets a run begin, puts it off, or ends it where there is nothing to do any more. One for whose warehouse there is no turn yet is left as it is: the end of
// what runs there wakes who waits.
func (t *maintenanceTurn) start(ctx context.Context, r MaintenanceRun, tables map[TableID]MaintainedTable) error {
	table, live := tables[r.TableID]
	if !live {
		r.end(MaintenanceSkipped, droppedMeanwhile, t.now)
		return t.save(ctx, r)
	}
	s := t.shared.settings(table)
	if r.review(table, s, t.now); r.State.Final() {
		return t.save(ctx, r)
	}
	at := t.choose(s)
	if at.taken {
		return nil
	}
	until, why, err := t.written(ctx, r, table)
	if err != nil {
		return err
	}
	if why != "" {
		r.putOff(until, why, t.now)
		return t.save(ctx, r)
	}
	return t.place(ctx, r, table, s, at)
}

// review looks again at what a run that came by its schedule is to do: it may have waited for hours.
func (r *MaintenanceRun) review(t MaintainedTable, s MaintenanceSettings, now time.Time) {
	if r.Trigger != TriggerSchedule {
		return
	}
	needs := t.needs(s, now)
	r.Todo = slices.DeleteFunc(slices.Clone(r.Todo), func(k MaintenanceKind) bool { return !slices.Contains(needs, k) })
	switch {
	case !s.Enabled:
		r.end(MaintenanceSkipped, "Maintenance was turned off meanwhile.", now)
	case len(r.Todo) == 0:
		r.end(MaintenanceSkipped, "When its turn came there was nothing to do any more.", now)
	}
}

// written says why a table that is being written has to wait, and until when. Compaction alone waits: it would lose the race with a writer, or make a long one lose.
func (t *maintenanceTurn) written(ctx context.Context, r MaintenanceRun, table MaintainedTable) (until time.Time, why string, err error) {
	if !r.patient(t.now) {
		return time.Time{}, "", nil
	}
	if quiet := table.UpdatedAt.Add(maintenanceQuiet); quiet.After(t.now) {
		return quiet, fmt.Sprintf("The table is being written: it was changed at %s. Compaction waits until it was quiet for five minutes.", table.UpdatedAt.Format(time.RFC3339)), nil
	}
	busy, err := t.tx.BeingWritten(ctx, table.ID)
	if err != nil || !busy {
		return time.Time{}, "", err
	}
	return t.now.Add(maintenanceQuiet), "A statement that writes has opened the table, and is not over. Compaction waits for it.", nil
}

// place begins the run on the warehouse that was chosen.
func (t *maintenanceTurn) place(ctx context.Context, r MaintenanceRun, table MaintainedTable, s MaintenanceSettings, at choice) error {
	switch {
	case at.fail != "":
		r.end(MaintenanceFailed, at.fail, t.now)
	case at.wait != "":
		r.putOff(t.now.Add(maintenanceLook), at.wait, t.now)
	default:
		r.begin(table.LakeTable, s, at.id, t.now)
		t.busy = append(t.busy, at.id)
		t.submit = append(t.submit, r)
	}
	return t.save(ctx, r)
}

// choice is where a run can go: exactly one of the fields is set.
type choice struct {
	id    MachineID
	taken bool   // by other maintenance
	wait  string // for what, as a sentence
	fail  string // why nowhere
}

// choose is the warehouse that is named; else one that runs, with Trino rather than without; else one that is started, where that is allowed.
func (t *maintenanceTurn) choose(s MaintenanceSettings) choice {
	all := t.warehouses
	if s.Warehouse != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(w Machine) bool { return w.ID != s.Warehouse })
	}
	switch {
	case len(all) == 0 && s.Warehouse != "":
		return choice{fail: "The warehouse " + string(s.Warehouse) + ", which its policy names, is gone; name another one."}
	case len(all) == 0:
		return choice{fail: "The workspace has no warehouse; make one, on which maintenance can run."}
	}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b Machine) int { return maintenanceRank(b) - maintenanceRank(a) })
	free := slices.DeleteFunc(slices.Clone(all), func(w Machine) bool { return slices.Contains(t.busy, w.ID) })
	switch {
	case len(free) > 0 && free[0].State == MachineRunning:
		return choice{id: free[0].ID}
	case len(free) < len(all) || s.Warehouse == "" && len(t.busy) > 0: // one at work is enough: no other one is started beside it
		return choice{taken: true}
	case s.StartWarehouse:
		return choice{id: free[0].ID}
	}
	return choice{wait: "No warehouse runs, and its policy starts none."}
}

// maintenanceRank orders warehouses: those that run, then those that are not failed, and of each those with Trino.
func maintenanceRank(w Machine) int {
	rank := 0
	switch w.State {
	case MachineRunning:
		rank = 6
	case MachineStarting:
		rank = 4
	case MachineStopped, MachineStopping:
		rank = 2
	}
	if w.WriteEngine == EngineTrino {
		rank++
	}
	return rank
}
