package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"
)

// TestTimeTravel reads tables by a snapshot's id and by a time.
func TestTimeTravel(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("travel", 2, columns("id long", "k string"))
	type version struct {
		snapshot int64
		rows     []string
	}
	var versions []version
	note := func(rows ...string) { versions = append(versions, version{w.CurrentSnapshot().SnapshotID, rows}) }
	w.append(numbered(0, 3))
	note(left(0, 3)...)
	w.delete(iceberg.EqualTo(reference("id"), int64(1)))
	note(left(0, 3, 1)...)
	w.evolve(func(u *table.UpdateSchema) {
		u.AddColumn([]string{"n"}, iceberg.PrimitiveTypes.Int64, "", false, nil).RenameColumn([]string{"k"}, "kk")
	})
	w.append(`[{"id": 7, "kk": "new", "n": 70}]`)
	note("0|k0|(null)", "2|k2|(null)", "7|new|70")
	w.delete(iceberg.AlwaysTrue{})
	note()
	for _, v := range versions {
		r.answers(fmt.Sprintf("FROM travel AT (VERSION => %d)", v.snapshot), v.rows...)
		r.answers(fmt.Sprintf("SELECT count(*) FROM travel AT (VERSION => %d)", v.snapshot), fmt.Sprint(len(v.rows)))
		at := time.UnixMilli(w.SnapshotByID(v.snapshot).TimestampMs).UTC()
		r.answers(fmt.Sprintf("FROM travel AT (TIMESTAMP => TIMESTAMP '%s')", at.Format("2006-01-02 15:04:05.000")), v.rows...)
	}
	w.is()
	r.answers(fmt.Sprintf("SELECT a.id, b.id FROM travel AS a AT (VERSION => %d) FULL JOIN travel b AT (VERSION => %d) USING (id)", versions[0].snapshot, versions[2].snapshot), "0|0", "1|(null)", "2|2", "(null)|7")
	first := time.UnixMilli(w.SnapshotByID(versions[0].snapshot).TimestampMs - 1).UTC()
	require.Contains(t, r.fails(fmt.Sprintf("FROM travel AT (TIMESTAMP => TIMESTAMP '%s')", first.Format("2006-01-02 15:04:05.000"))).Message, "no version of that time")
	r.answers(fmt.Sprintf("SELECT x.a FROM travel AS x(a, b) AT (VERSION => %d)", versions[0].snapshot), "0", "1", "2")
	require.NotNil(t, r.fails("FROM travel AT (VERSION => 12345)"))
}

// TestBranchesAndTags reads branches and tags by AT, as far as DuckDB supports it.
func TestBranchesAndTags(t *testing.T) {
	r := newLakeRig(t)
	w := r.create("refs", 2, columns("id long", "k string")).append(numbered(0, 3))
	tagged := w.CurrentSnapshot().SnapshotID
	_, _, err := r.others.CommitTable(t.Context(), table.Identifier{"public", "refs"}, nil, []table.Update{table.NewSetSnapshotRefUpdate("first", tagged, table.TagRef, 0, 0, 0), table.NewSetSnapshotRefUpdate("side", tagged, table.BranchRef, 0, 0, 0)})
	require.NoError(t, err)
	w.reload().append(numbered(3, 5)).is(left(0, 5)...)
	for _, name := range []string{"first", "side"} {
		r.answers("FROM refs AT (VERSION => '"+name+"')", left(0, 3)...)
		r.answers("SELECT r.id FROM public.refs AS r AT (VERSION => '"+name+"') JOIN refs USING (id) WHERE r.k = 'k1'", "1")
	}
	r.answers("FROM refs AT (VERSION => 'main')", left(0, 5)...)
	require.Contains(t, r.fails("FROM refs AT (VERSION => 'ma' || 'in')").Message, "AT takes one value")
	require.Contains(t, r.fails("FROM refs AT (VERSION => 'none')").Message, `no branch or tag "none"`)
	w.evolve(func(u *table.UpdateSchema) { u.RenameColumn([]string{"k"}, "kk") })
	r.answers("SELECT id, k FROM refs AT (VERSION => 'first')", left(0, 3)...)
	require.Contains(t, r.fails("FROM refs AT (VERSION => 'side')").Message, "before the schema")
}
