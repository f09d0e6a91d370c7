package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
)

// tablesOf creates a table or view of each name in lake.public.
func tablesOf(t *testing.T, w *tenant, kind lake.TableKind, names ...string) (ids []domain.TableID) {
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.FindDatabase(ctx, "lake")
		require.NoError(t, err)
		for _, name := range names {
			l := lake.Table{
				ID: lake.NewTableID(), Kind: kind, DatabaseID: d.ID, Schema: "public", Name: name, UUID: name, Location: "file:///lake/" + name,
				MetadataLocation: "file:///m/" + name, CreatedBy: w.admin.Actor(), CreatedAt: w.clock.Now(),
			}
			done, err := tx.InsertLakeTable(ctx, l, false)
			require.NoError(t, err)
			require.Equal(t, lake.InsertedNow, done)
			ids = append(ids, l.ID)
		}
		return nil
	})
	return ids
}

// TestTablesAreListedByIndex: a page of a database's tables reads only its own rows, however many
// others the workspace has.
func TestTablesAreListedByIndex(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	var ids []domain.TableID
	for i := range 3 {
		ids = append(ids, tablesOf(t, w, lake.KindTable, fmt.Sprint("t", i))...)
		ids = append(ids, tablesOf(t, w, lake.KindView, fmt.Sprint("v", i))...)
	}
	execute(t, db, `INSERT INTO lake_tables (workspace_id, id, kind, database_id, schema, schema_key, name, name_key, uuid, location, metadata_location, version, format_version,
			registered, operation, created_by_kind, created_by_id, created_by_name, updated_by_kind, updated_by_id, updated_by_name, created_at, updated_at)
		SELECT $1, 'tbl_00' || n, 'table', 'db_other', 'public', 'public', 't' || n, 't' || n, '', '', '', 0, 2, false, '', '', '', '', '', '', '', now(), now()
		FROM generate_series(1, 20000) n`, w.admin.Workspace())
	execute(t, db, `VACUUM ANALYZE lake_tables`)
	list := func(f lake.TableFilter, after domain.TableID, limit int) (found []domain.TableID) {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			d, err := tx.FindDatabase(ctx, "lake")
			require.NoError(t, err)
			f.Database = d.ID
			all, err := tx.LakeTables(ctx, f, after, limit)
			for _, l := range all {
				found = append(found, l.ID)
			}
			return err
		})
		return found
	}
	require.Equal(t, ids[:4], list(lake.TableFilter{}, "", 4))
	require.Equal(t, ids[4:], list(lake.TableFilter{}, ids[3], 4))
	require.Equal(t, []domain.TableID{ids[1], ids[3]}, list(lake.TableFilter{Kind: lake.KindView, Schema: "PUBLIC"}, "", 2))
	require.Empty(t, list(lake.TableFilter{Schema: "none"}, "", 2))
	drop := func(id domain.TableID) {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.DropLakeTable(ctx, id, w.clock.Now(), w.clock.Now().Add(time.Hour), true)
			return err
		})
	}
	drop(ids[0])
	drop(ids[5])
	require.Equal(t, []domain.TableID{ids[0], ids[5]}, list(lake.TableFilter{Dropped: true}, "", 4))
	require.Equal(t, ids[1:5], list(lake.TableFilter{}, "", 6))
	for _, index := range []string{"lake_tables_list", "lake_tables_dropped"} {
		require.Eventually(t, func() bool { // statistics are updated with a delay
			list(lake.TableFilter{Dropped: index == "lake_tables_dropped"}, "", 4)
			return count(t, db, `SELECT COALESCE(sum(idx_scan), 0)::int FROM pg_stat_user_indexes WHERE indexrelname = $1`, index) > 0
		}, time.Minute, 50*time.Millisecond, index)
	}
}

// TestLocationsAreHandedOver: a table that replaces a dropped one owns all its locations from then
// on. Its row may be inserted later in the transaction.
func TestLocationsAreHandedOver(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ids := tablesOf(t, w, lake.KindTable, "old", "other")
	old, other := ids[0], ids[1]
	take := func(tx *store.Tx, id domain.TableID, location string) bool {
		free, err := tx.TakeLocation(t.Context(), id, location)
		require.NoError(t, err)
		return free
	}
	heir := lake.Table{ID: lake.NewTableID(), Kind: lake.KindTable, Schema: "public", Name: "heir", Location: "file:///lake/old", MetadataLocation: "x", CreatedBy: w.admin.Actor(), CreatedAt: w.clock.Now()}
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.FindDatabase(ctx, "lake")
		require.NoError(t, err)
		heir.DatabaseID = d.ID
		require.True(t, take(tx, old, "file:///lake/older"))
		free, err := tx.TakePath(ctx, old, "file:///data/old")
		require.NoError(t, err)
		require.True(t, free)
		require.Equal(t, domain.CodeNotFound, code(tx.AdoptLakeTable(ctx, old, heir.ID)), "it is live")
		_, err = tx.DropLakeTable(ctx, old, w.clock.Now(), w.clock.Now(), false)
		return err
	})
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		require.NoError(t, tx.AdoptLakeTable(ctx, old, heir.ID))
		done, err := tx.InsertLakeTable(ctx, heir, true)
		require.Equal(t, lake.InsertedNow, done)
		return err
	})
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		places, err := tx.TableLocations(ctx, heir.ID)
		require.Equal(t, []string{"file:///data/old", "file:///lake/old", "file:///lake/older"}, places)
		require.False(t, take(tx, other, "file:///lake/older/in/it"))
		require.False(t, take(tx, other, "file:///data"))
		require.True(t, take(tx, heir.ID, "file:///data/old"))
		return err
	})
	err := w.store.In(t.Context(), w.admin, func(tx *store.Tx) error {
		_, err := tx.DropLakeTable(t.Context(), heir.ID, w.clock.Now(), w.clock.Now(), false)
		require.NoError(t, err)
		return tx.AdoptLakeTable(t.Context(), heir.ID, "tbl_nobody")
	})
	require.Error(t, err, "an heir must come")
}

// TestPurgesThatFail are retried with growing delays, and do not block tables that are due for the
// first time.
func TestPurgesThatFail(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ids := tablesOf(t, w, lake.KindTable, "a", "b")
	start := w.clock.Now()
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		for _, id := range ids {
			_, err := tx.DropLakeTable(ctx, id, start, start, true)
			require.NoError(t, err)
		}
		return nil
	})
	due := func(after time.Duration) []domain.TableID {
		all, err := w.system.DueTables(t.Context(), start.Add(after), 10)
		require.NoError(t, err)
		found := make([]domain.TableID, len(all))
		for i, ref := range all {
			found[i] = ref.Table
		}
		slices.Sort(found)
		return found
	}
	require.Equal(t, ids, due(0))
	for _, wait := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error { return tx.PostponePurge(ctx, ids[0], start) })
		require.Equal(t, ids[1:], due(wait*time.Hour-time.Second))
		require.Equal(t, ids, due(wait*time.Hour))
	}
	in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
		l, err := tx.LakeTable(ctx, ids[0])
		require.Equal(t, start, *l.PurgeAfter, "when it could no longer be restored stays")
		return err
	})
}
