package duckdb

import (
	"fmt"
	"slices"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// equality is a snapshot with equality deletes that DuckDB would not apply exactly, or not fast.
// withoutDeleted removes the rows by joins instead.
type equality struct {
	table    agent.StatementTable
	shape    *shape
	snapshot shapeSnapshot
	schema   int    // that the snapshot is read with
	why      string // why the deletes are not exact; "" if they are only slow
	list     *avroFile
	all      []*manifest
	keys     []int          // all columns that deletes compare
	deletes  []*contentFile // equality delete files
	data     []*contentFile
}

// manyKeys is the number of keys from which deletes are always applied by joins. DuckDB's own
// reader compares each row with each key. A million rows and 10,000 keys took it 20 s, and a join
// 0.5 s.
const manyKeys = 200

// equalityOf returns a snapshot's equality deletes that DuckDB would not apply exactly, or nil. It
// reads nothing if the snapshot's summary says that there are no such deletes. Otherwise it reads
// the delete manifests, and the data manifests if a key column may hold NULL.
func (e *execution) equalityOf(t agent.StatementTable, s *shape, snapshot shapeSnapshot, schema int) (*equality, error) {
	if snapshot.Summary["total-equality-deletes"] == "0" || snapshot.Manifests == "" || e.plain[snapshot.Manifests] {
		return nil, nil
	}
	q := &equality{table: t, shape: s, snapshot: snapshot, schema: schema}
	err := e.avroFiles([]string{snapshot.Manifests}, func(_ int, f *avroFile) { q.list, q.all = f, manifestsOf(f) })
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(q.all, func(m *manifest) bool { return m.content == holdsDeletes }) {
		e.remember(snapshot.Manifests)
		return nil, nil
	}
	if err := e.readDeletes(q); err != nil || len(q.deletes) == 0 {
		return nil, err
	}
	columns, why := q.hazard()
	var keys int64
	for _, f := range q.deletes {
		keys += f.rows
	}
	if why == "" && len(columns) == 0 && keys <= manyKeys {
		return nil, nil
	}
	if err := e.readData(q, columns); err != nil || len(q.data) == 0 {
		return nil, err
	}
	for _, f := range q.data {
		if why == "" && f.unsure > 0 {
			why = fmt.Sprintf("in the column %q, which holds NULL", leavesOf(s.fieldsOf(schema))[f.unsure].column.Name)
		}
	}
	if q.why = why; why == "" && keys <= manyKeys {
		return nil, nil
	}
	return q, nil
}

// maxPlain bounds the number of manifest lists that are remembered.
const maxPlain = 10_000

// remember stores that a manifest list has no delete manifests. Such a file never changes.
func (c *child) remember(list string) {
	if c.plain == nil || len(c.plain) == maxPlain {
		c.plain = map[string]bool{}
	}
	c.plain[list] = true
}

func (e *execution) readDeletes(q *equality) error {
	var deletes []*manifest
	var paths []string
	for _, m := range q.all {
		if m.content == holdsDeletes {
			deletes, paths = append(deletes, m), append(paths, m.path)
		}
	}
	return e.avroFiles(paths, func(i int, f *avroFile) {
		m := deletes[i]
		m.file = f
		for _, entry := range f.Records {
			c := m.contentFile(f, entry, nil)
			if c == nil || c.content != deletesByEquality {
				continue
			}
			q.deletes = append(q.deletes, c)
			for _, key := range c.keys {
				if !slices.Contains(q.keys, key) {
					q.keys = append(q.keys, key)
				}
			}
		}
	})
}

func (e *execution) readData(q *equality, columns []int) error {
	var data []*manifest
	var paths []string
	for _, m := range q.all {
		if m.content != holdsDeletes {
			data, paths = append(data, m), append(paths, m.path)
		}
	}
	return e.avroFiles(paths, func(i int, f *avroFile) {
		for _, entry := range f.Records {
			if c := data[i].contentFile(f, entry, columns); c != nil {
				q.data = append(q.data, c)
			}
		}
	})
}

// hazard returns why DuckDB would not apply the deletes exactly, or "" if no reason is known. It
// also returns the key columns that may hold NULL.
func (q *equality) hazard() (columns []int, why string) {
	for _, m := range q.all {
		parts, _ := m.listed["partitions"].([]any)
		for _, p := range parts {
			if of, _ := p.(map[string]any); of["contains_null"] == true {
				return nil, "and partitions of NULL"
			}
		}
	}
	for _, spec := range q.shape.Specs {
		for _, p := range spec.Fields {
			if p.Transform == "void" || slices.ContainsFunc(q.deletes, func(c *contentFile) bool { return !slices.Contains(c.keys, p.Source) }) {
				return nil, "and is partitioned by a column by which they were not"
			}
		}
	}
	fields := leavesOf(q.shape.fieldsOf(q.schema))
	promoted := q.shape.promoted(fields)
	for _, key := range q.keys {
		switch f, known := fields[key]; {
		case !known:
			return nil, "in a column that was dropped since"
		case promoted[key]:
			return nil, fmt.Sprintf("in the column %q, whose type has changed", f.column.Name)
		case f.nested:
			return nil, fmt.Sprintf("in a field of the column %q", f.column.Name)
		case f.kind == "float" || f.kind == "double":
			return nil, fmt.Sprintf("in the column %q, which holds floating-point numbers", f.column.Name)
		case !f.column.Required:
			columns = append(columns, key)
		}
	}
	return columns, ""
}

// refusal returns why the table's rows cannot be changed.
func (q *equality) refusal() *sqltext.Refusal {
	return sqltext.Refuse(-1, "The table %s.%s has rows that were deleted by equality %s: DuckDB would not find exactly the rows to change. Have the table compacted, which applies its deletes, and change it then.",
		q.table.Schema, q.table.Table, q.why)
}
