package store_test

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/store"
)

// lakeTrespasses are the trespasses on another workspace's tables, lineage and statements.
var lakeTrespasses = map[string]trespass{
	"Database": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.Database(ctx, b.catalog))
	}},
	"FindDatabase": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.FindDatabase(ctx, string(b.catalog)))
	}},
	"DatabasesByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.DatabasesByID(ctx, []domain.DatabaseID{b.catalog}))
	}},
	"DeleteDatabase": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteDatabase(ctx, b.catalog))
	}},
	"LakeSchema": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LakeSchema(ctx, b.catalog, "public"))
	}},
	"LakeSchemas": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LakeSchemas(ctx, b.catalog, "", true, "", 100))
	}},
	"InsertLakeSchema": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return done(tx.InsertLakeSchema(ctx, lake.Schema{DatabaseID: b.catalog, Name: "mine", CreatedAt: now}))
	}},
	"LockLakeSchema": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockLakeSchema(ctx, b.catalog, "public"))
	}},
	"SetLakeSchemaProperties": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SetLakeSchemaProperties(ctx, b.catalog, "public", map[string]string{"mine": "yes"}))
	}},
	"LakeSchemaEmpty": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		empty, err := tx.LakeSchemaEmpty(ctx, b.catalog, "public")
		return changed(!empty, err)
	}},
	"DeleteLakeSchema": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteLakeSchema(ctx, b.catalog, "public"))
	}},
	"FindLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.FindLakeTable(ctx, string(b.catalog), "public", "t"))
	}},
	"LakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LakeTable(ctx, b.table.ID))
	}},
	"LockLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockLakeTable(ctx, b.table.ID))
	}},
	"LakeTables": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LakeTables(ctx, lake.TableFilter{Database: b.catalog}, "", 100))
	}},
	"LakeTableNames": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LakeTableNames(ctx, b.catalog, "public", lake.KindTable, "", 100))
	}},
	"LakeTablesByID": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LakeTablesByID(ctx, []domain.TableID{b.table.ID}))
	}},
	"InsertLakeTable": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return done(tx.InsertLakeTable(ctx, lakeTable(b.catalog, "mine"), false))
	}},
	"SwapLakeTable": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.SwapLakeTable(ctx, b.table, b.table.MetadataLocation))
	}},
	"FenceLakeTable": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.FenceLakeTable(ctx, b.table.ID, b.table.MetadataLocation, b.table.Version+1))
	}},
	"NoteLostRace": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		now := time.Now()
		if err := tx.NoteLostRace(ctx, b.table.ID, domain.Actor{Kind: domain.ActorAPIKey, ID: "mine"}, now, now.Add(time.Minute)); err != nil {
			return 0, err
		}
		return changed(tx.TurnOfAnother(ctx, b.table.ID, domain.Actor{Kind: domain.ActorAPIKey, ID: "other"}, now))
	}},
	"InsertLakeErasure": {failing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertLakeErasure(ctx, lake.DueErasure{ID: "mine", TableID: b.table.ID}))
	}},
	"LakeErasure": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LakeErasure(ctx, erasureOf(b)))
	}},
	"PostponeLakeErasure": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.PostponeLakeErasure(ctx, erasureOf(b), time.Now()))
	}},
	"DeleteLakeErasure": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.DeleteLakeErasure(ctx, erasureOf(b)))
	}},
	"TurnOfAnother": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.TurnOfAnother(ctx, b.table.ID, domain.Actor{}, time.Time{}))
	}},
	"TakeLocation": {func(err error) bool { return err != nil }, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		_, err := tx.TakeLocation(ctx, b.table.ID, "file:///mine")
		return 0, err
	}},
	"LockLocations": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) { return 0, tx.LockLocations(ctx) }},
	"HoldWriter": {func(err error) bool { return domain.IsCode(err, domain.CodeConflict) }, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, tx.HoldWriter(ctx, domain.Actor{Kind: domain.ActorStatement, ID: string(b.traced)})
	}},
	"ReleaseKey": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, tx.ReleaseKey(ctx, "user:me", "key", "mine")
	}},
	"TakePath": {func(err error) bool { return err != nil }, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		_, err := tx.TakePath(ctx, b.table.ID, "file:///mine")
		return 0, err
	}},
	"TableLocations": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		places, err := tx.TableLocations(ctx, b.table.ID)
		return len(places), err
	}},
	"AdoptLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.AdoptLakeTable(ctx, b.table.ID, "tbl_mine"))
	}},
	"StageLocations": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		_, err := tx.StageLocations(ctx, []string{"file:///staged"}, now, 1000)
		return 0, err
	}},
	"StagedLocations": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		found, err := tx.StagedLocations(ctx, []string{b.table.Location}, time.Time{})
		return len(found), err
	}},
	"ForgetStages": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, tx.ForgetStages(ctx, []string{b.table.Location})
	}},
	"PurgeLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, tx.PurgeLakeTable(ctx, b.table.ID, now)
	}},
	"PostponePurge": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, tx.PostponePurge(ctx, b.table.ID, now)
	}},
	"LocationOwners": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.LocationOwners(ctx, []string{b.table.Location}))
	}},
	"TableAt": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.TableAt(ctx, b.table.Location))
	}},
	"LakeTablesNamed": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.LakeTablesNamed(ctx, []lake.TableName{{Database: string(b.catalog), Schema: b.table.Schema, Name: b.table.Name}}))
	}},
	"LakeTablesAt": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.LakeTablesAt(ctx, []string{b.table.Location}))
	}},
	"RenameLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		mine, err := tx.FindDatabase(ctx, lake.DefaultDatabase)
		if err != nil {
			return 1, err
		}
		return done(tx.RenameLakeTable(ctx, b.table.ID, mine.ID, "public", "mine"))
	}},
	"DropLakeTable": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return changed(tx.DropLakeTable(ctx, b.table.ID, now, now, true))
	}},
	"UndropLakeTable": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return done(tx.UndropLakeTable(ctx, b.table.ID))
	}},
	"ForgetLakeTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.ForgetLakeTable(ctx, b.table.ID))
	}},
	"LakeAnswer": {missing, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		return one(tx.LakeAnswer(ctx, "user:me", "k", now.Add(-time.Hour)))
	}},
	"LineageOf": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		l, err := tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorStatement, ID: "stm_1"})
		return len(l.Read) + len(l.Written), err
	}},
	"InsertLineageFacts": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.InsertLineageFacts(ctx, []lineage.Fact{b.fact}))
	}},
	"RetractLineage": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.RetractLineage(ctx, []lineage.Source{{Actor: b.fact.Actor, Source: b.fact.Source}}))
	}},
	"Externals": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nothing(tx.Externals(ctx, []string{string(b.fact.TableID)}))
	}},
	"RunLineage": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.RunLineage(ctx, b.run, 100))
	}},
	"UnresolvedStatements": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.UnresolvedStatements(ctx, b.run))
	}},
	"SettleLineage": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.SettleLineage(ctx, lineage.Settlement{
			Statement: b.traced, Columns: map[domain.TableID][]string{b.fact.TableID: {"mine"}}, Removed: []lake.LineageEntry{b.fact.LineageEntry},
		}))
	}},
	"LineageCoverage": {noError, func(ctx context.Context, tx *store.Tx, _ belongings) (int, error) {
		c, err := tx.LineageCoverage(ctx, now.Add(-time.Hour))
		return int(c.None + c.Resolved + c.Unresolved), err
	}},
	"ProcessesOf": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.ProcessesOf(ctx, []domain.TableID{b.table.ID}, lake.LineageRead, now.Add(time.Hour), 100))
	}},
	"TablesOf": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.TablesOf(ctx, []lineage.ProcessID{lineage.ProcessID(b.job), lineage.ProcessID(b.traced)}, lake.LineageRead, now.Add(time.Hour), 100))
	}},
	"LineageTable": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LineageTable(ctx, b.table.ID, "", now.Add(time.Hour)))
	}},
	"StatementBriefs": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.StatementBriefs(ctx, []domain.StatementID{b.traced}))
	}},
	"EventStatement": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return 0, second(tx.EventStatement(ctx, b.traced))
	}},
	"Statement": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.Statement(ctx, b.traced))
	}},
	"LockStatement": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return one(tx.LockStatement(ctx, b.traced))
	}},
	"UpdateStatement": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return none(tx.UpdateStatement(ctx, statement.Statement{ID: b.traced, State: statement.Failed}, nil))
	}},
	"StatementResult": {missing, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		return nobody(tx.StatementResult(ctx, b.traced))
	}},
	"Statements": {noError, func(ctx context.Context, tx *store.Tx, b belongings) (int, error) {
		found, _, err := tx.Statements(ctx, statement.Filter{Run: b.run}, "", 100, 1<<20)
		return len(found), err
	}},
}

// erasureOf is the id of the erasure of the workspace's table.
func erasureOf(b belongings) string { return "erasure-" + string(b.table.ID) }
