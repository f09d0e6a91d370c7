package bench_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/expiry"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

// The life of the table: it gets a commit twice a minute for a week.
const (
	lifeCommits  = 20_000
	lifeEvery    = 30 * time.Second
	lifeEarly    = 2_000 // the end is compared with this commit
	lifeWindow   = 240   // commits of two hours, the window of the figures: an expiry is due each hour
	lifeSnapshot = 1_000 // maximal number of snapshots that the table keeps
	lifeMost     = 1.2
)

// simulated is a clock that advances with each commit.
type simulated struct{ at atomic.Int64 }

// Now implements domain.Clock.
func (s *simulated) Now() time.Time { return time.UnixMilli(s.at.Load()).UTC() }

// BenchmarkLongLivedTable appends to one table through the catalog, 20,000 times, with scheduled
// expiries. The time and the bytes of a commit at the end are at most 1.2 times those of the
// 2,000th. The reference for the time is a table with 2,000 commits. Its commits alternate with the
// old table's, so that other load affects both.
func BenchmarkLongLivedTable(b *testing.B) {
	for range b.N {
		l := newLakeOfLives(b)
		old, young := l.table("old"), l.table("young")
		wrote := make([]int, lifeCommits)
		for n := range lifeCommits {
			wrote[n] = old.commit()
		}
		for range lifeEarly {
			young.commit()
		}
		var late, early []time.Duration
		for range lifeWindow {
			late, early = append(late, timed(old.commit)), append(early, timed(young.commit))
		}
		middle := func(of []time.Duration) float64 { return float64(slices.Sorted(slices.Values(of))[len(of)/2]) }
		slower := middle(late) / middle(early)
		larger := float64(slices.Max(wrote[lifeCommits-lifeWindow:])) / float64(slices.Max(wrote[lifeEarly-lifeWindow:lifeEarly]))
		b.ReportMetric(middle(late)/1e6, "ms/commit")
		b.ReportMetric(slower, "time-at-end/at-2000")
		b.ReportMetric(float64(wrote[lifeCommits-1]), "B/commit")
		b.ReportMetric(larger, "bytes-at-end/at-2000")
		b.ReportMetric(float64(old.files()), "metadata-files")
		if larger > lifeMost || slower > lifeMost {
			b.Errorf("a commit writes %.2f and takes %.2f times what it did", larger, slower)
		}
	}
}

func timed(commit func() int) time.Duration {
	started := time.Now()
	commit()
	return time.Since(started)
}

// lakeOfLives is a catalog with a simulated clock.
type lakeOfLives struct {
	b       *testing.B
	clock   *simulated
	catalog *lake.Catalog
	scope   domain.Scope
}

// life is a table of a lakeOfLives.
type life struct {
	lakeOfLives
	ref     lake.Ref
	last    lake.Loaded
	commits int
}

func newLakeOfLives(b *testing.B) lakeOfLives {
	l := lakeOfLives{b: b, clock: &simulated{}}
	l.clock.at.Store(time.Now().UnixMilli())
	st, err := store.Open(b.Context(), storetest.Database(b, store.Migrate), store.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, st.Close()) })
	files, err := objects.OpenLake(b.Context(), "file://"+b.TempDir(), objects.LakeOptions{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, files.Close()) })
	l.catalog = lake.New(lake.Options{Store: store.For[lake.Tx](st), Quick: st, System: st.System(), Files: files, Clock: l.clock})
	ws, _, _, err := (&setup.Instance{Store: st.System(), Clock: l.clock}).CreateWorkspace(b.Context(), "acme")
	require.NoError(b, err)
	l.scope = domain.NewScope(ws.ID, domain.Actor{Kind: domain.ActorUser, ID: "usr_1", Name: "ann@example.com"}, domain.RoleAdmin)
	return l
}

func (l lakeOfLives) table(name string) *life {
	schema := json.RawMessage(`{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"}]}`)
	made, err := l.catalog.Create(l.b.Context(), l.scope, "lake", "public", lake.NewTable{Name: name, Schema: schema}, lake.Key{})
	require.NoError(l.b, err)
	return &life{lakeOfLives: l, ref: lake.Ref{Database: "lake", Schema: "public", Name: name}, last: made}
}

// commit appends a snapshot, and returns the bytes that it wrote. Each hour it checks whether the
// table has many snapshots, as maintenance.Maintenances does. The expiry is part of the commit, so
// that the table has only simulated times.
func (l *life) commit() int {
	n := l.commits
	l.commits++
	at := l.clock.at.Add(lifeEvery.Milliseconds())
	id := int64(n + 1)
	snapshot := map[string]any{
		"snapshot-id": id, "sequence-number": id, "timestamp-ms": at, "schema-id": 0, "manifest-list": fmt.Sprintf("%s/metadata/snap-%019d.avro", l.last.Table.Location, id),
		"summary": map[string]string{"operation": "append", "added-data-files": "1", "added-records": "1", "total-records": fmt.Sprint(id), "total-data-files": fmt.Sprint(id)},
	}
	if n > 0 {
		snapshot["parent-snapshot-id"] = id - 1
	}
	updates := []any{
		map[string]any{"action": "add-snapshot", "snapshot": snapshot},
		map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
	}
	if n%int(time.Hour/lifeEvery) == 0 {
		updates = append(updates, l.expiry()...)
	}
	body, err := json.Marshal(updates)
	require.NoError(l.b, err)
	l.last, err = l.catalog.Commit(l.b.Context(), l.scope, lake.Change{Ref: l.ref, Updates: body}, lake.Key{})
	require.NoError(l.b, err)
	return len(l.last.Metadata)
}

func (l *life) expiry() []any {
	meta, err := table.ParseMetadataBytes(l.last.Metadata)
	require.NoError(l.b, err)
	if len(meta.Snapshots())*10 <= lifeSnapshot*11 {
		return nil
	}
	plan := expiry.Decide(meta, expiry.Rule{Age: 7 * 24 * time.Hour, Max: lifeSnapshot}, l.clock.Now())
	return []any{map[string]any{"action": "remove-snapshots", "snapshot-ids": plan.Snapshots}}
}

// files is the number of the table's metadata files.
func (l *life) files() int {
	found, err := filepath.Glob(filepath.Join(strings.TrimPrefix(l.last.Table.Location, "file://"), "metadata", "*.metadata.json"))
	require.NoError(l.b, err)
	return len(found)
}
