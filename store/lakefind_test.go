package store_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// TestFindingATable in one round trip isolates workspaces on shared connections, and treats names
// as plain text. It continues when the database has ended all connections.
func TestFindingATable(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "one")
	other, _ := w.workspace("two")
	files, err := objects.OpenLake(t.Context(), "file://"+t.TempDir(), objects.LakeOptions{})
	require.NoError(t, err)
	defer files.Close()
	catalog := lake.New(lake.Options{Store: store.For[lake.Tx](s), Quick: s, System: s.System(), Files: files, Clock: w.clock})
	names := []string{"T1", `o'hara`, `a\b`, `x'; DROP TABLE lake_tables; --`, "ü"}
	made := map[string]domain.TableID{}
	for _, scope := range []domain.Scope{w.admin, other} {
		l, err := catalog.Create(t.Context(), scope, "lake", "public", lake.NewTable{Name: "both", Schema: json.RawMessage(`{"type":"struct","fields":[]}`)}, lake.Key{})
		require.NoError(t, err)
		made[string(scope.Workspace())] = l.Table.ID
	}
	for _, name := range names {
		l, err := catalog.Create(t.Context(), w.admin, "lake", "public", lake.NewTable{Name: name, Schema: json.RawMessage(`{"type":"struct","fields":[]}`)}, lake.Key{})
		if domain.IsCode(err, domain.CodeInvalid) { // an invalid table name, which a request may still contain
			continue
		}
		require.NoError(t, err)
		made[name] = l.Table.ID
	}
	look := func() {
		for _, name := range names {
			row, err := s.FindLakeTable(t.Context(), w.admin, "LAKE", "Public", name)
			require.Equal(t, made[name], row.ID, name)
			require.Equal(t, made[name] == "", domain.IsCode(err, domain.CodeNotFound), "%s: %v", name, err)
			_, err = s.FindLakeTable(t.Context(), other, "lake", "public", name)
			require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
		}
	}
	look()
	_, err = s.FindLakeTable(t.Context(), w.admin, "lake", "public", "a\x00b")
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
	_, err = s.FindLakeTable(t.Context(), w.admin, "lake\xff", "public", "a")
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
	_, err = s.FindLakeTable(t.Context(), domain.Scope{}, "lake", "public", "both")
	require.Error(t, err)
	execute(t, superuser(t, dsn), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	look()

	// On one connection, interleaved with transactions, each workspace sees its own table.
	few, err := store.Open(t.Context(), dsn, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer few.Close()
	var group sync.WaitGroup
	for _, scope := range []domain.Scope{w.admin, other} {
		group.Go(func() {
			for range 100 {
				row, err := few.FindLakeTable(t.Context(), scope, "lake", "public", "both")
				if err != nil || row.ID != made[string(scope.Workspace())] {
					t.Errorf("found %s: %v", row.ID, err)
				}
				err = few.In(t.Context(), scope, func(tx *store.Tx) error {
					row, err = tx.FindLakeTable(t.Context(), "lake", "public", "both")
					return err
				})
				if err != nil || row.ID != made[string(scope.Workspace())] {
					t.Errorf("found %s in a transaction: %v", row.ID, err)
				}
			}
		})
	}
	group.Wait()
}
