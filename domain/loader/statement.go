package loader

import (
	"context"
	"slices"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
)

// sql sets the loaders for relations between statements and tables.
func (l *Loaders) sql(s Services, tables Tables, scope domain.Scope) {
	l.warehouses = newFamily(func(ctx context.Context, ids []domain.MachineID) (map[domain.MachineID]*machine.Machine, error) {
		machines, err := s.Warehouses.ByID(ctx, scope, ids)
		l.expectMachines(machines)
		return index(machines, func(m machine.Machine) domain.MachineID { return m.ID }), err
	})
	l.runsByID = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID]*job.Run, error) {
		runs, err := s.Runs.ByID(ctx, scope, ids)
		l.expectRuns(runs)
		return index(runs, func(r job.Run) domain.RunID { return r.ID }), err
	})
	l.tables = newFamily(func(ctx context.Context, ids []domain.TableID) (map[domain.TableID]*lake.Table, error) {
		found, err := tables.TablesByID(ctx, scope, ids)
		return index(found, func(t lake.Table) domain.TableID { return t.ID }), err
	})
	l.lineages = newFamily(func(ctx context.Context, ids []domain.StatementID) (map[domain.StatementID]lake.Lineage, error) {
		all, err := s.Statements.Lineages(ctx, scope, ids)
		var named []domain.TableID
		for _, one := range all {
			named = slices.Concat(named, tablesOf(one.Read), tablesOf(one.Written))
		}
		l.ExpectTables(named)
		return all, err
	})
	l.maintained = newFamily(func(ctx context.Context, ids []domain.TableID) (map[domain.TableID]*maintenance.Maintenance, error) {
		all, err := s.Maintenance.OfTables(ctx, scope, ids)
		found := make(map[domain.TableID]*maintenance.Maintenance, len(all))
		for id, m := range all {
			found[id] = &m
		}
		return found, err
	})
}

func tablesOf(entries []lake.LineageEntry) []domain.TableID {
	return keys(entries, func(e lake.LineageEntry) domain.TableID { return e.TableID })
}

func (l *Loaders) expectStatements(statements []statement.Statement) {
	l.warehouses.expect(named(keys(statements, func(st statement.Statement) domain.MachineID { return st.Warehouse })))
	l.runsByID.expect(named(keys(statements, func(st statement.Statement) domain.RunID { return st.RunID })))
	l.lineages.expect(keys(statements, func(st statement.Statement) domain.StatementID { return st.ID }))
}

// ExpectTables records which tables the response shows together.
func (l *Loaders) ExpectTables(ids []domain.TableID) { l.tables.expect(named(ids)) }

// Warehouse returns the warehouse; nil if it is deleted.
func (l *Loaders) Warehouse(ctx context.Context, id domain.MachineID) (*machine.Machine, error) {
	return l.warehouses.load(ctx, id)
}

// Run returns the run; nil if there is none.
func (l *Loaders) Run(ctx context.Context, id domain.RunID) (*job.Run, error) {
	return l.runsByID.load(ctx, id)
}

// Table returns the live or dropped table or view; nil if it is gone.
func (l *Loaders) Table(ctx context.Context, id domain.TableID) (*lake.Table, error) {
	return l.tables.load(ctx, id)
}

// Lineage returns what the statement has read and written so far.
func (l *Loaders) Lineage(ctx context.Context, id domain.StatementID) (lake.Lineage, error) {
	return l.lineages.load(ctx, id)
}

// Maintenance returns the maintenance settings of the table; nil for views and tables that are not
// live.
func (l *Loaders) Maintenance(ctx context.Context, id domain.TableID) (*maintenance.Maintenance, error) {
	return l.maintained.load(ctx, id)
}
