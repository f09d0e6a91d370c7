package enginetest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine"
)

var mixedOperations = flag.Int("mixed.operations", mixedTable, "how many operations of several writers are compared")

// mixedTable is the number of operations on one table.
const mixedTable = 25

// trinoMixed changes one table at random with Trino, PyIceberg and the embedded writer. After each
// operation it compares what DuckDB, Trino and PyIceberg read with a model. A failure names its
// seed: -random.seed=… -mixed.operations=25 repeats that table.
func trinoMixed(t *testing.T, r trinoRig) {
	client, first := newPython(t, r.rig), firstSeed()
	for i := range (*mixedOperations + mixedTable - 1) / mixedTable {
		seed := first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inner := *r.rig
			inner.t = t
			newMixed(trinoRig{&inner}, client.of(t), seed).run(min(mixedTable, *mixedOperations-i*mixedTable))
		})
	}
}

// mixedKinds are column types with their names in Trino and DuckDB. Their values are in order, as
// Arrow prints them.
var mixedKinds = map[string]struct {
	sql    string
	values []string
}{
	"long":      {"BIGINT", []string{"-9223372036854775808", "-11", "0", "7", "9223372036854775807"}},
	"string":    {"VARCHAR", []string{"", "a", "ab", "it''s", "zz", "ü☃"}},
	"double":    {"DOUBLE", []string{"-1.5", "0", "0.1", "3e+300"}},
	"decimal":   {"DECIMAL(38,2)", []string{"-999999999999999999999999999999999999.99", "-0.01", "3.07", "12.51"}},
	"date":      {"DATE", []string{"1969-12-31", "1970-01-01", "2024-02-29"}},
	"timestamp": {"TIMESTAMP(6)", []string{"1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T12:00:00.5"}},
	"boolean":   {"BOOLEAN", []string{"false", "true"}},
}

// duckDB is the reading engine and the embedded writer, by its name in statements.
const duckDB = "duckdb"

// null is the index of NULL among a kind's values.
const null = -1

// mixed is a table and its model: rows by id, with values as indexes into their kind's values.
type mixed struct {
	trinoRig
	python  *python
	random  *rand.Rand
	table   string
	columns []randomColumn // after id
	rows    map[int][]int
	next    int // id
	named   int // number of column, partition field and tag names so far
	evolved bool
	past    mixedPast
	others  *lakeRig
	log     []string
}

func newMixed(r trinoRig, client *python, seed uint64) *mixed {
	m := &mixed{
		trinoRig: r, python: client, random: rand.New(rand.NewPCG(seed, 2)), table: fmt.Sprint("mixed", seed), rows: map[int][]int{},
		past: newMixedPast(), others: r.withOthers(),
	}
	m.create()
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Log(strings.Join(m.log, "\n"))
		}
	})
	return m
}

// create creates the table with random columns and no rows.
func (m *mixed) create() {
	m.t.Helper()
	m.rows, m.columns, m.evolved, m.past = map[int][]int{}, nil, false, newMixedPast()
	columns := []string{"id BIGINT"}
	for range 2 + m.random.IntN(3) {
		c := m.fresh()
		columns, m.columns = append(columns, c.name+" "+mixedKinds[c.kind].sql), append(m.columns, c)
	}
	m.sql(m.writer(), "CREATE TABLE "+m.table+" ("+strings.Join(columns, ", ")+")")
}

func (m *mixed) fresh() randomColumn {
	kinds := slices.Sorted(maps.Keys(mixedKinds))
	m.named++
	return randomColumn{fmt.Sprint("c", m.named), kinds[m.random.IntN(len(kinds))]}
}

// writer returns one of the two SQL writers.
func (m *mixed) writer() string {
	return []string{engine.TrinoName, duckDB}[m.random.IntN(2)]
}

// mixedRefusals match what the embedded writer refuses. Each is a row of docs/sql.md that refers to
// Trino, or concerns a condition that never holds.
var mixedRefusals = []string{"has files of a former partitioning", "Attempted to add schema with id", "multi_file_list is NULL"}

// sql runs a statement and returns the number of changed rows.
func (m *mixed) sql(writer, query string) int64 {
	m.t.Helper()
	m.log = append(m.log, writer+": "+query)
	s := m.statement(query)
	s.Engine = writer
	_, end := m.do(s)
	if end.Error != nil && writer == duckDB && slices.ContainsFunc(mixedRefusals, func(r string) bool { return strings.Contains(end.Error.Message, r) }) {
		return m.sql(engine.TrinoName, query)
	}
	require.Nil(m.t, end.Error, "%s: %s: %+v", writer, query, end.Error)
	return end.Rows
}

// order sends a command to PyIceberg.
func (m *mixed) order(do string, more map[string]any) {
	m.t.Helper()
	order := map[string]any{"do": do, "table": "public." + m.table}
	maps.Copy(order, more)
	b, err := json.Marshal(order)
	require.NoError(m.t, err)
	m.log = append(m.log, "pyiceberg: "+string(b))
	m.python.order(b)
}

func (m *mixed) run(operations int) {
	m.insert()
	m.compare()
	for range operations - 1 {
		if len(m.rows) > 200 {
			m.delete()
		} else {
			operations := []func(){
				m.insert, m.insert, m.multiply, m.update, m.update, m.delete, m.delete, m.merge, m.merge, m.overwrite, m.upsert, m.optimize, m.evolve, m.partition,
				m.tag, m.tag, m.expire, m.expire, m.removeOrphans, m.drop,
			}
			operations[m.random.IntN(len(operations))]()
		}
		m.compare()
	}
}

// made returns a row with a new id.
func (m *mixed) made() (id int) {
	id = m.next
	m.next++
	row := make([]int, len(m.columns))
	for i, c := range m.columns {
		row[i] = m.value(c)
	}
	m.rows[id] = row
	return id
}

func (m *mixed) value(of randomColumn) int {
	return m.random.IntN(len(mixedKinds[of.kind].values)+1) - 1
}

// literal returns a value in SQL.
func literalOf(of randomColumn, value int) string {
	if value == null {
		return "CAST(NULL AS " + mixedKinds[of.kind].sql + ")"
	}
	text := mixedKinds[of.kind].values[value]
	if of.kind == "timestamp" {
		text = strings.Replace(text, "T", " ", 1)
	}
	return "CAST('" + text + "' AS " + mixedKinds[of.kind].sql + ")"
}

// text returns a value as Arrow prints it and PyIceberg receives it; nil for NULL.
func textOf(of randomColumn, value int) any {
	if value == null {
		return nil
	}
	return strings.ReplaceAll(mixedKinds[of.kind].values[value], "''", "'")
}

// tuples returns rows in SQL.
func (m *mixed) tuples(ids []int) string {
	var all []string
	for _, id := range ids {
		values := []string{fmt.Sprint(id)}
		for i, c := range m.columns {
			values = append(values, literalOf(c, m.rows[id][i]))
		}
		all = append(all, "("+strings.Join(values, ", ")+")")
	}
	return strings.Join(all, ", ")
}

// texts returns rows for PyIceberg.
func (m *mixed) texts(ids []int) (all [][]any) {
	for _, id := range ids {
		row := []any{fmt.Sprint(id)}
		for i, c := range m.columns {
			row = append(row, textOf(c, m.rows[id][i]))
		}
		all = append(all, row)
	}
	return all
}

func (m *mixed) several() (ids []int) {
	for range 1 + m.random.IntN(6) {
		ids = append(ids, m.made())
	}
	return ids
}

func (m *mixed) insert() {
	ids := m.several()
	if m.random.IntN(3) == 0 {
		m.order("append", map[string]any{"rows": m.texts(ids)})
		return
	}
	require.EqualValues(m.t, len(ids), m.sql(m.writer(), "INSERT INTO "+m.table+" VALUES "+m.tuples(ids)))
}

// multiply inserts rows that it reads from the same table.
func (m *mixed) multiply() {
	p, by, from := m.predicate(), m.next, maps.Clone(m.rows)
	count := int64(0)
	for id, row := range from {
		if p.holds(id, row) == yes {
			m.rows[id+by] = slices.Clone(row)
			m.next = max(m.next, id+by+1)
			count++
		}
	}
	names := ""
	for _, c := range m.columns {
		names += ", " + c.name
	}
	require.Equal(m.t, count, m.sql(m.writer(), fmt.Sprintf("INSERT INTO %s SELECT id + %d%s FROM %s WHERE %s", m.table, by, names, m.table, p.text)))
}

func (m *mixed) update() {
	p, at := m.predicate(), m.random.IntN(len(m.columns))
	from, value := at, m.value(m.columns[at])
	set := literalOf(m.columns[at], value)
	if other := m.random.IntN(len(m.columns)); m.columns[other].kind == m.columns[at].kind && other != at {
		from, set = other, m.columns[other].name
	}
	count := int64(0)
	for id, row := range m.rows {
		if p.holds(id, row) == yes {
			if row[at] = value; from != at {
				row[at] = row[from]
			}
			count++
		}
	}
	require.Equal(m.t, count, m.sql(m.writer(), "UPDATE "+m.table+" SET "+m.columns[at].name+" = "+set+" WHERE "+p.text))
}

// remove removes the rows that match a predicate from the model, and returns their number.
func (m *mixed) remove(p predicate) (count int64) {
	for id, row := range m.rows {
		if p.holds(id, row) == yes {
			delete(m.rows, id)
			count++
		}
	}
	return count
}

func (m *mixed) delete() {
	p := m.predicate()
	count := m.remove(p)
	if p.simple && m.random.IntN(3) == 0 {
		m.order("delete", map[string]any{"filter": p.foreign})
		return
	}
	require.Equal(m.t, count, m.sql(m.writer(), "DELETE FROM "+m.table+" WHERE "+p.text))
}

// merge updates or deletes some rows, and inserts others with a single column set.
func (m *mixed) merge() {
	at := m.random.IntN(len(m.columns))
	column := m.columns[at]
	removes := m.random.IntN(3) == 0
	var source []string
	count := int64(0)
	for range 1 + m.random.IntN(5) {
		id, value := m.random.IntN(m.next+2), m.value(column)
		if slices.ContainsFunc(source, func(s string) bool { return strings.HasPrefix(s, fmt.Sprintf("(%d,", id)) }) {
			continue
		}
		source = append(source, fmt.Sprintf("(%d, %s)", id, literalOf(column, value)))
		count++
		row, there := m.rows[id]
		switch {
		case there && removes:
			delete(m.rows, id)
		case there:
			row[at] = value
		default:
			row = slices.Repeat([]int{null}, len(m.columns))
			row[at] = value
			m.rows[id] = row
			m.next = max(m.next, id+1)
		}
	}
	then := "UPDATE SET " + column.name + " = s.v"
	if removes {
		then = "DELETE"
	}
	require.Equal(m.t, count, m.sql(m.writer(), fmt.Sprintf("MERGE INTO %s t USING (VALUES %s) AS s(id, v) ON t.id = s.id WHEN MATCHED THEN %s WHEN NOT MATCHED THEN INSERT (id, %s) VALUES (s.id, s.v)",
		m.table, strings.Join(source, ", "), then, column.name)))
}

// overwrite replaces rows with PyIceberg.
func (m *mixed) overwrite() {
	p := m.predicate()
	if !p.simple {
		m.insert()
		return
	}
	m.remove(p)
	m.order("overwrite", map[string]any{"filter": p.foreign, "rows": m.texts(m.several())})
}

// upsert changes and adds rows with PyIceberg. PyIceberg can do so only while all files have the
// same columns.
func (m *mixed) upsert() {
	if m.evolved {
		m.insert()
		return
	}
	ids := m.several()
	for id, row := range m.rows {
		if !slices.Contains(ids, id) && m.random.IntN(4) == 0 {
			row[0] = m.value(m.columns[0])
			ids = append(ids, id)
		}
	}
	m.order("upsert", map[string]any{"rows": m.texts(ids)})
}

func (m *mixed) optimize() { m.sql(m.writer(), "ALTER TABLE "+m.table+" EXECUTE optimize") }

func (m *mixed) evolve() {
	foreign := m.random.IntN(3) == 0
	m.evolved = true
	alter := func(do string, order map[string]any, statement string) {
		if foreign {
			m.order(do, order)
			return
		}
		m.sql(m.writer(), "ALTER TABLE "+m.table+" "+statement)
	}
	switch at := m.random.IntN(len(m.columns)); {
	case m.random.IntN(3) == 0:
		c := m.fresh()
		m.columns = append(m.columns, c)
		for id := range m.rows {
			m.rows[id] = append(m.rows[id], null)
		}
		alter("add", map[string]any{"name": c.name, "kind": c.kind}, "ADD COLUMN "+c.name+" "+mixedKinds[c.kind].sql)
	case len(m.columns) > 2:
		c := m.columns[at]
		m.columns = slices.Delete(m.columns, at, at+1)
		for id := range m.rows {
			m.rows[id] = slices.Delete(m.rows[id], at, at+1)
		}
		alter("drop", map[string]any{"name": c.name}, "DROP COLUMN "+c.name)
	default:
		old, name := m.columns[at].name, m.fresh().name
		m.columns[at].name = name
		alter("rename", map[string]any{"name": old, "to": name}, "RENAME COLUMN "+old+" TO "+name)
	}
}

// partition partitions the table by id, or ends that.
func (m *mixed) partition() {
	buckets := []int{0, 2, 3, 5}[m.random.IntN(4)]
	m.named++
	switch by, writer := fmt.Sprintf("bucket(id, %d)", buckets), m.random.IntN(3); {
	case writer == 0:
		m.order("spec", map[string]any{"buckets": buckets, "name": fmt.Sprint("p", m.named)})
	case writer == 1 && buckets > 0:
		m.sql(duckDB, fmt.Sprintf("ALTER TABLE %s SET PARTITIONED BY (bucket(%d, id))", m.table, buckets))
	case buckets > 0:
		m.sql(engine.TrinoName, "ALTER TABLE "+m.table+" SET PROPERTIES partitioning = ARRAY['"+by+"']")
	default:
		m.sql(engine.TrinoName, "ALTER TABLE "+m.table+" SET PROPERTIES partitioning = ARRAY[]")
	}
}

// compare compares the three readers with the model: all rows, and those that match a condition.
func (m *mixed) compare() {
	m.t.Helper()
	m.read(predicate{holds: func(int, []int) truth { return yes }})
	m.read(m.predicate())
	m.note()
	m.travel()
}

func (m *mixed) read(p predicate) {
	m.t.Helper()
	var want []string
	for id, row := range m.rows {
		if p.holds(id, row) != yes {
			continue
		}
		text := fmt.Sprint(id)
		for i, c := range m.columns {
			if v := textOf(c, row[i]); v != nil {
				text += fmt.Sprint("|", v)
			} else {
				text += "|(null)"
			}
		}
		want = append(want, text)
	}
	query := "SELECT * FROM " + m.table
	if p.text != "" {
		query += " WHERE " + p.text
	}
	found := map[string][]string{}
	for _, reader := range []string{duckDB, engine.TrinoName} {
		s := m.statement(query)
		s.Engine = reader
		rows, end := m.do(s)
		require.Nil(m.t, end.Error, "%s: %s: %+v", reader, query, end.Error)
		found[reader] = rows
	}
	if p.text == "" || p.foreign != "" {
		path := filepath.Join(m.t.TempDir(), "read.arrow")
		m.order("read", map[string]any{"filter": p.foreign, "path": path})
		b, err := os.ReadFile(path)
		require.NoError(m.t, err)
		found["pyiceberg"] = m.rig.rows(bytes.NewBuffer(b))
	}
	slices.Sort(want)
	for reader, rows := range found {
		slices.Sort(rows)
		require.Equal(m.t, want, rows, "%s reads %s", reader, query)
	}
}
