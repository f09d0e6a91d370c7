package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// overtaken runs other commits between a statement and the catalog.
type overtaken struct {
	mu sync.Mutex
	// overtake runs before the n-th commit of statements, from 0; nil for none.
	overtake  func(n int)
	snapshots []string // added by the commits of statements
}

func (o *overtaken) between(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.Header.Get("Idempotency-Key") != "" && strings.HasSuffix(r.URL.Path, "/commit") {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var commit struct {
				Changes []struct {
					Updates []struct {
						Snapshot struct {
							ID json.Number `json:"snapshot-id"`
						} `json:"snapshot"`
					} `json:"updates"`
				} `json:"table-changes"`
			}
			if json.Unmarshal(body, &commit) == nil && len(commit.Changes) > 0 && len(commit.Changes[0].Updates) > 0 {
				o.mu.Lock()
				n, do := len(o.snapshots), o.overtake
				o.snapshots = append(o.snapshots, commit.Changes[0].Updates[0].Snapshot.ID.String())
				o.mu.Unlock()
				if do != nil {
					do(n)
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// whileOvertaken runs a statement while others commit, and returns the snapshots that it tried to
// commit.
func (o *overtaken) whileOvertaken(do func(n int), run func()) []string {
	o.mu.Lock()
	o.overtake, o.snapshots = do, nil
	o.mu.Unlock()
	run()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.overtake = nil
	return o.snapshots
}

// Appends, and only appends, are rebased on the commits that won, whoever made them.
func TestAppendsAreRebased(t *testing.T) {
	var o overtaken
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: o.between}).withOthers()
	for _, version := range []int{2, 3} {
		name := fmt.Sprint("v", version)
		w := r.create(name, version, columns("id long", "s string")).append(`[{"id": 1, "s": "a"}, {"id": 2, "s": "b"}]`)
		count := func(rows int) {
			t.Helper()
			require.Equal(t, []string{fmt.Sprint(rows)}, r.ok("SELECT count(*) FROM "+name))
			loaded, err := r.others.LoadTable(t.Context(), table.Identifier{"public", name})
			require.NoError(t, err)
			planned, err := loaded.Scan().PlanFiles(t.Context())
			require.NoError(t, err)
			files := map[string]bool{}
			for _, f := range planned {
				require.False(t, files[f.File.FilePath()], "each file is there once, for others too")
				files[f.File.FilePath()] = true
			}
			w.Table = loaded
		}
		total := func(want int) {
			t.Helper()
			require.Equal(t, fmt.Sprint(want), w.CurrentSnapshot().Summary.Properties["total-records"])
		}
		insert := func(do func(n int), query string) []string {
			return o.whileOvertaken(do, func() { require.EqualValues(t, 2, r.changes("INSERT INTO "+name+" "+query)) })
		}
		tried := insert(func(n int) {
			if n < 2 {
				w.append(`[{"id": 3, "s": "c"}]`)
			}
		}, "VALUES (10, 'x'), (11, 'y')")
		require.Len(t, tried, 3, "two lost races")
		require.Equal(t, tried[0], tried[1], "the same commit")
		require.Equal(t, tried[0], tried[2])
		count(6)
		total(6)

		tried = insert(func(n int) {
			if n == 0 {
				w.delete(iceberg.EqualTo(iceberg.Reference("id"), int64(3)))
			}
		}, "SELECT range, 'z' FROM range(2)")
		require.Len(t, tried, 2)
		require.Equal(t, tried[0], tried[1])
		count(6)

		tried = insert(func(n int) {
			if n == 0 {
				require.EqualValues(t, 1, r.changes("DELETE FROM "+name+" WHERE id = 1 AND s = 'a'"))
			}
		}, "SELECT range, 'z' FROM range(2)")
		require.GreaterOrEqual(t, len(tried), 3)
		require.Equal(t, tried[0], tried[len(tried)-1])
		count(7)

		tried = insert(func(n int) {
			if n == 0 {
				w.append(`[{"id": 4, "s": "d"}]`)
			}
		}, "SELECT id, s FROM "+strings.ToUpper(name)+" ORDER BY id, s LIMIT 2")
		require.Len(t, tried, 2)
		require.NotEqual(t, tried[0], tried[1], "what has read the table runs again")
		count(10)

		tried = insert(func(n int) {
			if n == 0 {
				w.commit(func(tx *table.Transaction) error {
					return tx.UpdateSchema(true, false).AddColumn([]string{"n"}, iceberg.PrimitiveTypes.Int64, "", false, nil).Commit()
				}).append(`[{"id": 5, "s": "e", "n": 1}]`)
			}
		}, "(id, s) VALUES (20, 'x'), (21, 'y')")
		require.Len(t, tried, 2)
		require.NotEqual(t, tried[0], tried[1], "what was made for another schema runs again")
		count(13)

		if version == 3 {
			var first int64
			manifests, err := w.CurrentSnapshot().Manifests(must(w.FS(t.Context())))
			require.NoError(t, err)
			named := map[int64]int64{}
			for _, m := range manifests {
				rows := m.AddedRows() + m.ExistingRows()
				if m.ManifestContent() != iceberg.ManifestContentData || rows == 0 {
					continue
				}
				require.NotNil(t, m.FirstRowID())
				for row := *m.FirstRowID(); row < *m.FirstRowID()+rows; row++ {
					require.NotContains(t, named, row, "the row id is given twice, by %s", m)
					named[row] = m.SnapshotID()
				}
				first = max(first, *m.FirstRowID()+rows)
			}
			require.LessOrEqual(t, first, w.Metadata().NextRowID())
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An append ends after a bounded number of attempts beside others that never pause.
func TestAnAppendEndsBesideSteadyAppends(t *testing.T) {
	var o overtaken
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: o.between}).withOthers()
	r.create("t", 2, columns("id long"))
	others, err := rest.NewCatalog(t.Context(), "steady", r.catalog.URL, rest.WithOAuthToken(r.another), rest.WithWarehouseLocation("lake"))
	require.NoError(t, err)
	defer others.Close()
	appended := make(chan struct{}, 1000)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				loaded, err := others.LoadTable(t.Context(), table.Identifier{"public", "t"})
				if err != nil {
					t.Error(err)
					return
				}
				w := &written{r, "t", loaded}
				rows, err := array.NewRecordReader(w.arrow(), []arrow.RecordBatch{w.batch(w.arrow(), `[{"id": 1}]`)})
				if err != nil {
					t.Error(err)
					return
				}
				tx := loaded.NewTransaction()
				if err := tx.Append(t.Context(), rows, nil); err != nil {
					t.Error(err)
					return
				}
				if _, err := tx.Commit(t.Context()); err == nil { // otherwise the other commit won
					appended <- struct{}{}
				}
			}
		})
	}
	for range 3 {
		<-appended
	}
	// Another commit always wins the race unless the statement gets a chance.
	tried := o.whileOvertaken(func(int) {
		for len(appended) > 0 {
			<-appended
		}
	}, func() { require.EqualValues(t, 1000, r.changes("INSERT INTO t FROM range(1000)")) })
	close(stop)
	wait.Wait()
	require.LessOrEqual(t, len(tried), 6, "three losses lock the table for it")
	require.Equal(t, []string{"1000"}, r.ok("SELECT count(DISTINCT id) FROM t"))
}
