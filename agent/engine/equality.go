package engine

import (
	"fmt"
	"slices"

	"github.com/millpond/millpond/agent"
)

// equality is a snapshot from which rows were deleted by equality in a way that DuckDB would not apply exactly, or not fast. They are taken out by joins: see
// withoutDeleted.
type equality struct {
	table    agent.StatementTable
	shape    *shape
	snapshot shapeSnapshot
	schema   int    // by which the snapshot is read
	why      string // it is not exact; "" where it is only slow
	list     *avroFile
	all      []*manifest
	keys     []int          // all columns by which rows are deleted
	deletes  []*contentFile // by equality
	data     []*contentFile
}

// manyKeys is how many keys are deleted by joins in any case. DuckDB's own reader compares each row with each key: a million rows and 10,000 keys took it 20 s, and
// a join 0.5 s.
const manyKeys = 200

// equalityOf looks into a snapshot for deletes by equality that DuckDB would not apply exactly; nil where there are none. Where the snapshot's summary says
// that it has no such deletes, nothing is read; else its manifests of deletes are, and those of data where a column of a key may hold NULL.
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

// maxPlain bounds the lists of manifests that are remembered.
const maxPlain = 10_000

// remember notes that a list of manifests has none of deletes: such a file is never written anew.
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

// hazard says why DuckDB would not apply the deletes exactly, "" where it is not known to be so, and answers the columns of keys that may hold NULL.
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

// refusal is why the rows of the table are not changed.
func (q *equality) refusal() *refusal {
	return refuse(-1, "The table %s.%s has rows that were deleted by equality %s: DuckDB would not find exactly the rows to change. Have the table compacted, which applies its deletes, and change it then.",
		q.table.Schema, q.table.Table, q.why)
}
