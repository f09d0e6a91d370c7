package statement

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

// TestSettlement checks that the lineage of an ended statement lists what its engine did, not all
// tables that it loaded.
func TestSettlement(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// entries parses name@snapshot, in order of time, with columns in parentheses.
	entries := func(d lake.LineageDirection, all []string) (found []lake.LineageEntry) {
		for i, text := range all {
			text, columns, known := strings.Cut(strings.TrimSuffix(text, ")"), "(")
			name, snapshot, _ := strings.Cut(text, "@")
			n, err := strconv.ParseInt(snapshot, 10, 64)
			require.NoError(t, err)
			e := lake.LineageEntry{At: at.Add(time.Duration(i) * time.Second), Direction: d, TableID: domain.TableID("tbl_" + name), Database: "lake", Schema: "public", Name: name, SnapshotID: n}
			if known {
				e.Columns = strings.Split(columns, ",")
			}
			found = append(found, e)
		}
		return found
	}
	texts := func(all []lake.LineageEntry) (found []string) {
		for _, e := range all {
			text := fmt.Sprintf("%s@%d", e.Name, e.SnapshotID)
			if e.Columns != nil {
				text += "(" + strings.Join(e.Columns, ",") + ")"
			}
			found = append(found, text)
		}
		return found
	}
	// tables parses name, or name@snapshot if the engine reports it. A > precedes what is written.
	tables := func(all []string) (found []Table) {
		for _, text := range all {
			text, columns, known := strings.Cut(strings.TrimSuffix(text, ")"), "(")
			name, target := strings.CutPrefix(text, ">")
			name, snapshot, as := strings.Cut(name, "@")
			s := Table{Database: "Lake", Schema: "public", Table: strings.ToUpper(name), Target: target}
			if n, err := strconv.ParseInt(snapshot, 10, 64); as {
				require.NoError(t, err)
				s.Snapshot = &n
			}
			if known {
				s.Columns = strings.Split(columns, ",")
			}
			found = append(found, s)
		}
		return found
	}
	type list = []string
	failed := &Failure{Fault: FaultConflict}
	for name, c := range map[string]struct {
		kind                  string
		tables, read, written list
		wantRead, wantWritten list
		rows                  int64
		resolution            lineage.Resolution
		failure               *Failure
		state                 State
	}{
		"no table":             {kind: "SELECT", resolution: lineage.None},
		"a read":               {kind: "SELECT", tables: list{"s(b,a)", "s(c)"}, read: list{"s@1"}, wantRead: list{"s@1(a,b,c)"}},
		"not seen":             {kind: "SELECT", tables: list{"s", "u"}, read: list{"s@1"}, wantRead: list{"s@1"}, resolution: lineage.Unresolved},
		"seen and not named":   {kind: "SELECT", read: list{"s@1"}, written: list{"t@2"}, wantRead: list{"s@1"}, wantWritten: list{"t@2"}},
		"insert":               {kind: "INSERT", rows: 1, tables: list{">t", "s@1"}, read: list{"t@1", "s@1"}, written: list{"t@2"}, wantRead: list{"s@1"}, wantWritten: list{"t@2"}},
		"insert from a view":   {kind: "INSERT", rows: 1, tables: list{">t", "v", "s@1"}, read: list{"t@1", "v@0", "s@1"}, written: list{"t@2"}, wantRead: list{"v@0", "s@1"}, wantWritten: list{"t@2"}},
		"insert from itself":   {kind: "INSERT", rows: 1, tables: list{">t", "t@1"}, read: list{"t@1"}, written: list{"t@2"}, wantRead: list{"t@1"}, wantWritten: list{"t@2"}},
		"make":                 {kind: "CREATE TABLE", rows: 1, tables: list{">t", "s@1"}, read: list{"s@1"}, written: list{"t@0", "t@2"}, wantRead: list{"s@1"}, wantWritten: list{"t@2"}},
		"make, there already":  {kind: "CREATE TABLE", tables: list{">t"}, read: list{"t@1"}, wantWritten: list{"t@0"}},
		"update":               {kind: "UPDATE", rows: 1, tables: list{">t", "t@1(a)", "s@1"}, read: list{"t@1", "s@1"}, written: list{"t@2"}, wantRead: list{"t@1(a)", "s@1"}, wantWritten: list{"t@2"}},
		"update of no row":     {kind: "UPDATE", tables: list{">t", "t@1(a)", "s@1"}, read: list{"t@1", "s@1"}, wantRead: list{"s@1"}, wantWritten: list{"t@0"}},
		"insert of no row":     {kind: "INSERT", tables: list{">t", "s@1"}, read: list{"t@1", "s@1"}, wantRead: list{"s@1"}, wantWritten: list{"t@0"}},
		"alter":                {kind: "ALTER TABLE", tables: list{">t"}, read: list{"t@1"}, written: list{"t@0"}, wantWritten: list{"t@0"}},
		"drop":                 {kind: "DROP TABLE", tables: list{">t"}, read: list{"t@1"}, written: list{"t@0"}, wantWritten: list{"t@0"}},
		"drop of nothing":      {kind: "DROP TABLE", tables: list{">t"}},
		"travel":               {kind: "SELECT", tables: list{"s@1(a)"}, read: list{"s@5"}, wantRead: list{"s@1(a)"}},
		"travel and now":       {kind: "SELECT", tables: list{"s@1", "s@5"}, read: list{"s@5"}, wantRead: list{"s@1", "s@5"}},
		"races":                {kind: "UPDATE", rows: 1, tables: list{">t", "t@3"}, read: list{"t@1", "t@2", "t@3", "t@4"}, written: list{"t@4"}, wantRead: list{"t@3"}, wantWritten: list{"t@4"}},
		"races, as loaded":     {kind: "INSERT", rows: 1, tables: list{">t", "s"}, read: list{"s@1", "t@1", "s@2", "t@2"}, written: list{"t@3"}, wantRead: list{"s@2"}, wantWritten: list{"t@3"}},
		"a race that was lost": {kind: "INSERT", tables: list{">t", "s@1"}, read: list{"t@1", "s@1", "t@2"}, wantRead: list{"s@1"}, failure: failed, state: Failed},
		"lost after it wrote":  {kind: "INSERT", rows: -1, read: list{"t@1"}, written: list{"t@2"}, wantRead: list{"t@1"}, wantWritten: list{"t@2"}, failure: failed, resolution: lineage.Unresolved},
	} {
		t.Run(name, func(t *testing.T) {
			seen := lake.Lineage{Read: entries(lake.LineageRead, c.read), Written: entries(lake.LineageWritten, c.written)}
			st := Statement{Kind: c.kind, State: cmp.Or(c.state, Succeeded), Rows: c.rows}
			after, resolution := settlement(st, End{Tables: tables(c.tables), Failure: c.failure}, seen, nil)
			if st.State == Succeeded {
				require.Equal(t, cmp.Or(c.resolution, lineage.Resolved), resolution)
			}
			require.ElementsMatch(t, c.wantRead, texts(after.Read))
			require.ElementsMatch(t, c.wantWritten, texts(after.Written))
			for _, e := range after.Written {
				require.Equal(t, lake.LineageWritten, e.Direction)
			}
		})
	}
}

// TestScannedColumns checks that columns belong to the table that owns the file's location,
// whatever its path.
func TestScannedColumns(t *testing.T) {
	scans := []Scan{{"file:///ws/db/tbl_q-x/data/1.parquet", []string{"c"}}, {"file:///ws/other/1.parquet", []string{"q"}}, {"file:///ws/db/tbl_q-x/data/p=1/2.parquet", []string{"b", "c"}}}
	owners := map[string]domain.TableID{"file:///ws/db/tbl_q-x": "tbl_s", "file:///ws/db/tbl_q": "tbl_u"}
	read := lake.Lineage{Read: []lake.LineageEntry{{TableID: "tbl_s", Direction: lake.LineageRead}}}
	after, _ := settlement(Statement{Kind: "SELECT"}, End{Scans: scans}, read, owners)
	require.Equal(t, []string{"b", "c"}, after.Read[0].Columns)
	require.Equal(t, map[domain.TableID][]string{"tbl_s": {"b", "c"}}, changes(read, after).Columns)
}
