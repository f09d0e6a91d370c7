package store_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

// TestWorkspacesFromBeforeTheCatalog have the same database and schema as new ones.
func TestWorkspacesFromBeforeTheCatalog(t *testing.T) {
	dsn := storetest.Database(t, nil)
	db := superuser(t, dsn)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	require.NoError(t, err)
	_, err = provider.UpTo(t.Context(), 2)
	require.NoError(t, err)
	for _, ws := range []string{"ws_1", "ws_2"} {
		execute(t, db, `INSERT INTO workspaces (workspace_id, name, created_at) VALUES ($1, $1, now())`, ws)
	}
	require.NoError(t, store.Migrate(t.Context(), dsn))
	s := connect(t, dsn)
	seen := map[domain.DatabaseID]bool{}
	for _, ws := range []domain.WorkspaceID{"ws_1", "ws_2"} {
		in(t, s, domain.SystemScope(ws, "test"), func(ctx context.Context, tx *store.Tx) error {
			d, err := tx.FindDatabase(ctx, "LAKE")
			require.NoError(t, err)
			id, err := typeid.FromString(string(d.ID))
			require.NoError(t, err)
			require.Equal(t, "db", id.Prefix())
			require.Equal(t, byte(7), id.UUIDBytes()[6]>>4, "a UUIDv7")
			require.Equal(t, byte(2), id.UUIDBytes()[8]>>6)
			seen[d.ID] = true
			_, err = tx.LakeSchema(ctx, d.ID, lake.DefaultSchema)
			return err
		})
	}
	require.Len(t, seen, 2)
}

// TestTablesAndSchemasAtOnce: a dropped schema has no live table, even if one was being created.
func TestTablesAndSchemasAtOnce(t *testing.T) {
	s := open(t)
	w := newTenant(t, s, "one")
	files, err := objects.OpenLake(t.Context(), "file://"+t.TempDir(), objects.LakeOptions{})
	require.NoError(t, err)
	defer files.Close()
	catalog := lake.New(lake.Options{Store: store.For[lake.Tx](s), Quick: s, System: s.System(), Files: files, Clock: w.clock})
	ctx := t.Context()
	for range 15 {
		_, err := catalog.CreateSchema(ctx, w.admin, "lake", "s", nil, lake.Key{})
		require.NoError(t, err)
		var group sync.WaitGroup
		var failed [3]error
		for i := range 2 {
			group.Go(func() {
				_, failed[i] = catalog.Create(ctx, w.admin, "lake", "s", lake.NewTable{Name: "t", Schema: json.RawMessage(`{"type":"struct","fields":[]}`)}, lake.Key{})
			})
		}
		group.Go(func() { failed[2] = catalog.DropSchema(ctx, w.admin, "lake", "s", lake.Key{}) })
		group.Wait()
		made := 0
		for _, err := range failed[:2] {
			switch lake.ReasonOf(err) {
			case "":
				require.NoError(t, err)
				made++
			case lake.AlreadyExists, lake.NoSuchNamespace:
			default:
				require.NoError(t, err)
			}
		}
		if failed[2] == nil {
			require.Zero(t, made)
			continue
		}
		require.Equal(t, lake.NamespaceNotEmpty, lake.ReasonOf(failed[2]))
		require.Equal(t, 1, made)
		require.NoError(t, catalog.Drop(ctx, w.admin, lake.Ref{Database: "lake", Schema: "s", Name: "t"}, lake.KindTable, true, lake.Key{}))
		require.NoError(t, catalog.DropSchema(ctx, w.admin, "lake", "s", lake.Key{}))
	}
}
