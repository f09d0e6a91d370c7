package enginetest

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/maintain"
	"github.com/millpond/millpond/store/objects/s3test"
)

// The test binary is also the process that maintains tables, as the program's is.
func init() {
	if len(os.Args) > 1 && os.Args[1] == engine.MaintainCommand {
		// Initialization is locked to its own thread, on which iter.Pull must not be used.
		go func() { os.Exit(maintain.Main()) }()
		select {}
	}
}

// age makes a table's history and its files older by a number of days.
func (w *written) age(days int) *written {
	w.t.Helper()
	by := time.Duration(days) * 24 * time.Hour
	path := strings.TrimPrefix(w.reload().MetadataLocation(), "file://")
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var metadata any
	require.NoError(w.t, d.Decode(&metadata))
	older(metadata, by.Milliseconds())
	content, err = json.Marshal(metadata)
	require.NoError(w.t, err)
	aged := filepath.Join(filepath.Dir(path), fmt.Sprintf("%05d-%d.metadata.json", 1000+w.numbers.Add(1), days))
	require.NoError(w.t, os.WriteFile(aged, content, 0o600))
	require.NoError(w.t, filepath.WalkDir(strings.TrimPrefix(w.Location(), "file://"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime().Add(-by), info.ModTime().Add(-by))
	}))
	w.replaceMetadata("file://" + aged)
	return w.reload()
}

// replaceMetadata sets the table's metadata file without the catalog.
func (w *written) replaceMetadata(location string) {
	w.t.Helper()
	db, err := sql.Open("postgres", w.database)
	require.NoError(w.t, err)
	defer db.Close()
	_, err = db.ExecContext(w.t.Context(), `UPDATE lake_tables SET metadata_location = $2, version = version + 1 WHERE name = $1 AND dropped_at IS NULL`, w.name, location)
	require.NoError(w.t, err)
}

func older(v any, by int64) {
	switch v := v.(type) {
	case []any:
		for _, of := range v {
			older(of, by)
		}
	case map[string]any:
		for name, of := range v {
			if at, ok := of.(json.Number); ok && (name == "timestamp-ms" || name == "last-updated-ms") {
				n, err := at.Int64()
				if err != nil {
					panic(err)
				}
				v[name] = json.Number(strconv.FormatInt(n-by, 10))
			}
			older(of, by)
		}
	}
}

func (w *written) set(properties iceberg.Properties) *written {
	return w.reload().commit(func(tx *table.Transaction) error { return tx.SetProperties(properties) })
}

// TestExpireSnapshots checks that snapshots stay if a branch, a tag or the table's properties need
// them. The files of the others are removed.
func TestExpireSnapshots(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("history", 2, columns("id long", "k string"))
	var snapshots []int64
	note := func() { snapshots = append(snapshots, w.CurrentSnapshot().SnapshotID) }
	for i := range 4 {
		w.append(numbered(10*i, 10*i+10))
		note()
	}
	w.delete(iceberg.EqualTo(reference("id"), int64(0)))
	note()
	for name, ref := range map[string]table.Update{
		"tagged": table.NewSetSnapshotRefUpdate("tagged", snapshots[0], table.TagRef, 0, 0, 0), "side": table.NewSetSnapshotRefUpdate("side", snapshots[1], table.BranchRef, 0, 0, 0),
	} {
		_, _, err := r.others.CommitTable(t.Context(), table.Identifier{"public", w.name}, nil, []table.Update{ref})
		require.NoError(t, err, name)
	}
	w.age(10)
	optimize(w)
	note()
	const week = "ALTER TABLE history EXECUTE expire_snapshots(retention_threshold => '7d')"
	for _, kept := range []iceberg.Properties{
		{"history.expire.min-snapshots-to-keep": "20"}, {"history.expire.max-snapshot-age-ms": strconv.FormatInt((11 * 24 * time.Hour).Milliseconds(), 10)},
	} {
		w.set(kept)
		require.Equal(t, map[string]int64{"expired_snapshots": 0, "forgotten_files": 0}, r.metrics(week), kept)
		for name := range kept {
			w.reload().commit(func(tx *table.Transaction) error { return tx.RemoveProperties([]string{name}) })
		}
	}
	require.Zero(t, r.metrics("ALTER TABLE history EXECUTE expire_snapshots(retain_last => 6)")["expired_snapshots"])
	require.Zero(t, r.metrics("ALTER TABLE history EXECUTE expire_snapshots(retention_threshold => '11d')")["expired_snapshots"])
	require.Len(t, w.reload().Metadata().Snapshots(), 6)

	root := strings.TrimPrefix(w.Location(), "file://")
	require.Len(t, files(t, root, "*.parquet"), 6)
	_, end := r.do(r.statement(week))
	require.Nil(t, end.Error, "%+v", end.Error)
	require.EqualValues(t, 2, end.Rows)
	var left6 []int64
	for _, s := range w.reload().Metadata().Snapshots() {
		left6 = append(left6, s.SnapshotID)
	}
	require.ElementsMatch(t, []int64{snapshots[0], snapshots[1], snapshots[4], snapshots[5]}, left6, "what was replaced today stays, however old it is")
	require.Len(t, files(t, root, "*.parquet"), 6, "nothing is erased yet")
	lists := files(t, root, "erase-*.names")
	require.Len(t, lists, 1)
	listed, err := os.ReadFile(lists[0])
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(listed), "/metadata/snap-"), "%s", listed)
	w.is(left(0, 40, 0)...)
	r.answers("FROM history AT (VERSION => 'tagged')", left(0, 10)...)
	r.answers("FROM history AT (VERSION => 'side')", left(0, 20)...)
	r.answers(fmt.Sprintf("FROM history AT (VERSION => %d)", snapshots[1]), left(0, 20)...)
	require.NotNil(t, r.fails(fmt.Sprintf("FROM history AT (VERSION => %d)", snapshots[3])))
	require.Equal(t, map[string]int64{"expired_snapshots": 0, "forgotten_files": 0}, r.metrics(week))
	w.append(numbered(40, 45)).is(left(0, 45, 0)...)

	merged := r.create("merged", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10)).delete(iceberg.EqualTo(reference("id"), int64(2)))
	merged.age(10).commit(func(tx *table.Transaction) error {
		did, err := tx.RewriteManifests(t.Context())
		require.False(t, did.IsNoOp())
		return err
	})
	require.EqualValues(t, 2, r.metrics("ALTER TABLE merged EXECUTE expire_snapshots")["expired_snapshots"])
	merged.reload().is(left(0, 10, 2)...)

	empty := r.create("empty", 2, columns("id long"))
	require.Zero(t, r.metrics("ALTER TABLE empty EXECUTE expire_snapshots")["expired_snapshots"])
	require.Zero(t, r.metrics("ALTER TABLE empty EXECUTE optimize")["rewritten_data_files"])
	require.Zero(t, r.metrics("ALTER TABLE empty EXECUTE remove_orphan_files")["deleted_orphan_files"])
	empty.set(iceberg.Properties{"gc.enabled": "false"})
	for _, do := range []string{"expire_snapshots", "remove_orphan_files"} {
		require.Contains(t, r.fails("ALTER TABLE empty EXECUTE "+do).Message, "gc.enabled=false")
	}
}

// The control plane erases forgotten files a day after their commit. Until then the removal of
// orphans leaves them alone.
func TestForgottenFilesAreErasedLater(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("history", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10)).delete(iceberg.EqualTo(reference("id"), int64(3)))
	optimize(w.age(10))
	w.age(10).append(numbered(10, 15)).append(numbered(15, 20))
	root, old := strings.TrimPrefix(w.Location(), "file://"), time.Now().Add(-8*24*time.Hour)
	for _, f := range files(t, root, "*") {
		if at, err := os.Lstat(f); err == nil && at.Mode().IsRegular() {
			require.NoError(t, os.Chtimes(f, old, old))
		}
	}
	r.metrics("ALTER TABLE history EXECUTE remove_orphan_files")
	before := files(t, root, "*")
	did := r.metrics("ALTER TABLE history EXECUTE expire_snapshots")
	require.EqualValues(t, 3, did["expired_snapshots"])
	require.Positive(t, did["forgotten_files"])
	require.Subset(t, files(t, root, "*"), before)
	require.Zero(t, r.metrics("ALTER TABLE history EXECUTE remove_orphan_files(retention_threshold => '1d')")["deleted_orphan_files"])
	require.Subset(t, files(t, root, "*"), before)
	require.NoError(t, r.lakeAt(23*time.Hour).Erase(t.Context()))
	require.Subset(t, files(t, root, "*"), before)
	require.NoError(t, r.lakeAt(25*time.Hour).Erase(t.Context()))
	after := files(t, root, "*")
	gone := 0
	for _, f := range before {
		if !slices.Contains(after, f) {
			gone++
		}
	}
	require.EqualValues(t, did["forgotten_files"], gone)
	require.Empty(t, files(t, root, "erase-*.names"))
	w.reload().is(left(0, 20, 3)...)
}

// Maintenance of a registered table expires its snapshots and removes none of its files, because
// others may use them. The table's properties do not change that.
func TestMaintenanceOfARegisteredTable(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("first", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10)).delete(iceberg.EqualTo(reference("id"), int64(3))).age(10)
	root := strings.TrimPrefix(w.Location(), "file://")
	require.NoError(t, r.others.DropTable(t.Context(), table.Identifier{"public", "first"}))
	_, err := r.others.RegisterTable(t.Context(), table.Identifier{"public", "second"}, w.MetadataLocation())
	require.NoError(t, err)
	w = &written{r, "second", w.Table}
	w.set(iceberg.Properties{"gc.enabled": "true", "write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}).append(numbered(10, 15))
	w.age(10).append(numbered(15, 20))
	before := files(t, root, "*")
	did := r.metrics("ALTER TABLE second EXECUTE expire_snapshots")
	require.Positive(t, did["expired_snapshots"])
	require.Zero(t, did["forgotten_files"])
	require.Contains(t, r.fails("ALTER TABLE second EXECUTE remove_orphan_files").Message, "registered with files from elsewhere")
	require.NoError(t, r.lakeAt(10*24*time.Hour).Erase(t.Context()))
	require.NoError(t, r.lakeAt(10*24*time.Hour).Purge(t.Context()))
	require.Subset(t, files(t, root, "*"), before)
	w.reload().is(left(0, 20, 3)...)
}

// A tag that is created while snapshots expire keeps its snapshot. The catalog refuses the commit,
// and the job plans again.
func TestATagThatIsMadeWhileSnapshotsExpire(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between}).withOthers()
	w := r.create("history", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10)).append(numbered(10, 15))
	w.age(10).append(numbered(15, 20))
	first := w.Metadata().Snapshots()[0].SnapshotID
	b.spoil(func(answer http.ResponseWriter, _ *http.Request, change func() int) {
		b.spoil(nil)
		_, _, err := r.others.CommitTable(t.Context(), table.Identifier{"public", w.name}, nil, []table.Update{table.NewSetSnapshotRefUpdate("kept", first, table.TagRef, 0, 0, 0)})
		require.NoError(t, err)
		require.Equal(t, http.StatusConflict, change())
		fail(answer, http.StatusConflict)
	})
	require.EqualValues(t, 1, r.metrics("ALTER TABLE history EXECUTE expire_snapshots")["expired_snapshots"])
	r.answers("FROM history AT (VERSION => 'kept')", left(0, 5)...)
	require.Len(t, files(t, strings.TrimPrefix(w.Location(), "file://"), "erase-*.names"), 1, "the list of the commit that was refused is gone")
}

// TestRemoveOrphanFiles checks that only old files without a table are removed.
func TestRemoveOrphanFiles(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("littered", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10))
	w.delete(iceberg.EqualTo(reference("id"), int64(3)))
	other := r.create("neighbour", 2, columns("id long", "k string")).append(numbered(0, 5))
	root, others := strings.TrimPrefix(w.Location(), "file://"), strings.TrimPrefix(other.Location(), "file://")
	old := time.Now().Add(-8 * 24 * time.Hour)
	make1 := func(name string, at time.Time) string {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("junk"), 0o600))
		require.NoError(t, os.Chtimes(path, at, at))
		return path
	}
	gone := []string{make1("data/old.parquet", old), make1("metadata/old.avro", old), make1("data/k=a%2Fb/deep/old ü.parquet", old), make1("elsewhere/old", old)}
	stays := []string{make1("data/young.parquet", time.Now().Add(-23*time.Hour)), make1("data/younger.parquet", time.Now().Add(-6*24*time.Hour))}
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Chtimes(outside, old, old))
	for i, to := range []string{outside, others, filepath.Join(others, "data")} {
		link := filepath.Join(root, "data", fmt.Sprint("link", i))
		require.NoError(t, os.Symlink(to, link))
		require.NoError(t, unix.Lutimes(link, []unix.Timeval{unix.NsecToTimeval(old.UnixNano()), unix.NsecToTimeval(old.UnixNano())}))
	}
	for _, dir := range []string{root, others} {
		for _, f := range append(files(t, dir, "*.parquet"), append(files(t, dir, "*.avro"), files(t, dir, "*.json")...)...) {
			if !slices.Contains(stays, f) {
				require.NoError(t, os.Chtimes(f, old, old))
			}
		}
	}
	neighbours := files(t, others, "*")
	require.Equal(t, map[string]int64{"deleted_orphan_files": 4, "deleted_bytes": 16}, r.metrics("ALTER TABLE littered EXECUTE remove_orphan_files(retention_threshold => '7d')"))
	for _, path := range gone {
		require.NoFileExists(t, path)
	}
	for _, path := range append(stays, outside) {
		require.FileExists(t, path)
	}
	require.Equal(t, neighbours, files(t, others, "*"))
	w.is(left(0, 10, 3)...)
	other.is(left(0, 5)...)
	r.answers(fmt.Sprintf("SELECT count(*) FROM littered AT (VERSION => %d)", w.Metadata().Snapshots()[0].SnapshotID), "5")
	require.EqualValues(t, 1, r.metrics("ALTER TABLE littered EXECUTE remove_orphan_files(retention_threshold => '1d')")["deleted_orphan_files"])
	require.FileExists(t, stays[0])

	require.NoError(t, os.Rename(root, root+"-moved"))
	require.NoError(t, os.CopyFS(filepath.Join(others, "metadata"), os.DirFS(root+"-moved/metadata")))
	require.NoError(t, os.Symlink(filepath.Base(others), root))
	require.Contains(t, r.fails("ALTER TABLE littered EXECUTE remove_orphan_files").Message, "is a symbolic link")
	require.Subset(t, files(t, others, "*"), neighbours)
}

// Maintenance is refused if the statement is malformed or not allowed, or if it reaches beyond the
// workspace.
func TestMaintenanceIsRefused(t *testing.T) {
	r := newLakeRig(t)
	r.changes("CREATE TABLE t (a INT)")
	r.changes("CREATE VIEW v AS SELECT a FROM t")
	for query, says := range map[string]string{
		"optimize(file_size_threshold => 128)":                                            "is a size such as '128MB'",
		"optimize(file_size_threshold => '-1MB')":                                         "is a size such as '128MB'",
		"optimize(file_size_threshold => '1e3MB')":                                        "is a size such as '128MB'",
		"optimize(file_size_threshold => '99999999PB')":                                   "is a size such as '128MB'",
		"optimize(file_size_threshold => '0B')":                                           "is a size such as '128MB'",
		"optimize(retention_threshold => '7d')":                                           "optimize takes no parameter retention_threshold; it takes file_size_threshold",
		"optimize('128MB')":                                                               "as name => value",
		"optimize(file_size_threshold = > '1MB')":                                         "as name => value",
		"optimize(file_size_threshold => '1MB',)":                                         "A parameter follows a comma",
		"optimize(file_size_threshold => '1MB', file_size_threshold => '2MB')":            "is given twice",
		"optimize(file_size_threshold => (SELECT '1MB'))":                                 "as name => value",
		"optimize WHERE a = 1":                                                            "it maintains the whole table",
		"optimize(file_size_threshold => '1MB') WHERE a = 1":                              "come its parameters",
		"expire_snapshots(retention_threshold => '23h')":                                  "shorter than the least, which is 1d",
		"expire_snapshots(retention_threshold => '0.00s')":                                "shorter than the least, which is 1d",
		"expire_snapshots(retention_threshold => '99999999d')":                            "is a time such as '7d'",
		"expire_snapshots(retention_threshold => '1w')":                                   "is a time such as '7d'",
		"expire_snapshots(retain_last => 0)":                                              "retain_last is a number of snapshots, 1 or more",
		"expire_snapshots(max_snapshots => 0)":                                            "max_snapshots is a number of snapshots, 1 or more",
		"expire_snapshots(erase_after => '31d')":                                          "erase_after is a time such as '7d', in s, m, h or d, of at most 30d",
		"expire_snapshots(erase_after => '1h')":                                           "shorter than the least, which is 1d",
		"expire_snapshots(retain_last => 1.5)":                                            "retain_last is a number of snapshots, 1 or more",
		"expire_snapshots(retention_threshold => '7d', clean_expired_metadata => 'true')": "it takes retention_threshold, retain_last",
		"remove_orphan_files(retention_threshold => '0s')":                                "shorter than the least, which is 1d",
		"remove_orphan_files(location => 'file:///')":                                     "it takes retention_threshold",
		"rollback_to_snapshot(1)":                                                         "there are optimize, expire_snapshots, remove_orphan_files",
		"optimize(":                                                                       "come its parameters",
		"optimize; DROP TABLE t":                                                          "one statement at a time",
	} {
		f := r.fails("ALTER TABLE t EXECUTE " + query)
		require.Equal(t, agent.FaultQuery, f.Fault, query)
		require.Contains(t, f.Message, says, query)
	}
	for query, says := range map[string]string{
		"ALTER TABLE nosuch EXECUTE optimize": "There is no table public.nosuch", "ALTER TABLE nosuch.t EXECUTE optimize": "There is no table nosuch.t", "ALTER TABLE other.public.t EXECUTE optimize": `There is no database "other"`,
		"ALTER TABLE v EXECUTE optimize": "There is no table public.v", "ALTER TABLE lake.t EXECUTE optimize": "name its schema too", "ALTER TABLE a.b.c.d EXECUTE optimize": "three parts",
		"ALTER TABLE 't' EXECUTE optimize": "", "ALTER VIEW v EXECUTE optimize": "",
	} {
		f := r.fails(query)
		require.Equal(t, agent.FaultQuery, f.Fault, "%s: %+v", query, f)
		require.Contains(t, f.Message, says, query)
	}
	require.Contains(t, r.fails("ALTER TABLE t EXECUTE optimize(file_size_threshold => $1)", "1MB").Message, "takes no parameters from the request")
	for _, do := range []string{"optimize", "expire_snapshots", "remove_orphan_files"} {
		viewer := r.statement("ALTER TABLE t EXECUTE " + do)
		viewer.Write = false
		_, end := r.do(viewer)
		require.Equal(t, agent.FaultForbidden, end.Error.Fault)
		head, end := r.headOf(r.statement("/* of */ ALTER TABLE t EXECUTE " + do))
		require.Nil(t, end.Error)
		require.Equal(t, agent.StatementHead{
			Kind: map[string]string{"optimize": "OPTIMIZE", "expire_snapshots": "EXPIRE SNAPSHOTS", "remove_orphan_files": "REMOVE ORPHAN FILES"}[do], Write: true, Engine: "duckdb",
			RoutingReason: "Tables are maintained by iceberg-go on every warehouse.",
		}, head)
	}
	stale := r.statement("ALTER TABLE t EXECUTE optimize")
	stale.Catalog.WriteToken = "nobody's"
	_, end := r.do(stale)
	require.Equal(t, agent.FaultForbidden, end.Error.Fault, end.Error.Message)
}

// Maintenance neither reads nor removes files of others that a manifest names.
func TestMaintenanceOfForeignFiles(t *testing.T) {
	r := newLakeRig(t)
	theirs := strings.TrimPrefix(r.other.Prefix, "file://")
	for i, to := range []string{"file://" + theirs, "file://" + theirs + "../" + filepath.Base(theirs) + "/", r.storage.Prefix + "../" + filepath.Base(theirs) + "/", r.storage.Prefix + "link/"} {
		w := r.create(fmt.Sprint("foreign", i), 2, columns("id long", "k string")).append(numbered(0, 3)).append(numbered(3, 6))
		root := strings.TrimPrefix(w.Location(), "file://")
		secret := filepath.Join(theirs, filepath.Base(root))
		require.NoError(t, os.CopyFS(filepath.Join(secret, "data"), os.DirFS(filepath.Join(root, "data"))))
		if i == 3 {
			require.NoError(t, os.Symlink(theirs, filepath.Join(strings.TrimPrefix(r.storage.Prefix, "file://"), "link")))
		}
		for _, f := range files(t, root, "*-m*.avro") {
			rewrite(t, f, func(_, file map[string]any) {
				file["file_path"] = strings.Replace(file["file_path"].(string), w.Location(), to+filepath.Base(root), 1)
			})
		}
		w.age(10)
		commits := len(w.Metadata().Snapshots())
		f := r.fails("ALTER TABLE " + w.name + " EXECUTE optimize")
		require.Equal(t, agent.StatementFault(map[bool]agent.StatementFault{true: agent.FaultEngine, false: agent.FaultQuery}[i == 3]), f.Fault, f.Message)
		if i < 3 {
			require.Contains(t, f.Message, "is not in the workspace's storage", to)
		}
		r.do(r.statement("ALTER TABLE " + w.name + " EXECUTE expire_snapshots(retention_threshold => '1d')"))
		require.Len(t, files(t, secret, "*.parquet"), 2, "nothing of another's is removed")
		require.LessOrEqual(t, len(w.reload().Metadata().Snapshots()), commits)
	}
}

// TestMaintenanceOnS3 runs all operations in a bucket.
func TestMaintenanceOnS3(t *testing.T) {
	server := s3test.Start(t)
	r := newRigWith(t, rigOptions{lake: server.URL("some/prefix")})
	r.changes("CREATE TABLE t (a BIGINT, b VARCHAR)")
	for i := range 4 {
		r.changes(fmt.Sprintf("INSERT INTO t SELECT i, 'b' || i FROM range(%d, %d) t(i)", 100*i, 100*i+100))
	}
	r.changes("DELETE FROM t WHERE a % 7 = 0")
	want := r.ok("FROM t ORDER BY a")
	did := r.metrics("ALTER TABLE t EXECUTE optimize")
	require.EqualValues(t, 4, did["rewritten_data_files"])
	require.EqualValues(t, 1, did["added_data_files"])
	require.Equal(t, want, r.ok("FROM t ORDER BY a"))
	found := files(t, server.Dir, "*.parquet")
	junk := filepath.Join(filepath.Dir(found[0]), "junk.parquet")
	require.NoError(t, os.WriteFile(junk, []byte("junk"), 0o666))
	old := time.Now().Add(-8 * 24 * time.Hour)
	for _, f := range append(found, junk) {
		require.NoError(t, os.Chtimes(f, old, old))
	}
	require.Equal(t, map[string]int64{"deleted_orphan_files": 1, "deleted_bytes": 4}, r.metrics("ALTER TABLE t EXECUTE remove_orphan_files"))
	require.NoFileExists(t, junk)
	require.Zero(t, r.metrics("ALTER TABLE t EXECUTE expire_snapshots")["expired_snapshots"])
	require.Equal(t, want, r.ok("FROM t ORDER BY a"))
	elsewhere := r.statement("ALTER TABLE t EXECUTE optimize")
	elsewhere.Storage = r.other
	_, end := r.do(elsewhere)
	require.Contains(t, end.Error.Message, "is not in the workspace's storage")
}
