package maintenance

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
)

// Maintenances runs table maintenance by schedules that users can see and turn off, and stores its
// history.
type Maintenances struct {
	Store  domain.Store[Tx]
	System System
	Topics domain.Topics
	Clock  domain.Clock
	Rows   func(stream []byte) ([]byte, error) // converts Arrow IPC into a JSON array of arrays
}

// subject is the holder of a policy: the workspace, a database or a table.
type subject struct {
	database domain.DatabaseID
	table    domain.TableID
}

// OfWorkspace returns the maintenance settings of the workspace, which databases and tables
// inherit.
func (m *Maintenances) OfWorkspace(ctx context.Context, s domain.Scope) (Maintenance, error) {
	return m.get(ctx, s, subject{})
}

// OfDatabase returns the maintenance settings of the database, which its tables inherit.
func (m *Maintenances) OfDatabase(ctx context.Context, s domain.Scope, id domain.DatabaseID) (Maintenance, error) {
	return m.get(ctx, s, subject{database: id})
}

// OfTable returns the maintenance settings of the table.
func (m *Maintenances) OfTable(ctx context.Context, s domain.Scope, id domain.TableID) (found Maintenance, err error) {
	all, err := m.OfTables(ctx, s, []domain.TableID{id})
	if err != nil {
		return Maintenance{}, err
	}
	found, has := all[id]
	if !has {
		return Maintenance{}, domain.NotFound("table", id)
	}
	return found, nil
}

// OfTables returns the maintenance settings of those tables that are live, in two queries.
func (m *Maintenances) OfTables(ctx context.Context, s domain.Scope, ids []domain.TableID) (map[domain.TableID]Maintenance, error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceRead); err != nil {
		return nil, err
	}
	found := map[domain.TableID]Maintenance{}
	err := m.Store.In(ctx, s, func(tx Tx) error {
		shared, err := readLevels(ctx, tx)
		if err != nil {
			return err
		}
		tables, err := tx.MaintainedByID(ctx, ids)
		for _, t := range tables {
			found[t.ID] = shared.ofTable(t, m.Clock.Now())
		}
		return err
	})
	return found, err
}

func (m *Maintenances) get(ctx context.Context, s domain.Scope, of subject) (found Maintenance, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceRead); err != nil {
		return Maintenance{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = m.read(ctx, tx, of)
		return err
	})
	return found, err
}

// read returns the settings of the subject, which must exist.
func (m *Maintenances) read(ctx context.Context, tx Tx, of subject) (Maintenance, error) {
	shared, err := readLevels(ctx, tx)
	if err != nil {
		return Maintenance{}, err
	}
	now := m.Clock.Now()
	if of.table != "" {
		t, err := maintainable(ctx, tx, of.table)
		return shared.ofTable(t, now), err
	}
	if of.database != "" {
		if _, err := tx.Database(ctx, of.database); err != nil {
			return Maintenance{}, err
		}
	}
	return shared.of(of.database, now), nil
}

// maintainable returns the live table with the id.
func maintainable(ctx context.Context, tx Tx, id domain.TableID) (MaintainedTable, error) {
	found, err := tx.MaintainedByID(ctx, []domain.TableID{id})
	if err == nil && len(found) == 0 {
		err = domain.NotFound("table", id)
	}
	if err != nil {
		return MaintainedTable{}, err
	}
	return found[0], nil
}

// levels are the holders above tables.
type levels struct {
	workspace Holder
	databases map[domain.DatabaseID]Holder
}

func readLevels(ctx context.Context, tx Tx) (levels, error) {
	all, err := tx.SharedMaintenance(ctx)
	l := levels{databases: map[domain.DatabaseID]Holder{}}
	for _, h := range all {
		if h.Database == "" {
			l.workspace = h
		} else {
			l.databases[h.Database] = h
		}
	}
	return l, err
}

// of returns the settings of the database, or of the workspace if id is empty.
func (l levels) of(id domain.DatabaseID, now time.Time) Maintenance {
	h := l.databases[id]
	m := Maintenance{Policy: l.workspace.Policy, Settings: settingsOf(l.workspace.Policy, h.Policy, Policy{})}
	if id != "" {
		m.Policy = h.Policy
	}
	m.NextAt = l.nextAt(m.Settings, h.NextAt, nil, now)
	return m
}

func (l levels) settings(t MaintainedTable) Settings {
	s := settingsOf(l.workspace.Policy, l.databases[t.DatabaseID].Policy, t.Policy)
	s.sparing(t.Table)
	return s
}

func (l levels) ofTable(t MaintainedTable, now time.Time) Maintenance {
	m := Maintenance{Policy: t.Policy, Settings: l.settings(t)}
	m.NextAt = l.nextAt(m.Settings, l.databases[t.DatabaseID].NextAt, t.NextAt, now)
	return m
}

// nextAt returns the due time of the effective schedule.
func (l levels) nextAt(s Settings, database, table *time.Time, now time.Time) *time.Time {
	switch {
	case !s.Enabled:
		return nil
	case s.Origins[fieldSchedule] == OfTable:
		return table
	case s.Origins[fieldSchedule] == OfDatabase:
		return database
	case l.workspace.NextAt != nil:
		return l.workspace.NextAt
	}
	return s.Schedule.next(now) // the workspace has no due time yet
}

// SetWorkspace replaces the workspace's own policy.
func (m *Maintenances) SetWorkspace(ctx context.Context, s domain.Scope, p Policy) (Maintenance, error) {
	return m.set(ctx, s, domain.MaintenanceDefault, subject{}, p)
}

// SetDatabase replaces the policy of a database. Nil fields are inherited.
func (m *Maintenances) SetDatabase(ctx context.Context, s domain.Scope, id domain.DatabaseID, p Policy) (Maintenance, error) {
	return m.set(ctx, s, domain.MaintenanceUpdate, subject{database: id}, p)
}

// SetTable replaces the policy of a table. Nil fields are inherited.
func (m *Maintenances) SetTable(ctx context.Context, s domain.Scope, id domain.TableID, p Policy) (Maintenance, error) {
	return m.set(ctx, s, domain.MaintenanceUpdate, subject{table: id}, p)
}

func (m *Maintenances) set(ctx context.Context, s domain.Scope, may domain.Action, of subject, p Policy) (after Maintenance, err error) {
	if err := domain.Authorize(ctx, m.Store, s, may); err != nil {
		return Maintenance{}, err
	}
	now := m.Clock.Now()
	if p, err = p.normal(now); err != nil {
		return Maintenance{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if _, err := m.read(ctx, tx, of); err != nil { // it must exist
			return err
		}
		if err := p.locate(ctx, tx); err != nil {
			return err
		}
		h, err := tx.LockMaintenance(ctx, Holder{Database: of.database, Table: of.table})
		if err != nil {
			return err
		}
		h.replace(p, now)
		if err := tx.UpdateMaintenance(ctx, h); err != nil {
			return err
		}
		if err := tx.HurryHeld(ctx, now); err != nil {
			return err
		}
		tx.Notify(domain.MaintenanceTopic)
		if err := domain.Audited(ctx, tx, s, may, of.noun(), of.id(s)); err != nil {
			return err
		}
		after, err = m.read(ctx, tx, of)
		return err
	})
	return after, err
}

func (o subject) noun() string {
	switch {
	case o.table != "":
		return string(lake.KindTable)
	case o.database != "":
		return "database"
	}
	return "workspace"
}

func (o subject) id(s domain.Scope) string {
	if o.table == "" && o.database == "" {
		return string(s.Workspace())
	}
	return string(o.database) + string(o.table)
}

// replace makes p the holder's policy. The due time changes only with the schedule.
func (h *Holder) replace(p Policy, now time.Time) {
	before := h.Policy.Schedule
	h.Policy = p
	if h.NextAt == nil || (before == nil) != (p.Schedule == nil) || before != nil && *before != *p.Schedule {
		h.arm(now)
	}
}

// normal validates the policy and normalizes its schedule.
func (p Policy) normal(now time.Time) (Policy, error) {
	if err := p.validate(now); err != nil || p.Schedule == nil {
		return p, err
	}
	kept := *p.Schedule
	if kept.Cron = strings.TrimSpace(kept.Cron); kept.TimeZone == "" {
		kept.TimeZone = "UTC"
	}
	p.Schedule = &kept
	return p, nil
}

// locate replaces the warehouse's name or id by its id.
func (p *Policy) locate(ctx context.Context, tx Tx) error {
	if p.Warehouse == nil || *p.Warehouse == "" {
		return nil
	}
	found, err := machine.Find(ctx, tx, machine.KindWarehouse, string(*p.Warehouse))
	if domain.IsCode(err, domain.CodeNotFound) {
		return domain.Invalid(fieldWarehouse, "There is no warehouse %q; GET /sql/warehouses lists the warehouses.", *p.Warehouse)
	}
	p.Warehouse = &found.ID
	return err
}

// RunTable runs all enabled kinds on the table now, needed or not. It expedites a queued run, and
// returns CodeConflict if one is running.
func (m *Maintenances) RunTable(ctx context.Context, s domain.Scope, id domain.TableID, key domain.Idempotency) (run Run, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceStart); err != nil {
		return Run{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		made, err := domain.Once(ctx, tx, s, key, domain.MaintenanceStart, id, func() (domain.MaintenanceRunID, error) { return m.runTable(ctx, tx, s, id) })
		if err != nil {
			return err
		}
		run, err = tx.MaintenanceRun(ctx, made)
		return err
	})
	return run, err
}

func (m *Maintenances) runTable(ctx context.Context, tx Tx, s domain.Scope, id domain.TableID) (domain.MaintenanceRunID, error) {
	t, err := maintainable(ctx, tx, id)
	if err != nil {
		return "", err
	}
	shared, err := readLevels(ctx, tx)
	if err != nil {
		return "", err
	}
	set := shared.settings(t)
	todo := set.kinds()
	switch {
	case t.Snapshot == nil:
		return "", domain.Errorf(domain.CodeConflict, "The table %s was never written, so there is nothing to do.", t.Name)
	case len(todo) == 0:
		return "", domain.Errorf(domain.CodeConflict, "Compaction, expiry and the removal of orphans are all turned off for the table %s; turn one of them on first.", t.Name)
	}
	now := m.Clock.Now()
	run := newRun(s, t.Table, set, todo, job.TriggerManual, now, now)
	made, err := tx.InsertMaintenanceRuns(ctx, []Run{run})
	if err == nil && made == 0 {
		run, err = expedited(ctx, tx, s, run, now)
	}
	if err != nil {
		return "", err
	}
	announce(tx, s)
	return run.ID, domain.Audited(ctx, tx, s, domain.MaintenanceStart, string(lake.KindTable), id)
}

// expedited makes the queued run of the table due now, with the operations of the wanted run, and
// returns it.
func expedited(ctx context.Context, tx Tx, s domain.Scope, wanted Run, now time.Time) (Run, error) {
	open, err := tx.MaintenanceRuns(ctx, Filter{Table: wanted.TableID, States: []State{Queued, Running}}, "", 1)
	if err != nil || len(open) == 0 {
		return Run{}, orEnded(err)
	}
	run, err := tx.LockMaintenanceRun(ctx, open[0].ID)
	if err != nil {
		return run, err
	}
	added, err := run.expedite(s.Actor(), wanted.Operations, now)
	if err != nil {
		return run, err
	}
	for _, o := range added {
		if err := tx.InsertStatement(ctx, o.Statement); err != nil {
			return run, err
		}
	}
	for _, o := range selected(run.Operations, Operation.held) {
		tx.Notify(domain.StatementTopic(o.Statement.ID))
		if err := tx.UpdateHeld(ctx, o.Statement); err != nil {
			return run, err
		}
	}
	return run, tx.UpdateMaintenanceRun(ctx, run)
}

// announce wakes the maintenance, and those who follow its runs or statements.
func announce(tx Tx, s domain.Scope) {
	tx.Notify(domain.MaintenanceTopic, domain.MaintenanceRunsTopic(s.Workspace()), domain.StatementsTopic(s.Workspace()))
}

func orEnded(err error) error {
	if err == nil {
		err = domain.Errorf(domain.CodeConflict, "Maintenance of the table has just ended; try again.")
	}
	return err
}

// RunDatabase queues runs for the tables of the database that need maintenance, and returns their
// number.
func (m *Maintenances) RunDatabase(ctx context.Context, s domain.Scope, id domain.DatabaseID, key domain.Idempotency) (queued int, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceStart); err != nil {
		return 0, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if _, err := tx.Database(ctx, id); err != nil {
			return err
		}
		made, err := domain.Once(ctx, tx, s, key, domain.MaintenanceStart, id, func() (string, error) {
			n, err := m.runDatabase(ctx, tx, s, id)
			return strconv.Itoa(n), err
		})
		if err != nil {
			return err
		}
		queued, err = strconv.Atoi(made)
		return err
	})
	return queued, err
}

func (m *Maintenances) runDatabase(ctx context.Context, tx Tx, s domain.Scope, id domain.DatabaseID) (queued int, err error) {
	shared, err := readLevels(ctx, tx)
	if err != nil {
		return 0, err
	}
	now := m.Clock.Now()
	for after, more := domain.TableID(""), true; more; {
		tables, err := tx.MaintainedTables(ctx, Holder{Database: id}, true, after, maintenanceSweep)
		if err != nil {
			return 0, err
		}
		n, err := tx.InsertMaintenanceRuns(ctx, shared.runs(s, tables, job.TriggerManual, now, now))
		if err != nil {
			return 0, err
		}
		queued += n
		if more = len(tables) == maintenanceSweep; more {
			after = tables[len(tables)-1].ID
		}
	}
	announce(tx, s)
	return queued, domain.Audited(ctx, tx, s, domain.MaintenanceStart, "database", id)
}

// runs returns runs for the tables that need maintenance.
func (l levels) runs(by domain.Scope, tables []MaintainedTable, trigger job.Trigger, due, now time.Time) (runs []Run) {
	for _, t := range tables {
		s := l.settings(t)
		if !s.Enabled || t.Open {
			continue
		}
		if todo := t.needs(s, now); len(todo) > 0 {
			runs = append(runs, newRun(by, t.Table, s, todo, trigger, due, now))
		}
	}
	return runs
}

// Run returns one run.
func (m *Maintenances) Run(ctx context.Context, s domain.Scope, id domain.MaintenanceRunID) (run Run, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceRead); err != nil {
		return Run{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		run, err = tx.MaintenanceRun(ctx, id)
		return err
	})
	return run, err
}

// Runs returns runs, newest first.
func (m *Maintenances) Runs(ctx context.Context, s domain.Scope, f Filter, p domain.Page) (domain.List[Run], error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MaintenanceRead); err != nil {
		return domain.List[Run]{}, err
	}
	name := domain.ListName("maintenance", f)
	before, limit, err := p.After(name)
	if err != nil {
		return domain.List[Run]{}, err
	}
	var runs []Run
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		runs, err = tx.MaintenanceRuns(ctx, f, domain.MaintenanceRunID(before), limit+1)
		return err
	})
	return domain.PageOf(name, runs, limit, func(r Run) string { return string(r.ID) }), err
}

// ChangedSince returns the runs that changed since the position.
func (m *Maintenances) ChangedSince(ctx context.Context, s domain.Scope, p domain.Position) (domain.Changes[Run], error) {
	return domain.ChangedSince(ctx, m.Store, s, domain.MaintenanceRead, p, Tx.ChangedMaintenanceRuns)
}

// Follow returns a follower of the runs of the filter's table or database.
func (m *Maintenances) Follow(s domain.Scope, f Filter) *domain.Follower[Run] {
	read := func(ctx context.Context, p domain.Position) (domain.Changes[Run], error) {
		return m.ChangedSince(ctx, s, p)
	}
	matches := func(r Run) bool {
		return (f.Table == "" || r.TableID == f.Table) && (f.Database == "" || r.DatabaseID == f.Database)
	}
	return domain.Follow(m.Clock.Now(), read, matches, func(Run) bool { return false })
}
