package store_test

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/store"
)

// belongings are the ids of one resource of each kind in a workspace.
type belongings struct {
	ws           domain.WorkspaceID
	user         domain.UserID
	key          domain.APIKeyID
	agent        domain.AgentID
	job          domain.JobID
	run          domain.RunID
	attempt      domain.AttemptID
	sealed       domain.AttemptID
	machine      domain.MachineID
	machineAgent domain.AgentID // the machine's agent
	file         string
	catalog      domain.DatabaseID
	table        lake.Table
	traced       domain.StatementID // of the run
	fact         lineage.Fact       // of the attempt
	upkeep       domain.MaintenanceRunID
	tracked      tracking.Run
}

// furnish creates one resource of each kind in the workspace.
func (w *tenant) furnish() belongings {
	w.t.Helper()
	ctx := w.t.Context()
	w.connect("s1", 4)
	j := w.job(job.Spec{Command: "true", Files: []job.File{{Path: "f", Content: []byte("secret")}}})
	sealed := w.attempt()
	writer := w.services.Logs.Writer(w.agent, "s1")
	w.write(writer, sealed, 0, []byte("secret\n"))
	require.NoError(w.t, w.exit(sealed, 0))
	w.seal()
	run := w.start(j.ID)
	attempt := w.delivered().Attempt.ID
	w.begin(attempt)
	w.write(writer, attempt, 0, []byte("secret\n"))
	key, _, err := w.services.APIKeys.Create(ctx, w.admin, identity.NewAPIKey{Name: "key"})
	require.NoError(w.t, err)
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		_, _, _, err := tx.ClaimKey(ctx, "user:me", "key", []byte("hash"))
		return err
	})
	m := machine.Machine{
		ID: domain.MachineID("cmp_" + string(w.admin.Workspace())), Kind: machine.KindCompute, Name: "m", AutoStop: machine.AutoStop1h, AgentID: domain.AgentID("agt_m" + string(w.admin.Workspace())), CreatedAt: now, Nodes: 1,
	}
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		agent := machine.Agent{ID: m.AgentID, MachineID: m.ID, TokenHash: []byte(m.ID), CreatedAt: now}
		require.NoError(w.t, tx.InsertMachine(ctx, m, agent))
		require.NoError(w.t, tx.SetBootstrap(ctx, agent.ID, []byte("boot"+m.ID), now.Add(time.Hour)))
		return tx.SaveMetrics(ctx, m.ID, machine.Metrics{At: now})
	})
	catalog, table := w.furnishCatalog()
	traced, fact := w.trace(attempt, run.ID)
	return belongings{
		upkeep:  w.furnishMaintenance(table),
		tracked: w.furnishTracking(run.ID),
		traced:  traced, fact: fact, catalog: catalog, table: table,
		machine: m.ID, machineAgent: m.AgentID,
		ws: w.admin.Workspace(), user: w.admin.UserID(), key: key.ID, agent: w.agentID(), job: j.ID, run: run.ID, attempt: attempt, sealed: sealed,
		file: j.Files[0].SHA256,
	}
}

// furnishCatalog creates a table, and records a read of it.
func (w *tenant) furnishCatalog() (domain.DatabaseID, lake.Table) {
	var table lake.Table
	in(w.t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.FindDatabase(ctx, lake.DefaultDatabase)
		require.NoError(w.t, err)
		table = lakeTable(d.ID, "t")
		done, err := tx.InsertLakeTable(ctx, table, true)
		require.NoError(w.t, err)
		require.Equal(w.t, lake.InsertedNow, done)
		entry := lake.LineageEntry{At: now, Actor: domain.Actor{Kind: domain.ActorStatement, ID: "stm_1"}, Direction: lake.LineageRead, TableID: table.ID, Database: d.Name, Schema: "public", Name: "t"}
		require.NoError(w.t, tx.InsertLineage(ctx, []lake.LineageEntry{entry}))
		require.NoError(w.t, tx.InsertLakeErasure(ctx, lake.DueErasure{ID: "erasure-" + string(table.ID), TableID: table.ID, CreatedAt: now, DueAt: now}))
		_, err = tx.KeepLakeAnswer(ctx, "user:me", lake.Answer{Key: "k", Hash: []byte("h"), Body: []byte("{}")}, now, now)
		return err
	})
	return table.DatabaseID, table
}

func lakeTable(database domain.DatabaseID, name string) lake.Table {
	id := lake.NewTableID()
	by := domain.Actor{Kind: domain.ActorUser, ID: "usr_1", Name: "me"}
	return lake.Table{
		ID: id, Kind: lake.KindTable, DatabaseID: database, Schema: "public", Name: name, UUID: "u", Location: "file:///" + string(id), MetadataLocation: "file:///" + string(id) + "/m",
		CreatedBy: by, UpdatedBy: by, CreatedAt: now, UpdatedAt: now,
	}
}
