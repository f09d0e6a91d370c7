package enginetest

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine"
)

// metrics runs a maintenance statement and returns its metrics.
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

// optimize compacts a table. It checks that no delete files remain, and that there are as few files
// as possible.
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

// Optimized tables have the same rows as before, for all kinds of deletes and changes of schema and
// partitions.
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

// TestRandomOptimizedTables changes random tables at random, optimizes them in between, and
// compares their rows with models in memory.
func TestRandomOptimizedTables(t *testing.T) {
	base, first := newLakeRig(t), firstSeed()+100_000
	for i := range *optimizedCases {
		seed := first + uint64(i)
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

// TestOptimize compacts small files in one replacing snapshot. Earlier snapshots are read as
// before.
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

// TestOptimizeKeepsRowIDs: rows of format version 3 have permanent ids.
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

// The table's own split size does not split files.
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

// TestOptimizedIsReadByPyIceberg compares PyIceberg's rows with the engine's.
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
print(table.scan(row_filter="id > 80 and k = 'k1'").to_arrow().num_rows, file=sys.stderr)`, r.catalog.URL, r.catalog.WriteToken)
	cmd.Env = append(os.Environ(), "PYTHONWARNINGS=ignore", "PYICEBERG_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, said.String())
	require.ElementsMatch(t, want, strings.Fields(string(out)))
	require.Equal(t, "3\n", said.String())
}

// Large files, and single files without deletes, are not rewritten.
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

// files returns the paths of a table's data files.
func (w *written) files() (paths []string) {
	tasks, err := w.Scan().PlanFiles(w.t.Context())
	require.NoError(w.t, err)
	for _, task := range tasks {
		paths = append(paths, task.File.FilePath())
	}
	return paths
}

// Concurrent writers lose nothing. Each has its own rows and a model of them.
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

// Lost answers lead to exactly one commit. The job gives up if others always win the race.
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

// Empty strings are found by their statistics, even if a whole file or batch has only empty
// strings.
func TestOptimizedEmptyTexts(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("texts", 2, columns("id long", "k string")).append(`[{"id": 1, "k": "ab"}, {"id": 2, "k": "b"}]`).append(`[{"id": 3, "k": ""}, {"id": 4, "k": ""}, {"id": 5, "k": "c"}]`).deleteEqual("id", `[{"id": 5}]`)
	optimize(w)
	r.answers("SELECT id FROM texts WHERE k < 'a'", "3", "4")
	r.answers("SELECT id FROM texts WHERE k = ''", "3", "4")
}

// The embedded writer refuses to change rows next to files of a former partition spec, because no
// engine would find its deletes.
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
