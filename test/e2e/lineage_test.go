package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// lineageRow is an entry of a statement's lineage.
type lineageRow struct {
	FullName   string
	SnapshotID string
	Columns    []string
}

// lineageOf returns a statement's lineage from GraphQL.
func lineageOf(p *harness.Platform, id string) (read, written []lineageRow) {
	p.T.Helper()
	var found struct {
		Statement struct {
			Lineage struct{ Read, Written []lineageRow }
		}
	}
	query := fmt.Sprintf(`query { statement(id: %q) { lineage { read { fullName snapshotId columns } written { fullName snapshotId columns } } } }`, id)
	require.Nil(p.T, graphDriver{p}.call(query, nil, &found))
	return found.Statement.Lineage.Read, found.Statement.Lineage.Written
}

// lineageText formats entries as name(columns).
func lineageText(all []lineageRow) (texts []string) {
	for _, e := range all {
		texts = append(texts, strings.TrimPrefix(e.FullName, "lake.")+"("+strings.Join(e.Columns, ",")+")")
	}
	return texts
}

// lineageIn: a statement's lineage lists exactly what it read and wrote. REST and GraphQL agree.
func lineageIn(p *harness.Platform, warehouse, engine string) {
	t := p.T
	t.Helper()
	run := func(query string) harness.Result {
		t.Helper()
		return p.OK(query, "warehouse_id", warehouse, "engine", engine, "schema", engine)
	}
	p.OK("CREATE SCHEMA "+engine, "warehouse_id", warehouse)
	none := []string(nil)
	type list = []string
	travel := map[string]string{"duckdb": "AT (VERSION => %s)", "trino": "FOR VERSION AS OF %s"}[engine]
	for _, c := range []struct {
		query         string
		read, written list
	}{
		{"CREATE TABLE t (id BIGINT, name VARCHAR, amount BIGINT)", none, list{"t()"}},
		{"INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20)", none, list{"t()"}},
		{"CREATE TABLE made AS SELECT id, name FROM t", list{"t(id,name)"}, list{"made()"}},
		{"SELECT id FROM made WHERE name > 'A'", list{"made(id,name)"}, none},
		{"INSERT INTO made SELECT id, name FROM t", list{"t(id,name)"}, list{"made()"}},
		{"INSERT INTO made SELECT id, name FROM made", list{"made(id,name)"}, list{"made()"}},
		{"INSERT INTO made SELECT id, name FROM t WHERE id % 2 = 3", list{"t(id,name)"}, list{"made()"}},
		{"UPDATE t SET name = 'z' WHERE id = 1", list{"t"}, list{"t()"}},
		{"UPDATE t SET name = 'z' WHERE id = 100", none, list{"t()"}},
		{"DELETE FROM t WHERE id = 2", list{"t"}, list{"t()"}},
		{"DELETE FROM t WHERE id = 100", none, list{"t()"}},
		{"MERGE INTO made USING (SELECT id, name FROM t) s ON made.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name", list{"made", "t"}, list{"made()"}},
		{"ALTER TABLE t ADD COLUMN note VARCHAR", none, list{"t()"}},
		{"ALTER TABLE t RENAME COLUMN note TO remark", none, list{"t()"}},
		{"ALTER TABLE made RENAME TO renamed", none, list{"made()"}},
		{"DROP TABLE renamed", none, list{"renamed()"}},
		{"DROP TABLE IF EXISTS nowhere", none, none},
		{"CREATE TABLE target (id BIGINT, name VARCHAR)", none, list{"target()"}},
	} {
		hasLineage(p, run(c.query), engine, c.query, c.read, c.written)
	}
	if engine == "duckdb" { // views have its dialect
		for _, c := range []struct {
			query         string
			read, written list
		}{
			{"CREATE VIEW v AS SELECT id, name FROM t", list{"t()"}, list{"v()"}},
			{"INSERT INTO target SELECT id, name FROM v", list{"v()", "t(id,name)"}, list{"target()"}},
			{"CREATE VIEW w AS SELECT id, name FROM target", list{"target()"}, list{"w()"}},
			{"INSERT INTO target SELECT id, name FROM w", list{"w()", "target(id,name)"}, list{"target()"}},
			{"ALTER VIEW v RENAME TO u", none, list{"v()"}},
			{"DROP VIEW u", none, list{"u()"}},
		} {
			hasLineage(p, run(c.query), engine, c.query, c.read, c.written)
		}
	}

	snapshots := func(r harness.Result) (read []string) {
		all, _ := lineageOf(p, r.StatementID)
		for _, e := range all {
			read = append(read, e.SnapshotID)
		}
		return read
	}
	_, first := lineageOf(p, run("INSERT INTO target VALUES (1, 'x')").StatementID)
	_, second := lineageOf(p, run("INSERT INTO target VALUES (2, 'y')").StatementID)
	then, now := first[0].SnapshotID, second[0].SnapshotID
	require.NotEmpty(t, then)
	asOf := fmt.Sprintf(travel, then)
	require.Equal(t, []string{now}, snapshots(run("SELECT id FROM target")))
	require.Equal(t, []string{then}, snapshots(run("SELECT id FROM target "+asOf)))
	if engine == "duckdb" {
		require.Equal(t, []string{now}, snapshots(run("SELECT id FROM target AT (TIMESTAMP => now())")))
	}
	require.ElementsMatch(t, []string{then, now}, snapshots(run("SELECT id FROM target "+asOf+" UNION ALL SELECT id FROM target")))
	copied := run("CREATE TABLE copied AS SELECT id FROM target " + asOf)
	require.Equal(t, []string{then}, snapshots(copied))

	// Writers that lost races read only the snapshot on which they committed.
	var writers sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		writers.Go(func() {
			r, err := p.TrySQL(t.Context(), "UPDATE target SET name = name || '+'", "warehouse_id", warehouse, "engine", engine, "schema", engine)
			if err == nil && r.Status == http.StatusOK {
				ids[i] = r.StatementID
			}
		})
	}
	writers.Wait()
	seen := map[string]bool{}
	for _, id := range ids {
		require.NotEmpty(t, id)
		read, written := lineageOf(p, id)
		require.Len(t, read, 1, "%v", read)
		require.Len(t, written, 1, "%v", written)
		require.False(t, seen[read[0].SnapshotID], "two updates of all rows read one snapshot")
		seen[read[0].SnapshotID] = true
	}
}

// hasLineage compares a statement's lineage by columns. It compares names only if the wanted
// entries have no parentheses.
func hasLineage(p *harness.Platform, r harness.Result, schema, query string, read, written []string) {
	p.T.Helper()
	qualified := func(all []string) (names, full []string) {
		for _, name := range all {
			full = append(full, schema+"."+name)
			bare, _, _ := strings.Cut(name, "(")
			names = append(names, "lake."+schema+"."+bare)
		}
		return names, full
	}
	readNames, readFull := qualified(read)
	writtenNames, writtenFull := qualified(written)
	require.ElementsMatch(p.T, readNames, r.Lineage.Read, query)
	require.ElementsMatch(p.T, writtenNames, r.Lineage.Written, query)
	gotRead, gotWritten := lineageOf(p, r.StatementID)
	require.ElementsMatch(p.T, writtenFull, lineageText(gotWritten), query)
	require.Len(p.T, gotRead, len(read), query)
	if len(read) > 0 && strings.Contains(read[0], "(") {
		require.ElementsMatch(p.T, readFull, lineageText(gotRead), query)
		return
	}
	for _, e := range gotRead {
		require.NotEmpty(p.T, e.Columns, "%s: %s", query, e.FullName)
	}
}
