package enginetest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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

// The process that maintains tables is this binary, as it is the program's.
func init() {
	if len(os.Args) > 1 && os.Args[1] == engine.MaintainCommand {
		go func() { os.Exit(maintain.Main()) }() // initialisation has a thread of its own, in which no iterator may be pulled
		select {}
	}
}

// metrics runs a statement that maintains a table and answers what it did.
func (r *rig) metrics(query string) map[string]int64 {
	r.t.Helper()
	found := map[string]int64{}
	for _, row := range r.ok(query) {
		name, value, _ := strings.Cut(row, "|")
		var n int64
		_, err := fmt.Sscan(value, &n)
		require.NoError(r.t, err)
		found[name] = n
	}
	return found
}

// optimize puts a table's files together and holds that no row of it is deleted then by a file, and that its files are as few as they can be.
func optimize(w *written) {
	w.t.Helper()
	w.metrics("ALTER TABLE " + quoted(w.name) + " EXECUTE optimize")
	w.reload()
	tasks, err := w.Scan().PlanFiles(w.t.Context())
	require.NoError(w.t, err)
	seen := map[string]bool{}
	for _, task := range tasks {
		require.Empty(w.t, task.DeleteFiles)
		require.Empty(w.t, task.EqualityDeleteFiles)
		require.Empty(w.t, task.DeletionVectorFiles)
		partition := fmt.Sprint(task.File.SpecID(), task.File.Partition(), task.FirstRowID != nil)
		require.False(w.t, seen[partition], "two files in a partition")
		seen[partition] = true
	}
	if s := w.CurrentSnapshot(); s != nil {
		require.Equal(w.t, "0", s.Summary.Properties["total-delete-files"], "%+v", s.Summary)
	}
}

// TestOptimizedTables are read as before, however their rows were deleted and their schemas and partitions changed.
func TestOptimizedTables(t *testing.T) {
	base := newLakeRig(t)
	for name, test := range map[string]func(r *lakeRig){
		"positions in two rounds":      func(r *lakeRig) { twoRounds(r, 2) },
		"deletion vectors, two rounds": func(r *lakeRig) { twoRounds(r, 3) },
		"of a whole file":              wholeFiles,
		"in partitions":                func(r *lakeRig) { deletesInPartitions(r, 2) },
		"vectors in partitions":        func(r *lakeRig) { deletesInPartitions(r, 3) },
		"equality":                     func(r *lakeRig) { equality(r, 2) },
		"equality in the third format": func(r *lakeRig) { equality(r, 3) },
		"equality of several columns":  equalityOfColumns,
		"equality of every type":       equalityOfTypes,
		"equality after evolution":     equalityAfterEvolution,
		"equality in partitions":       equalityInPartitions,
		"equality across specs":        equalityAcrossSpecs,
		"all on one table":             func(r *lakeRig) { allDeletes(r, 2) },
		"all with vectors":             func(r *lakeRig) { allDeletes(r, 3) },
		"positions, then vectors":      upgraded,
		"by the engine on others'":     engineOnOthers,
		"null in a key":                func(r *lakeRig) { nullInKey(r, 2) },
		"null in a key, with vectors":  func(r *lakeRig) { nullInKey(r, 3) },
		"promoted keys":                promotedKeys,
		"nested keys":                  nestedKeys,
		"floating-point keys":          floatKeys,
		"many keys":                    manyKeys,
		"rows of the same commit":      sameCommit,
		"partitions outside the key":   partitionsOutside,
		"partitions of null":           partitionsOfNull,
		"across specs":                 acrossSpecs,
		"void partitions":              voidPartitions,
		"dropped keys":                 droppedKeys,
		"awkward names":                awkwardNames,
		"nested columns evolved":       nestedEvolved,
		"time travel":                  equalityTravel,
		"added":                        added,
		"added with a default":         addedWithDefault,
		"renamed":                      renamed,
		"dropped, added again":         droppedAndAdded,
		"swapped names":                swapped,
		"reordered":                    reordered,
		"promoted":                     promoted,
		"nested fields":                nestedFields,
		"elements":                     elements,
		"by the engine":                evolvedByEngine,
	} {
		t.Run(name, func(t *testing.T) {
			r := base.of(t)
			compared := 0
			r.before = func(w *written) {
				if compared++; compared%2 == 1 {
					optimize(w)
				}
			}
			test(r)
		})
	}
}

var optimizedCases = flag.Int("optimize.cases", 3, "how many random tables of each kind are optimized")

// TestRandomOptimizedTables changes random tables at random, optimizes them between, and compares their rows with models in memory.
func TestRandomOptimizedTables(t *testing.T) {
	base := newLakeRig(t)
	for i := range *optimizedCases {
		seed := *randomSeed + 100_000 + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newCase(base.of(t), seed)
			for range 8 {
				c.step()
				if c.random.IntN(2) == 0 {
					c.note("optimize")
					optimize(c.written)
				}
				c.compare("SELECT id FROM %s WHERE " + c.filter())
			}
			optimize(c.written)
			c.compare("SELECT * FROM %s")
		})
		t.Run(fmt.Sprint("by equality, seed ", seed), func(t *testing.T) {
			r := base.of(t)
			c := &equalityCase{lakeRig: r, random: rand.New(rand.NewPCG(seed, 3)), names: map[string]string{"a": "a", "b": "b", "c": "c"}}
			r.before = func(w *written) {
				if c.random.IntN(2) == 0 {
					c.note("optimize")
					optimize(w)
				}
			}
			c.run(fmt.Sprint("optimized", seed))
		})
	}
}

// TestOptimize puts small files together in one replacing snapshot, and what was before is read as it was.
func TestOptimize(t *testing.T) {
	r := newLakeRig(t)
	for version := 2; version <= 3; version++ {
		w := r.create(fmt.Sprint("small", version), version, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{}))
		for i := range 8 {
			r.changes(fmt.Sprintf("INSERT INTO %s SELECT i, 'k' || i %% 3 FROM range(%d, %d) t(i)", w.name, 100*i, 100*i+100))
		}
		r.changes("DELETE FROM " + w.name + " WHERE id % 10 = 0")
		r.changes("UPDATE " + w.name + " SET id = id + 1000 WHERE id % 10 = 1")
		want := r.ok("FROM " + w.name)
		require.Len(t, want, 720)
		before := w.reload().CurrentSnapshot()
		_, end := r.do(r.statement("ALTER TABLE " + w.name + " EXECUTE optimize(file_size_threshold => '100MB')"))
		require.Nil(t, end.Error, "%+v", end.Error)
		require.EqualValues(t, 5, end.Rows)
		require.Positive(t, end.Scanned)
		require.Equal(t, []agent.StatementTable{{Database: "lake", Schema: "public", Table: w.name, Target: true}}, end.Tables)
		w.is(want...)
		now := w.reload().CurrentSnapshot()
		require.Equal(t, table.OpReplace, now.Summary.Operation)
		require.Equal(t, before.SnapshotID, *now.ParentSnapshotID)
		for total, n := range map[string]string{"total-records": "720", "total-data-files": "3", "total-delete-files": "0", "total-position-deletes": "0"} {
			require.Equal(t, n, now.Summary.Properties[total], total)
		}
		require.NotContains(t, w.Properties(), "schema.name-mapping.default")
		r.answers(fmt.Sprintf("FROM %s AT (VERSION => %d)", w.name, before.SnapshotID), want...)
		require.Equal(t, map[string]int64{"rewritten_data_files": 0, "added_data_files": 0, "removed_delete_files": 0, "rewritten_bytes": 0, "added_bytes": 0}, r.metrics("ALTER TABLE "+w.name+" EXECUTE optimize"))
		require.Equal(t, now.SnapshotID, w.reload().CurrentSnapshot().SnapshotID, "nothing was to be done")
		require.EqualValues(t, 720, r.changes("UPDATE "+w.name+" SET k = 'k0'"), "the engine goes on with it")
	}
}

// TestOptimizeKeepsRowIDs, which rows of the third version of the format have for life.
func TestOptimizeKeepsRowIDs(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("ids", 3, columns("id long", "k string"))
	for i := range 4 {
		w.append(numbered(10*i, 10*i+10))
	}
	w.delete(iceberg.EqualTo(reference("id"), int64(7)))
	ids := func() (rows []string) {
		_, batches, err := w.Scan(table.WithRowLineage()).ToArrowRecords(t.Context())
		require.NoError(t, err)
		for b, err := range batches {
			require.NoError(t, err)
			for i := range int(b.NumRows()) {
				var row []string
				for _, c := range b.Columns() {
					row = append(row, c.ValueStr(i))
				}
				rows = append(rows, strings.Join(row, "|"))
			}
			b.Release()
		}
		return rows
	}
	want := ids()
	require.Len(t, want, 39)
	require.Equal(t, 4, strings.Count(want[20]+"|", "|"), want[20])
	optimize(w)
	require.ElementsMatch(t, want, ids())
}

// TestOptimizeTakesFilesWhole, however the table has its readers cut them.
func TestOptimizeTakesFilesWhole(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("cut", 2, columns("id long", "k string")).set(iceberg.Properties{"write.parquet.row-group-limit": "10", "read.split.target-size": "1"})
	w.append(numbered(0, 50)).append(numbered(50, 100)).delete(iceberg.IsIn(reference("id"), int64(3), int64(44), int64(99)))
	tasks, err := w.Scan().PlanFiles(t.Context())
	require.NoError(t, err)
	require.Greater(t, len(tasks), 2, "else they are not cut")
	require.EqualValues(t, 2, r.metrics("ALTER TABLE cut EXECUTE optimize")["rewritten_data_files"])
	w.is(left(0, 100, 3, 44, 99)...)
}

// TestOptimizedIsReadByPyIceberg as by the engine.
func TestOptimizedIsReadByPyIceberg(t *testing.T) {
	made, err := exec.Command("../../../scripts/pyiceberg.sh").Output()
	require.NoError(t, err, "PyIceberg for the tests: scripts/pyiceberg.sh")
	r := newLakeRig(t)
	w := r.create("py", 2, columns("id long", "k string"), partition(2, "by_k", iceberg.IdentityTransform{})).append(numbered(0, 50)).deleteEqual("id/k", `[{"id": 4, "k": "k1"}]`)
	r.changes("INSERT INTO py SELECT i, 'k' || i % 3 FROM range(50, 90) t(i)")
	const change = "DELETE FROM py WHERE id % 10 = 0"
	require.Contains(t, r.fails(change).Message, "Have the table compacted, which applies its deletes")
	optimize(w)
	require.EqualValues(t, 9, r.changes(change))
	optimize(w)
	want := left(0, 90, 0, 4, 10, 20, 30, 40, 50, 60, 70, 80)
	w.is(want...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(made)), "bin", "python"), "-c", `import sys
from pyiceberg.catalog import load_catalog
table = load_catalog("lake", type="rest", uri=sys.argv[1], warehouse="lake", token=sys.argv[2]).load_table("public.py")
print("\n".join(f"{r['id']}|{r['k']}" for r in table.scan().to_arrow().to_pylist()))
print(table.scan(row_filter="id > 80 and k = 'k1'").to_arrow().num_rows, file=sys.stderr)`, r.catalog.URL, r.catalog.Token)
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "PYICEBERG_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	require.ElementsMatch(t, want, strings.Fields(string(out)))
	require.Equal(t, "3\n", said.String())
}

// TestOptimizeLeavesLargeFilesAlone, and those of which no rows are deleted and that are alone.
func TestOptimizeLeavesLargeFilesAlone(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("sizes", 2, columns("id long"))
	r.changes("INSERT INTO sizes SELECT * FROM range(100000)")
	for range 3 {
		r.changes("INSERT INTO sizes VALUES (-1)")
	}
	did := r.metrics("ALTER TABLE sizes EXECUTE optimize(file_size_threshold => '10kB')")
	require.EqualValues(t, 3, did["rewritten_data_files"])
	require.EqualValues(t, 1, did["added_data_files"])
	r.changes("DELETE FROM sizes WHERE id = 5")
	did = r.metrics(`alter table "lake"."public"."sizes" execute OPTIMIZE ( "FILE_SIZE_THRESHOLD" => '0.01MB' )`)
	require.EqualValues(t, 1, did["removed_delete_files"])
	require.EqualValues(t, 2, did["rewritten_data_files"], "also the large one, of which a row was deleted")
	r.answers("SELECT count(*), sum(id) FROM sizes", "100002|4999949992")
	require.Len(t, w.reload().files(), 1)
}

// files are the paths of a table's files of rows.
func (w *written) files() (paths []string) {
	tasks, err := w.Scan().PlanFiles(w.t.Context())
	require.NoError(w.t, err)
	for _, task := range tasks {
		paths = append(paths, task.File.FilePath())
	}
	return paths
}

// TestWritersWhileItIsOptimized lose nothing: each has rows of its own, of which a model is kept.
func TestWritersWhileItIsOptimized(t *testing.T) {
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), engine: engine.Options{Slots: 4}})
	r.changes("CREATE TABLE raced (writer INT, id INT, n INT)")
	const writers, steps = 2, 12
	models := make([]map[int]int, writers)
	var group sync.WaitGroup
	for writer := range writers {
		models[writer] = map[int]int{}
		group.Go(func() {
			random := rand.New(rand.NewPCG(*randomSeed, uint64(writer)))
			model := models[writer]
			for step := range steps {
				id := random.IntN(step + 1)
				switch random.IntN(4) {
				case 0:
					r.changes(fmt.Sprintf("DELETE FROM raced WHERE writer = %d AND id = %d", writer, id))
					delete(model, id)
				case 1:
					r.changes(fmt.Sprintf("UPDATE raced SET n = n + 1 WHERE writer = %d AND id <= %d", writer, id))
					for known := range model {
						if known <= id {
							model[known]++
						}
					}
				default:
					r.changes(fmt.Sprintf("INSERT INTO raced VALUES (%d, %d, 0)", writer, step))
					model[step] = 0
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		group.Wait()
		close(over)
	}()
	did := int64(0)
	for running := true; running; {
		did += r.metrics("ALTER TABLE raced EXECUTE optimize")["rewritten_data_files"]
		select {
		case <-over:
			running = false
		default:
		}
	}
	require.Positive(t, did)
	var want []string
	for writer, model := range models {
		for id, n := range model {
			want = append(want, fmt.Sprintf("%d|%d|%d", writer, id, n))
		}
	}
	require.ElementsMatch(t, want, r.ok("FROM raced"))
	r.metrics("ALTER TABLE raced EXECUTE optimize")
	require.ElementsMatch(t, want, r.ok("FROM raced"))
}

// TestMaintenanceWhoseAnswersAreLost commits once, and gives up where others are always faster.
func TestMaintenanceWhoseAnswersAreLost(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between, engine: engine.Options{CommitTime: 2 * time.Second}})
	r.changes("CREATE TABLE t (a INT)")
	for i := range 3 {
		r.changes(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
	}
	b.spoil(func(w http.ResponseWriter, _ *http.Request, _ func() int) { fail(w, http.StatusConflict) })
	f := r.fails("ALTER TABLE t EXECUTE optimize")
	require.Equal(t, agent.FaultConflict, f.Fault, f.Message)
	require.Contains(t, f.Message, "lost the race for its table 30 times")
	require.EqualValues(t, 30, b.asked.Load())
	dir := strings.TrimPrefix(r.storage.Prefix, "file://")
	require.Len(t, files(t, dir, "*.parquet"), 3, "what was written in vain is gone")
	manifests := len(files(t, dir, "*.avro"))

	b.spoil(func(w http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		fail(w, http.StatusBadGateway)
		b.spoil(nil)
	})
	require.EqualValues(t, 1, r.metrics("ALTER TABLE t EXECUTE optimize")["added_data_files"])
	require.ElementsMatch(t, []string{"0", "1", "2"}, r.ok("FROM t"))
	require.Len(t, files(t, dir, "*.parquet"), 4)
	require.Greater(t, len(files(t, dir, "*.avro")), manifests)

	r.changes("INSERT INTO t VALUES (3)")
	b.spoil(func(w http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		fail(w, http.StatusBadGateway)
	})
	f = r.fails("ALTER TABLE t EXECUTE optimize")
	require.True(t, f.Unsure, f.Message)
	b.spoil(nil)
	require.ElementsMatch(t, []string{"0", "1", "2", "3"}, r.ok("FROM t"), "what may be committed is not removed")
}

// age makes all that was done to a table as many days older: it is another table then, which was registered.
func (w *written) age(days int) *written {
	w.t.Helper()
	path := strings.TrimPrefix(w.reload().MetadataLocation(), "file://")
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var metadata any
	require.NoError(w.t, d.Decode(&metadata))
	older(metadata, int64(days)*24*3600*1000)
	content, err = json.Marshal(metadata)
	require.NoError(w.t, err)
	aged := filepath.Join(filepath.Dir(path), fmt.Sprintf("%05d-%d.metadata.json", 1000+w.numbers.Add(1), days))
	require.NoError(w.t, os.WriteFile(aged, content, 0o600))
	name := table.Identifier{"public", w.name}
	require.NoError(w.t, w.others.DropTable(w.t.Context(), name))
	_, err = w.others.RegisterTable(w.t.Context(), name, "file://"+aged)
	require.NoError(w.t, err)
	return w.reload()
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

// TestExpireSnapshots keeps what a branch, a tag or the table's own properties need, and removes the files of the rest.
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
		require.Equal(t, map[string]int64{"expired_snapshots": 0, "deleted_files": 0}, r.metrics(week), kept)
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
	require.ElementsMatch(t, []int64{snapshots[0], snapshots[1], snapshots[5]}, left6)
	require.Len(t, files(t, root, "*.parquet"), 3, "two that refs need, and the one of now")
	require.Len(t, files(t, root, "snap-*.avro"), 3)
	w.is(left(0, 40, 0)...)
	r.answers("FROM history AT (VERSION => 'tagged')", left(0, 10)...)
	r.answers("FROM history AT (VERSION => 'side')", left(0, 20)...)
	r.answers(fmt.Sprintf("FROM history AT (VERSION => %d)", snapshots[1]), left(0, 20)...)
	require.NotNil(t, r.fails(fmt.Sprintf("FROM history AT (VERSION => %d)", snapshots[3])))
	require.Equal(t, map[string]int64{"expired_snapshots": 0, "deleted_files": 0}, r.metrics(week))
	w.append(numbered(40, 45)).is(left(0, 45, 0)...)

	merged := r.create("merged", 2, columns("id long", "k string")).append(numbered(0, 5)).append(numbered(5, 10)).delete(iceberg.EqualTo(reference("id"), int64(2)))
	merged.age(10).commit(func(tx *table.Transaction) error {
		did, err := tx.RewriteManifests(t.Context())
		require.False(t, did.IsNoOp())
		return err
	})
	require.EqualValues(t, 3, r.metrics("ALTER TABLE merged EXECUTE expire_snapshots")["expired_snapshots"])
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

// TestRemoveOrphanFiles removes what is old and nobody's, and nothing else.
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

// TestMaintenanceIsRefused where it is not written as it is, may not be done or reaches for what is not the workspace's.
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
		"optimize WHERE a = 1":                                                            "the whole table is maintained",
		"optimize(file_size_threshold => '1MB') WHERE a = 1":                              "come its parameters",
		"expire_snapshots(retention_threshold => '23h')":                                  "shorter than the least, which is 1d",
		"expire_snapshots(retention_threshold => '0.00s')":                                "shorter than the least, which is 1d",
		"expire_snapshots(retention_threshold => '99999999d')":                            "is a time such as '7d'",
		"expire_snapshots(retention_threshold => '1w')":                                   "is a time such as '7d'",
		"expire_snapshots(retain_last => 0)":                                              "retain_last is a number of snapshots, 1 or more",
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
			RoutingReason: "The write engine of this warehouse is DuckDB, beside which iceberg-go maintains tables.",
		}, head)
	}
	stale := r.statement("ALTER TABLE t EXECUTE optimize")
	stale.Catalog.Token = "nobody's"
	_, end := r.do(stale)
	require.Equal(t, agent.FaultForbidden, end.Error.Fault, end.Error.Message)
}

// TestMaintenanceOfForeignFiles reads and removes none, where a manifest names them.
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

// maintainer is the process of this engine that maintains a table; it waits for one.
func maintainer(t *testing.T) int {
	t.Helper()
	for {
		dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, path := range dirs {
			line, _ := os.ReadFile(path)
			if !bytes.HasSuffix(line, []byte(engine.MaintainCommand+"\x00")) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
			if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.Fields(rest)[1] == strconv.Itoa(os.Getpid()) {
				return pid
			}
		}
		require.NoError(t, t.Context().Err())
	}
}

// TestMaintenanceThatIsEnded, by whom it may be and whenever, leaves the table as it was before or as it is after.
func TestMaintenanceThatIsEnded(t *testing.T) {
	var b trouble
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: b.between})
	r.changes("CREATE TABLE ended (id BIGINT, s VARCHAR)")
	for i := range 4 {
		r.changes(fmt.Sprintf("INSERT INTO ended SELECT i, 'row ' || i FROM range(%d, %d) t(i)", i*300_000, (i+1)*300_000))
	}
	const sum = "SELECT count(*), sum(id), count(DISTINCT s) FROM ended"
	want := r.ok(sum)
	const query = "ALTER TABLE ended EXECUTE optimize"
	cancelled := r.statement(query)
	started := time.Now()
	go func() {
		r.awaitRunning(cancelled.ID)
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, r.engine.URL+fmt.Sprintf(agent.StatementPath, cancelled.ID), nil)
		if err == nil {
			started = time.Now()
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
	}()
	_, end := r.do(cancelled)
	require.NotNil(t, end.Error)
	require.Equal(t, agent.FaultCancelled, end.Error.Fault, end.Error.Message)
	require.Less(t, time.Since(started), 2*time.Second)
	require.Equal(t, want, r.ok(sum))

	killed := r.statement(query)
	go func() {
		r.awaitRunning(killed.ID)
		_ = syscall.Kill(maintainer(t), syscall.SIGKILL)
	}()
	_, end = r.do(killed)
	require.NotNil(t, end.Error)
	require.Equal(t, want, r.ok(sum))

	b.spoil(func(_ http.ResponseWriter, _ *http.Request, change func() int) {
		change()
		_ = syscall.Kill(maintainer(t), syscall.SIGKILL)
		b.spoil(nil)
	})
	_, end = r.do(r.statement(query))
	require.NotNil(t, end.Error)
	require.True(t, end.Error.Unsure, end.Error.Message)
	require.Equal(t, want, r.ok(sum), "it was committed")
	require.Zero(t, r.metrics(query)["rewritten_data_files"])

	timed := r.statement("ALTER TABLE ended EXECUTE remove_orphan_files")
	timed.Timeout = agent.Duration(time.Nanosecond)
	_, end = r.do(timed)
	require.Equal(t, agent.FaultTimeout, end.Error.Fault)
}

// TestMaintenanceOnS3 does all of it in a bucket.
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

// TestOptimizedEmptyTexts are found by their statistics, also where all of a file or of a batch are empty.
func TestOptimizedEmptyTexts(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("texts", 2, columns("id long", "k string")).append(`[{"id": 1, "k": "ab"}, {"id": 2, "k": "b"}]`).append(`[{"id": 3, "k": ""}, {"id": 4, "k": ""}, {"id": 5, "k": "c"}]`).deleteEqual("id", `[{"id": 5}]`)
	optimize(w)
	r.answers("SELECT id FROM texts WHERE k < 'a'", "3", "4")
	r.answers("SELECT id FROM texts WHERE k = ''", "3", "4")
}

// TestFormerPartitioning holds that the embedded writer changes no rows beside files of a former partitioning: nobody would find its deletes.
func TestFormerPartitioning(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("moved", 2, columns("id long", "k string"), partition(1, "part", iceberg.BucketTransform{NumBuckets: 2})).append(numbered(0, 9))
	w.respec(func(u *table.UpdateSpec) { u.RemoveField("part") })
	for _, query := range []string{"DELETE FROM moved WHERE id = 1", "UPDATE moved SET k = 'x' WHERE id = 1", "MERGE INTO moved t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"} {
		require.Contains(t, r.fails(query).Message, "has files of a former partitioning")
	}
	r.changes("INSERT INTO moved VALUES (100, 'new')")
	w.is(append(left(0, 9), "100|new")...)
	w = r.create("settled", 2, columns("id long", "k string"))
	w.respec(func(u *table.UpdateSpec) { u.AddField("id", iceberg.BucketTransform{NumBuckets: 2}, "part") })
	w.append(numbered(0, 9))
	require.EqualValues(t, 1, r.changes("DELETE FROM settled WHERE id = 1"))
	w.is(left(0, 9, 1)...)
}
