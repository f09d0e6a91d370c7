package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// mixedPast is the model of a table's snapshots: the row ids of each.
type mixedPast struct {
	snapshots map[int64][]string
	tags      map[string]int64
	fresh     map[int64]bool // replaced less than a week ago, or current
}

func newMixedPast() mixedPast {
	return mixedPast{snapshots: map[int64][]string{}, tags: map[string]int64{}, fresh: map[int64]bool{}}
}

func (m *mixed) load() *table.Table {
	m.t.Helper()
	loaded, err := m.others.others.LoadTable(m.t.Context(), table.Identifier{"public", m.table})
	require.NoError(m.t, err)
	return loaded
}

// note records the rows of the current snapshot.
func (m *mixed) note() {
	m.t.Helper()
	if current := m.load().CurrentSnapshot(); current != nil {
		m.past.snapshots[current.SnapshotID], m.past.fresh[current.SnapshotID] = m.ids(), true
	}
}

// ids returns the ids of the rows as text, in text order.
func (m *mixed) ids() []string {
	ids := []string{}
	for id := range m.rows {
		ids = append(ids, fmt.Sprint(id))
	}
	slices.Sort(ids)
	return ids
}

// travel reads a past snapshot and a tagged one in both engines.
func (m *mixed) travel() {
	m.t.Helper()
	if all := slices.Sorted(maps.Keys(m.past.snapshots)); len(all) > 0 {
		id := all[m.random.IntN(len(all))]
		m.readPast(fmt.Sprint(id), m.past.snapshots[id])
	}
	if all := slices.Sorted(maps.Keys(m.past.tags)); len(all) > 0 {
		tag := all[m.random.IntN(len(all))]
		m.readPast("'"+tag+"'", m.past.snapshots[m.past.tags[tag]])
	}
}

func (m *mixed) readPast(version string, want []string) {
	m.t.Helper()
	for reader, query := range map[string]string{
		duckDB:           "SELECT id FROM " + m.table + " AT (VERSION => " + version + ")",
		engine.TrinoName: "SELECT id FROM " + m.table + " FOR VERSION AS OF " + version,
	} {
		s := m.statement(query)
		s.Engine = reader
		rows, end := m.do(s)
		require.Nil(m.t, end.Error, "%s: %s: %+v", reader, query, end.Error)
		slices.Sort(rows)
		require.ElementsMatch(m.t, want, rows, "%s reads %s", reader, query)
	}
}

// tag tags a past snapshot, or drops a tag.
func (m *mixed) tag() {
	tags, snapshots := slices.Sorted(maps.Keys(m.past.tags)), slices.Sorted(maps.Keys(m.past.snapshots))
	switch {
	case len(tags) > 0 && m.random.IntN(3) == 0:
		name := tags[m.random.IntN(len(tags))]
		delete(m.past.tags, name)
		m.order("untag", map[string]any{"name": name})
	case len(snapshots) > 0:
		m.named++
		name, id := fmt.Sprint("t", m.named), snapshots[m.random.IntN(len(snapshots))]
		m.past.tags[name] = id
		m.order("tag", map[string]any{"name": name, "snapshot": id})
	}
}

// expire lets time pass and expires snapshots. Tagged snapshots, and those replaced less than a
// week ago, must stay.
func (m *mixed) expire() {
	if m.random.IntN(2) == 0 {
		m.pass()
	}
	m.sql(m.writer(), "ALTER TABLE "+m.table+" EXECUTE expire_snapshots(retention_threshold => '7d')")
	kept := map[int64]bool{}
	loaded := m.load()
	for _, s := range loaded.Metadata().Snapshots() {
		kept[s.SnapshotID] = true
	}
	for id := range m.past.snapshots {
		if kept[id] {
			continue
		}
		require.False(m.t, m.past.fresh[id], "the snapshot %d was replaced less than a week ago", id)
		require.NotContains(m.t, slices.Collect(maps.Values(m.past.tags)), id)
		delete(m.past.snapshots, id)
	}
}

// pass lets ten days pass, so that files can be erased and purged. After that, only the current
// snapshot counts as fresh.
func (m *mixed) pass() {
	m.log = append(m.log, "ten days pass")
	(&written{lakeRig: m.others, name: m.table}).age(10)
	clear(m.past.fresh)
	if current := m.load().CurrentSnapshot(); current != nil {
		m.past.fresh[current.SnapshotID] = true
	}
	then := m.lakeAt(10 * 24 * time.Hour)
	require.NoError(m.t, then.Erase(m.t.Context()))
	require.NoError(m.t, then.Purge(m.t.Context()))
}

func (m *mixed) removeOrphans() {
	m.sql(m.writer(), "ALTER TABLE "+m.table+" EXECUTE remove_orphan_files(retention_threshold => '1d')")
}

// drop drops the table, and either restores it or creates another of its name.
func (m *mixed) drop() {
	m.sql(m.writer(), "DROP TABLE "+m.table)
	if m.random.IntN(2) == 0 {
		m.log = append(m.log, "undrop")
		m.undrop()
		return
	}
	m.create()
	m.insert()
}

// undrop restores the table.
func (m *mixed) undrop() {
	m.t.Helper()
	scope, err := m.auth.Bearer(m.t.Context(), m.catalog.WriteToken)
	require.NoError(m.t, err)
	c := m.lakeAt(0)
	dropped, err := c.Tables(m.t.Context(), scope, lake.TableFilter{Dropped: true}, domain.Page{Limit: 200})
	require.NoError(m.t, err)
	var last lake.Table
	for _, row := range dropped.Items {
		if row.Name == m.table && (last.DroppedAt == nil || row.DroppedAt.After(*last.DroppedAt)) {
			last = row
		}
	}
	_, err = c.Undrop(m.t.Context(), scope, last.ID)
	require.NoError(m.t, err)
}
