package graph

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// sql gives alpha a table that a statement created from another table, and that statement. It gives
// beta a statement.
func (f *matrixWorld) sql() {
	f.table = f.alpha.table(secret + "_table")
	f.alpha.table(secret + "_made")
	f.alpha.view(secret+"_view", "SELECT 1")
	f.alpha.adds(secret+"_table", 1)
	f.statement = f.alpha.submitted("SELECT 1 AS " + secret)
	event := batchOf(1, secret)
	scope := domain.NewScope(f.alpha.workspace.ID, domain.Actor{Kind: domain.ActorStatement, ID: string(f.statement.ID), Name: string(f.statement.ID)}, domain.RoleEditor)
	_, err := f.w.lake.Load(f.w.t.Context(), scope, publicTable(secret+"_table"), lake.KindTable, lake.LoadOptions{})
	require.NoError(f.w.t, err)
	require.NoError(f.w.t, lakeClient{f.w.lake, scope, publicTable(secret + "_made")}.append(f.w.t.Context(), 1))
	require.NoError(f.w.t, f.w.db.In(f.w.t.Context(), f.alpha.editor.scope, func(tx *store.Tx) error {
		st, now := f.statement, time.Now()
		st.State, st.Kind, st.Engine, st.StartedAt, st.FinishedAt, st.ResultUntil = statement.Succeeded, "SELECT", "duckdb", &now, &now, new(now.Add(time.Hour))
		st.Schemata, st.Rows, st.Chunks, st.RunID, st.TaskKey = schemaOf().Schema, 1, []statement.ResultChunk{{Rows: 1, Bytes: 1}}, f.run.ID, "one"
		st.Failure = &statement.Failure{}
		return tx.UpdateStatement(f.w.t.Context(), st, append(append(arrowStream(), event.Batch.Data...), streamEnd...))
	}))
	f.beta.submitted("SELECT 1")
	f.upkeep = f.alpha.maintained(f.table)
	beta := f.beta.table("table")
	f.beta.adds("table", 1)
	f.beta.maintained(beta)
}

// maintained runs the table's maintenance, with one finished operation.
func (n *tenant) maintained(t lake.Table) maintenance.Run {
	n.w.t.Helper()
	ctx := n.w.t.Context()
	run, err := n.w.services.Maintenance.RunTable(ctx, n.editor.scope, t.ID, domain.Idempotency{})
	require.NoError(n.w.t, err)
	done := &run.Operations[0]
	done.Before, done.After, done.Metrics = &maintenance.TableTotals{}, &maintenance.TableTotals{}, map[string]int64{"files": 1}
	done.Statement.Warehouse = n.warehouse().ID
	require.NoError(n.w.t, n.w.db.In(ctx, n.editor.scope, func(tx *store.Tx) error {
		require.NoError(n.w.t, tx.UpdateHeld(ctx, done.Statement))
		done.Statement.State = statement.Succeeded
		require.NoError(n.w.t, tx.UpdateStatement(ctx, done.Statement, nil))
		return tx.UpdateMaintenanceRun(ctx, run)
	}))
	return run
}

// submitted is a statement that waits for the workspace's warehouse.
func (n *tenant) submitted(query string) statement.Statement {
	n.w.t.Helper()
	st, err := n.w.services.Statements.Submit(n.w.t.Context(), n.editor.scope, statement.NewStatement{Query: query, Warehouse: string(n.warehouse().ID)}, domain.Idempotency{})
	require.NoError(n.w.t, err)
	return st
}

func (f *matrixWorld) database() lake.Database {
	d, err := f.w.services.Databases.Find(f.w.t.Context(), f.alpha.viewer.scope, "lake")
	require.NoError(f.w.t, err)
	return d
}

func (f *matrixWorld) newDatabase() lake.Database {
	d, err := f.w.services.Databases.Create(f.w.t.Context(), f.alpha.editor.scope, lake.NewDatabase{Name: f.fresh(secret)}, domain.Idempotency{})
	require.NoError(f.w.t, err)
	return d
}

func (f *matrixWorld) dropped() domain.TableID {
	t := f.alpha.table(f.fresh(secret))
	require.NoError(f.w.t, f.w.lake.Drop(f.w.t.Context(), f.alpha.editor.scope, refOf(t), t.Kind, false, lake.Key{}))
	return t.ID
}
