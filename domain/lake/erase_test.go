package lake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// snapshotIDs returns the ids of a table's snapshots, oldest first.
func (c client) snapshotIDs(t testing.TB) (ids []int64) {
	for _, s := range c.table(t).Metadata().Snapshots() {
		ids = append(ids, s.SnapshotID)
	}
	return ids
}

// updates commits updates of a table, with an erasure.
func (r *rig) updates(name string, erase *lake.Erasure, all ...map[string]any) error {
	_, err := r.catalog.Commit(r.t.Context(), r.scope, lake.Change{Ref: ref("public", name), Updates: raw(r.t, all), Erase: erase}, lake.Key{})
	return err
}

// TestRemovingSnapshotsThatRefsName is refused, so that the client plans again. A ref may be new.
func TestRemovingSnapshotsThatRefsName(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	for i := range 5 {
		r.client("t").append(t, int64(i))
	}
	ids := r.client("t").snapshotIDs(t)
	type update = map[string]any
	remove := func(of ...int64) update { return update{"action": "remove-snapshots", "snapshot-ids": of} }
	set := func(name, kind string, id int64) update {
		return update{"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": id}
	}
	unset := func(name string) update { return update{"action": "remove-snapshot-ref", "ref-name": name} }
	require.NoError(t, r.updates("t", nil, set("v1", "tag", ids[0]), set("side", "branch", ids[1])))
	before := r.load("public", "t").MetadataLocation
	for name, all := range map[string][]update{
		"a tag":                              {remove(ids[0])},
		"a branch":                           {remove(ids[2], ids[1])},
		"main":                               {remove(ids[4])},
		"a tag of the same request":          {set("v3", "tag", ids[3]), remove(ids[3])},
		"a tag that the request makes after": {remove(ids[3]), set("v3", "tag", ids[3])},
		"one of two tags":                    {set("v2", "tag", ids[0]), unset("v1"), remove(ids[0])},
	} {
		reason(t, lake.CommitFailed, r.updates("t", nil, all...))
		require.Equal(t, before, r.load("public", "t").MetadataLocation, name)
	}
	require.NoError(t, r.updates("t", nil, remove(ids[2])))
	require.NoError(t, r.updates("t", nil, remove(ids[0]), unset("v1")), "judged after all updates, in whatever order")
	require.NoError(t, r.updates("t", nil, unset("side"), remove(ids[1])))
	require.Equal(t, ids[3:], r.client("t").snapshotIDs(t))
}

// listed creates the list of a table's erasure.
func (r *rig) listed(name string, lines ...string) *lake.Erasure {
	e := &lake.Erasure{List: uuid.NewString(), After: 24 * time.Hour}
	path := filepath.Join(r.path(r.load("public", name).Table.Location), "metadata", "erase-"+e.List+".names")
	require.NoError(r.t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return e
}

// junk creates files in a table's data directory, and returns their names in the workspace's
// storage.
func (r *rig) junk(name string, n int) (names []string) {
	location := r.load("public", name).Table.Location
	for range n {
		at := location + "/data/" + uuid.NewString() + ".parquet"
		require.NoError(r.t, os.MkdirAll(filepath.Dir(r.path(at)), 0o755))
		require.NoError(r.t, os.WriteFile(r.path(at), nil, 0o600))
		names = append(names, strings.TrimPrefix(at, r.files.Prefix(r.scope.Workspace())))
	}
	return names
}

func (r *rig) there(names ...string) (n int) {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(r.dir, string(r.scope.Workspace()), name)); err == nil {
			n++
		}
	}
	return n
}

func (r *rig) erasures() (n int) {
	require.NoError(r.t, r.sql.QueryRow(`SELECT count(*) FROM lake_erasures`).Scan(&n))
	return n
}

// TestErase erases the files of a commit's list when they are due, except those that the table
// names by then.
func TestErase(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	r.create("public", "other")
	r.client("t").append(t, 1, 2)
	r.client("other").append(t, 3)
	needed, gone, others, escapes := r.onDisk(), r.junk("t", 300), r.junk("other", 1), []string{"../x", "/etc/passwd", "", strings.Repeat("y", 3000)}
	for i, name := range needed {
		needed[i] = strings.TrimPrefix(name, "/")
	}
	e := r.listed("t", append(append(append(gone, needed...), others...), escapes...)...)
	require.NoError(t, r.updates("t", e, map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}))
	require.Equal(t, 1, r.erasures())
	r.clock.move(24*time.Hour - time.Second)
	require.NoError(t, r.catalog.Erase(ctx))
	require.Equal(t, 300, r.there(gone...))
	r.clock.move(time.Second)
	require.NoError(t, r.catalog.Erase(ctx))
	require.Zero(t, r.there(gone...))
	require.Equal(t, len(needed), r.there(needed...))
	require.Equal(t, 1, r.there(others...), "another table's")
	require.ElementsMatch(t, []int64{1, 2}, r.client("t").ids(t))
	require.Zero(t, r.erasures())
	for _, name := range r.onDisk() {
		require.NotContains(t, name, "erase-", "the list goes too")
	}
	require.Empty(t, r.reported)
}

// mortal is a storage that fails after some deletions.
type mortal struct {
	lake.Files
	left atomic.Int64
}

var errBroken = errors.New("the storage is broken")

// Delete implements lake.Files.
func (m *mortal) Delete(ctx context.Context, uri string) error {
	if m.left.Add(-1) < 0 {
		return errBroken
	}
	return m.Files.Delete(ctx, uri)
}

// TestEraseIsInterrupted continues, with growing delays.
func TestEraseIsInterrupted(t *testing.T) {
	r := newRig(t)
	broken := &mortal{Files: r.files}
	broken.left.Store(100)
	catalog := r.another(broken)
	r.create("public", "t")
	r.client("t").append(t, 1)
	gone := r.junk("t", 300)
	require.NoError(t, r.updates("t", r.listed("t", gone...), map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}))
	r.clock.move(24 * time.Hour)
	require.ErrorIs(t, catalog.Erase(t.Context()), errBroken)
	require.Equal(t, 200, r.there(gone...))
	require.NoError(t, r.catalog.Erase(t.Context()), "it is not due again yet")
	require.Equal(t, 200, r.there(gone...))
	r.clock.move(time.Hour)
	require.NoError(t, r.catalog.Erase(t.Context()))
	require.Zero(t, r.there(gone...))
	require.Zero(t, r.erasures())
	require.Equal(t, []int64{1}, r.client("t").ids(t))
}

// hanging is a storage whose deletions hang.
type hanging struct {
	lake.Files
	t *testing.T
}

// Delete implements lake.Files.
func (h *hanging) Delete(ctx context.Context, _ string) error {
	until, bounded := ctx.Deadline()
	require.True(h.t, bounded && time.Until(until) <= 5*time.Second)
	return context.DeadlineExceeded
}

// TestEraseHangs keeps the table locked for a bounded time only, and continues later.
func TestEraseHangs(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	gone := r.junk("t", 20)
	require.NoError(t, r.updates("t", r.listed("t", gone...), map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}))
	r.clock.move(24 * time.Hour)
	catalog := r.another(&hanging{Files: r.files, t: t})
	require.ErrorIs(t, catalog.Erase(t.Context()), context.DeadlineExceeded)
	_, err := r.set("t", "a", "c")
	require.NoError(t, err)
	require.NoError(t, catalog.Erase(t.Context()), "it is not due again yet")
	r.clock.move(time.Hour)
	require.NoError(t, r.catalog.Erase(t.Context()))
	require.Zero(t, r.there(gone...))
}

// busy is a storage of a table that changes after each read of its metadata.
type busy struct {
	lake.Files
	change func()
	reads  atomic.Int64
}

// Read implements lake.Files.
func (b *busy) Read(ctx context.Context, uri string) ([]byte, error) {
	content, err := b.Files.Read(ctx, uri)
	b.reads.Add(1)
	b.change()
	return content, err
}

// TestEraseOfABusyTable gives up soon, because the lists of other tables wait for it, and continues
// later.
func TestEraseOfABusyTable(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	gone := r.junk("t", 20)
	require.NoError(t, r.updates("t", r.listed("t", gone...), map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}))
	r.clock.move(24 * time.Hour)
	files := &busy{Files: r.files}
	files.change = func() {
		_, err := r.set("t", "a", fmt.Sprint(files.reads.Load()))
		require.NoError(t, err)
	}
	require.True(t, domain.IsCode(r.another(files).Erase(t.Context()), domain.CodeConflict))
	require.Less(t, files.reads.Load(), int64(20))
	require.Equal(t, 20, r.there(gone...))
	r.clock.move(time.Hour)
	require.NoError(t, r.catalog.Erase(t.Context()))
	require.Zero(t, r.there(gone...))
}

// TestEraseNothing of a table that shares its files, or whose needed files cannot be determined.
func TestEraseNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, r *rig)
		stays  int
		fails  bool
	}{
		"gc.enabled=false": {func(t *testing.T, r *rig) {
			_, err := r.set("t", "gc.enabled", "false")
			require.NoError(t, err)
		}, 3, false},
		"registered": {func(t *testing.T, r *rig) {
			_, err := r.sql.Exec(`UPDATE lake_tables SET registered = true`)
			require.NoError(t, err)
		}, 3, false},
		"a manifest is missing": {func(t *testing.T, r *rig) {
			for _, name := range r.onDisk() {
				if strings.HasSuffix(name, ".avro") {
					require.NoError(t, os.Remove(filepath.Join(r.dir, string(r.scope.Workspace()), name)))
				}
			}
		}, 3, true},
		"the list is gone": {func(t *testing.T, r *rig) {
			for _, name := range r.onDisk() {
				if strings.Contains(name, "erase-") {
					require.NoError(t, os.Remove(filepath.Join(r.dir, string(r.scope.Workspace()), name)))
				}
			}
		}, 3, false},
		"dropped, and not yet purged": {func(t *testing.T, r *rig) {
			require.NoError(t, r.catalog.Drop(t.Context(), r.scope, ref("public", "t"), lake.KindTable, true, lake.Key{}))
		}, 0, false},
		"purged": {func(t *testing.T, r *rig) {
			require.NoError(t, r.catalog.Drop(t.Context(), r.scope, ref("public", "t"), lake.KindTable, true, lake.Key{}))
			r.clock.move(lake.UndropTime + 2*time.Hour)
			require.NoError(t, r.catalog.Purge(t.Context()))
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create("public", "t")
			r.client("t").append(t, 1)
			gone := r.junk("t", 3)
			require.NoError(t, r.updates("t", r.listed("t", gone...), map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}))
			c.change(t, r)
			r.clock.move(24 * time.Hour)
			err := r.catalog.Erase(t.Context())
			require.Equal(t, c.fails, err != nil, "%v", err)
			require.Equal(t, c.stays, r.there(gone...))
			if !c.fails {
				require.Zero(t, r.erasures())
				return
			}
			require.Equal(t, 1, r.erasures())
			r.clock.move(31 * 24 * time.Hour)
			require.NoError(t, r.catalog.Erase(t.Context()), "it is given up, and said")
			require.Zero(t, r.erasures())
			require.Len(t, r.reported, 1)
			require.Equal(t, c.stays, r.there(gone...))
		})
	}
}

// TestErasuresThatAreRefused change nothing.
func TestErasuresThatAreRefused(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	before := r.load("public", "t").MetadataLocation
	for _, e := range []lake.Erasure{
		{List: "../x", After: 24 * time.Hour}, {List: "", After: 24 * time.Hour}, {List: uuid.NewString(), After: 23 * time.Hour}, {List: uuid.NewString(), After: 31 * 24 * time.Hour},
	} {
		code(t, domain.CodeInvalid, r.updates("t", &e, map[string]any{"action": "set-properties", "updates": map[string]string{"a": fmt.Sprint(e)}}))
	}
	require.Equal(t, before, r.load("public", "t").MetadataLocation)
	require.Zero(t, r.erasures())
}
