package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// TestSwapInOneStatement writes the row and its audit row, or neither, like two statements of a
// transaction.
func TestSwapInOneStatement(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "one")
	other, _ := w.workspace("two")
	files, err := objects.OpenLake(t.Context(), "file://"+t.TempDir(), objects.LakeOptions{})
	require.NoError(t, err)
	defer files.Close()
	catalog := lake.New(lake.Options{Store: store.For[lake.Tx](s), Quick: s, System: s.System(), Files: files, Clock: w.clock})
	made, err := catalog.Create(t.Context(), w.admin, "lake", "public", lake.NewTable{Name: "T", Schema: json.RawMessage(`{"type":"struct","fields":[]}`)}, lake.Key{})
	require.NoError(t, err)
	row := made.Table
	row.CreatedBy.Session = "" // which is not stored
	db := superuser(t, dsn)
	event := func() domain.AuditEvent {
		e := domain.NewAudit(w.admin, domain.TableCommit, domain.OutcomeSuccess, "table", string(row.ID), `it's a \ detail`)
		e.Actor.Name = `o'hara \ ü`
		return e
	}
	next := func(from lake.Table) lake.Table {
		from.Version++
		from.MetadataLocation = fmt.Sprintf(`file:///it's/a\path/%d`, from.Version)
		from.UpdatedBy, from.UpdatedAt = domain.Actor{Kind: domain.ActorUser, ID: "usr_9", Name: "nine"}, w.clock.Now().Add(time.Minute)
		return from
	}
	nobody := func(what string, scope domain.Scope, l lake.Table, old string) {
		e := event()
		done, err := s.SwapLakeTable(t.Context(), scope, l, old, e)
		require.NoError(t, err, what)
		require.False(t, done, what)
		require.Zero(t, count(t, db, `SELECT count(*) FROM audit_events WHERE id = $1`, e.ID), what)
	}
	swap := func(l lake.Table) {
		t.Helper()
		e := event()
		done, err := s.SwapLakeTable(t.Context(), w.admin, l, row.MetadataLocation, e)
		require.NoError(t, err)
		require.True(t, done)
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			row, err = tx.LakeTable(ctx, l.ID)
			require.Equal(t, l, row)
			same := e
			same.ID += "x"
			return tx.InsertAudit(ctx, same)
		})
		require.Equal(t, 1, count(t, db, `SELECT count(*) FROM audit_events a JOIN audit_events b ON b.id = a.id || 'x' WHERE a.id = $1
			AND to_jsonb(a) - 'id' - 'at' = to_jsonb(b) - 'id' - 'at' AND abs(extract(epoch FROM a.at - b.at)) < 60`, e.ID))
	}
	rows, bytes, filesCount := int64(1<<40), int64(2), int64(3)
	full := next(row)
	full.Snapshot = &lake.TableSnapshot{ID: -1 << 62, At: w.clock.Now(), Operation: "append"}
	full.RowCount, full.DataBytes, full.DataFiles = &rows, &bytes, &filesCount
	swap(full)
	bare := next(row)
	bare.Snapshot, bare.RowCount, bare.DataBytes, bare.DataFiles = nil, nil, nil, nil
	swap(bare)
	nobody("another workspace", other, next(row), row.MetadataLocation)
	nobody("a pointer that has moved", w.admin, next(row), made.MetadataLocation)
	older := next(row)
	older.Version = row.Version
	nobody("a version that was passed", w.admin, older, row.MetadataLocation)
	renamed := next(row)
	renamed.Name = "u"
	nobody("another name", w.admin, renamed, row.MetadataLocation)
	renamed.Name, renamed.Schema = row.Name, "s"
	nobody("another schema", w.admin, renamed, row.MetadataLocation)
	bad := next(row)
	bad.Location = "a\x00b"
	_, err = s.SwapLakeTable(t.Context(), w.admin, bad, row.MetadataLocation, event())
	require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
	_, err = s.SwapLakeTable(t.Context(), domain.Scope{}, next(row), row.MetadataLocation, event())
	require.ErrorIs(t, err, domain.ErrNoScope)
	twice := event()
	in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error { return tx.InsertAudit(ctx, twice) })
	_, err = s.SwapLakeTable(t.Context(), w.admin, next(row), row.MetadataLocation, twice)
	require.Error(t, err, "the audit row is there already")
	require.NoError(t, catalog.Drop(t.Context(), w.admin, lake.Ref{Database: "lake", Schema: "public", Name: "t"}, lake.KindTable, false, lake.Key{}))
	nobody("a dropped one", w.admin, next(row), row.MetadataLocation)
}

// TestSwapsAtOnce: of many concurrent swaps one succeeds. Workspaces that share a connection stay
// isolated.
func TestSwapsAtOnce(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "one")
	files, err := objects.OpenLake(t.Context(), "file://"+t.TempDir(), objects.LakeOptions{})
	require.NoError(t, err)
	defer files.Close()
	catalog := lake.New(lake.Options{Store: store.For[lake.Tx](s), Quick: s, System: s.System(), Files: files, Clock: w.clock})
	made, err := catalog.Create(t.Context(), w.admin, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(`{"type":"struct","fields":[]}`)}, lake.Key{})
	require.NoError(t, err)
	few, err := store.Open(t.Context(), dsn, store.Options{MaxConns: 2})
	require.NoError(t, err)
	defer few.Close()
	var group sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 20 {
		group.Go(func() {
			l := made.Table
			l.Version, l.MetadataLocation = 1, fmt.Sprint("file:///", i)
			done, err := few.SwapLakeTable(t.Context(), w.admin, l, made.MetadataLocation, domain.NewAudit(w.admin, domain.TableCommit, domain.OutcomeSuccess, "table", string(l.ID), ""))
			if err != nil {
				t.Errorf("%v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if done {
				won++
			}
		})
	}
	group.Wait()
	require.Equal(t, 1, won)
	require.Equal(t, 1, count(t, superuser(t, dsn), `SELECT count(*) FROM audit_events WHERE resource_id = $1 AND action = 'table.commit'`, made.Table.ID))
}

// TestReadingIsNoted with the table in one statement, exactly as by a separate statement.
func TestReadingIsNoted(t *testing.T) {
	w := newTraced(t)
	run, process := w.process(w.jobNamed("load"))
	id := w.table("t")
	for _, actor := range []domain.Actor{process, w.statement("SELECT", run), w.statement("SELECT", "")} {
		scope := domain.NewScope(w.admin.Workspace(), actor, domain.RoleEditor)
		for range 2 {
			row, err := w.store.NoteLakeTable(t.Context(), scope, "LAKE", "Public", "T", lake.KindTable, w.clock.Now())
			require.NoError(t, err)
			require.Equal(t, id, row.ID)
		}
		row, err := w.store.NoteLakeTable(t.Context(), scope, "lake", "public", "t", lake.KindView, w.clock.Now())
		require.NoError(t, err)
		require.Equal(t, lake.KindTable, row.Kind)
		_, err = w.store.NoteLakeTable(t.Context(), scope, "lake", "public", "none", lake.KindTable, w.clock.Now())
		require.True(t, domain.IsCode(err, domain.CodeNotFound), "%v", err)
		twin := actor // differs only in the direction
		w.note(twin, lake.LineageWritten, "t", 0)
	}
	db := superuser(t, w.dsn)
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM lineage WHERE direction = 'read'`))
	require.Equal(t, 3, count(t, db, `SELECT count(*) FROM lineage r JOIN lineage w ON w.actor_id = r.actor_id AND w.direction = 'written'
		WHERE r.direction = 'read' AND to_jsonb(r) - 'direction' = to_jsonb(w) - 'direction'`))
}
