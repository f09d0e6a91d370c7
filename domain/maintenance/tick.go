package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

// Tick queues runs for due tables and advances the runs. It returns when to call it next, or the
// zero time if nothing is due. Any replica may call it: row locks ensure that each step happens
// once. At rest it costs one query.
func (m *Maintenances) Tick(ctx context.Context) (next time.Time, err error) {
	due, err := m.System.DueMaintenance(ctx, m.Clock.Now(), domain.MaxLimit)
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
	made, err := tx.InsertMaintenanceRuns(ctx, shared.runs(tables, job.TriggerSchedule, s.Actor(), *h.NextAt, now))
	if err != nil {
		return false, err
	}
	if made > 0 {
		tx.Notify(domain.MaintenanceTopic, domain.MaintenanceRunsTopic(s.Workspace()))
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
		return (&maintenancePass{m: m, tx: tx, scope: s, now: m.Clock.Now()}).run(ctx)
	})
	if err != nil {
		return fmt.Errorf("maintenance of %s: %w", ws, err)
	}
	return nil
}

// maintenancePass is one pass over the runs of a workspace, in a transaction that locks them.
type maintenancePass struct {
	m          *Maintenances
	tx         Tx
	scope      domain.Scope
	now        time.Time
	shared     levels
	warehouses []machine.Machine
	busy       []domain.MachineID // warehouses with a statement of maintenance
}

func (t *maintenancePass) run(ctx context.Context) error {
	running, err := t.tx.RunningMaintenance(ctx)
	if err != nil {
		return err
	}
	if t.shared, err = readLevels(ctx, t.tx); err != nil {
		return err
	}
	for _, r := range running {
		if err := t.advance(ctx, r); err != nil {
			return err
		}
	}
	if len(t.busy) >= AtOnce {
		return nil
	}
	waiting, err := t.tx.WaitingMaintenance(ctx, t.now, maintenanceRead)
	if err != nil || len(waiting) == 0 {
		return err
	}
	if t.warehouses, err = t.tx.Machines(ctx, machine.KindWarehouse, "", machine.MaxMachines); err != nil {
		return err
	}
	tables, err := t.tables(ctx, waiting)
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if len(t.busy) >= AtOnce {
			return nil
		}
		if err := t.start(ctx, r, tables); err != nil {
			return err
		}
	}
	return nil
}

// tables returns the live tables of the runs.
func (t *maintenancePass) tables(ctx context.Context, runs []Run) (map[domain.TableID]MaintainedTable, error) {
	ids := make([]domain.TableID, len(runs))
	for i, r := range runs {
		ids[i] = r.TableID
	}
	all, err := t.tx.MaintainedByID(ctx, ids)
	found := make(map[domain.TableID]MaintainedTable, len(all))
	for _, table := range all {
		found[table.ID] = table
	}
	return found, err
}

// advance records the end of the run's statement, and begins its next operation.
func (t *maintenancePass) advance(ctx context.Context, r Run) error {
	st, err := t.tx.Statement(ctx, r.Statement)
	if err != nil {
		return err
	}
	if !st.State.Final() {
		t.busy = append(t.busy, r.Warehouse)
		return nil
	}
	if err := t.finalize(ctx, &r, st); err != nil {
		return err
	}
	if r.State != Running {
		return t.save(ctx, r)
	}
	table, err := maintainable(ctx, t.tx, r.TableID)
	if domain.IsCode(err, domain.CodeNotFound) {
		r.end(Skipped, droppedMeanwhile, t.now)
		return t.save(ctx, r)
	}
	if err != nil {
		return err
	}
	return t.begin(ctx, r, table, t.shared.settings(table), r.Warehouse)
}

// begin begins the run's next operation: it queues its statement.
func (t *maintenancePass) begin(ctx context.Context, r Run, table MaintainedTable, s Settings, warehouse domain.MachineID) error {
	st := r.begin(t.scope, table.Table, s, warehouse, t.now)
	t.busy = append(t.busy, warehouse)
	if err := statement.Queue(ctx, t.tx, t.scope, st); err != nil {
		return err
	}
	return t.save(ctx, r)
}

const droppedMeanwhile = "The table was dropped."

func (t *maintenancePass) save(ctx context.Context, r Run) error {
	t.tx.Notify(domain.MaintenanceRunsTopic(t.scope.Workspace()))
	return t.tx.UpdateMaintenanceRun(ctx, r)
}

// finalize records the end of a statement: the table's totals, the engine's metrics, and the cost.
func (t *maintenancePass) finalize(ctx context.Context, r *Run, st statement.Statement) error {
	kind := r.current().Kind
	after, err := t.tx.LakeTable(ctx, r.TableID)
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return err
	}
	price, err := t.price(ctx, r.Warehouse)
	if err != nil {
		return err
	}
	reported, err := t.reported(ctx, st)
	if err != nil {
		return err
	}
	r.finalize(st, after, reported, price, t.now)
	if st.State != statement.Succeeded || after.ID == "" {
		return nil
	}
	found, err := t.tx.MaintainedByID(ctx, []domain.TableID{r.TableID})
	if err != nil || len(found) == 0 {
		return err
	}
	done := found[0].Done
	done.note(kind, after, t.now)
	return t.tx.SetMaintained(ctx, r.TableID, done)
}

// price returns the hourly price of the warehouse; the zero value without a price or a warehouse.
func (t *maintenancePass) price(ctx context.Context, id domain.MachineID) (machine.Price, error) {
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
func (t *maintenancePass) reported(ctx context.Context, st statement.Statement) (map[string]int64, error) {
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

// start starts a queued run, delays it, or ends it if there is nothing left to do. It leaves the
// run unchanged while its warehouse is busy: the end of the statement there triggers the next pass.
func (t *maintenancePass) start(ctx context.Context, r Run, tables map[domain.TableID]MaintainedTable) error {
	table, live := tables[r.TableID]
	if !live {
		r.end(Skipped, droppedMeanwhile, t.now)
		return t.save(ctx, r)
	}
	s := t.shared.settings(table)
	if r.review(table, s, t.now); r.State.Final() {
		return t.save(ctx, r)
	}
	at := t.choose(s)
	if at.busy {
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
	return t.startOn(ctx, r, table, s, at)
}

// review updates the kinds of a scheduled run, which may have waited for hours.
func (r *Run) review(t MaintainedTable, s Settings, now time.Time) {
	if r.Trigger != job.TriggerSchedule {
		return
	}
	needs := t.needs(s, now)
	r.Todo = slices.DeleteFunc(slices.Clone(r.Todo), func(k Kind) bool { return !slices.Contains(needs, k) })
	switch {
	case !s.Enabled:
		r.end(Skipped, "Maintenance was turned off meanwhile.", now)
	case len(r.Todo) == 0:
		r.end(Skipped, "There was nothing left to do when its turn came.", now)
	}
}

// written returns why and until when a run must wait for writers of its table. Only compaction
// waits: it would conflict with a writer.
func (t *maintenancePass) written(ctx context.Context, r Run, table MaintainedTable) (until time.Time, why string, err error) {
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

// startOn starts the run on the chosen warehouse.
func (t *maintenancePass) startOn(ctx context.Context, r Run, table MaintainedTable, s Settings, at choice) error {
	switch {
	case at.fail != "":
		r.end(Failed, at.fail, t.now)
	case at.wait != "":
		r.putOff(t.now.Add(maintenanceLook), at.wait, t.now)
	default:
		return t.begin(ctx, r, table, s, at.id)
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
// if the policy allows it.
func (t *maintenancePass) choose(s Settings) choice {
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
	all = slices.SortedStableFunc(slices.Values(all), func(a, b machine.Machine) int { return maintenanceRank(b) - maintenanceRank(a) })
	free := slices.DeleteFunc(slices.Clone(all), func(w machine.Machine) bool { return slices.Contains(t.busy, w.ID) })
	switch {
	case len(free) > 0 && free[0].State == machine.Running:
		return choice{id: free[0].ID}
	// one busy warehouse is enough: do not start another
	case len(free) < len(all) || s.Warehouse == "" && len(t.busy) > 0:
		return choice{busy: true}
	case s.StartWarehouse:
		return choice{id: free[0].ID}
	}
	return choice{wait: "No warehouse is running, and the policy does not start one."}
}

// maintenanceRank orders warehouses: running, starting, stopped, others.
func maintenanceRank(w machine.Machine) int {
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
