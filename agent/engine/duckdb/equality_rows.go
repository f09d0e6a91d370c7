package duckdb

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// joinedSchema holds the tables that a statement's equality deletes need, in the database of its
// views. It cannot collide with the views' schemas: their names contain a dot.
const joinedSchema = "joined"

// deletesOf is a group of delete files with the same key columns, applied by one join.
type deletesOf struct {
	keys   []int
	global bool // applies to all files; otherwise only to those of the same partition
	paths  map[string]bool
}

// equalityRows builds the query that replaces a snapshot with equality deletes.
type equalityRows struct {
	*viewMaker
	*equality
	dir, name string
	columns   []equalityColumn
	paths     map[int]string // SQL paths to the key columns
	fields    []map[string]any
	scopes    map[string]int64 // by partition
	hidden    string           // prefix of the names of added columns
}

// equalityColumn is a table's column: the name that it is read with and its own name.
type equalityColumn struct{ read, name string }

// withoutDeleted returns a view over the rows of a snapshot without its equality-deleted rows.
//
// DuckDB reads the snapshot by generated metadata in the statement's temporary directory. Its
// manifests list no equality deletes. So DuckDB still resolves columns by id and applies position
// deletes and deletion vectors. The delete files are read in the same way, as if they were data.
// The rest is one hash join for each set of key columns. It takes two joins if only some of those
// deletes are limited to a partition. NULL equals NULL and NaN equals NaN. A delete applies only to
// rows with a lower sequence number. The cost is one read of the manifests, and one read of the
// delete files for each read of the table. Their distinct keys are held in memory.
func (v *viewMaker) withoutDeleted(q *equality) (view string, err error) {
	r := &equalityRows{viewMaker: v, equality: q, scopes: map[string]int64{}, hidden: "deletes "}
	if err := r.makeDirectory(); err != nil {
		return "", err
	}
	if err := r.readSchema(); err != nil {
		return "", err
	}
	groups, err := r.group()
	if err != nil {
		return "", err
	}
	if err := r.writeFiles(groups); err != nil {
		return "", err
	}
	query, err := r.query(groups)
	if err != nil {
		return "", err
	}
	view = r.joined(r.name)
	return view, v.conn.exec("CREATE VIEW " + view + " AS " + query)
}

// makeDirectory creates a directory in the child's temporary directory. It removes those of earlier
// statements.
func (r *equalityRows) makeDirectory() error {
	const prefix = "equality-"
	ours := filepath.Join(r.db.dir, "temp", prefix+url.PathEscape(r.s.ID))
	before, err := filepath.Glob(filepath.Join(r.db.dir, "temp", prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range before {
		if dir != ours {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(ours, 0o700); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp(ours, ""); err != nil {
		return err
	}
	r.name = filepath.Base(r.dir)
	return r.conn.exec("CREATE SCHEMA IF NOT EXISTS " + sqltext.Quote(sqltext.Views) + "." + sqltext.Quote(joinedSchema))
}

func (r *equalityRows) joined(name string) string {
	return sqltext.Quote(sqltext.Views) + "." + sqltext.Quote(joinedSchema) + "." + sqltext.Quote(name)
}

// group groups the deletes that are applied together. It drops deletes older than every data file.
// It writes the sequence numbers and partitions of all files for the query to join.
func (r *equalityRows) group() (groups []*deletesOf, err error) {
	oldest := map[int64]int64{} // sequence number of data, by scope
	first := r.data[0].sequence
	var rows []equalityFile
	for _, f := range r.data {
		scope := r.scope(f)
		rows = append(rows, equalityFile{f.path, f.sequence, scope, false})
		if known, ok := oldest[scope]; !ok || f.sequence < known {
			oldest[scope] = f.sequence
		}
		first = min(first, f.sequence)
	}
	for _, f := range r.deletes {
		if !strings.EqualFold(f.format, "parquet") {
			return nil, sqltext.Refuse(-1, "The table %s.%s has deletes by equality in a file of the format %s, which DuckDB does not read. Have the table compacted, which applies its deletes.", r.table.Schema, r.table.Table, sqltext.Cut(f.format, 40))
		}
		global := !r.shape.partitioned(f.spec)
		scope := r.scope(f)
		since, ok := oldest[scope]
		if global {
			since, ok = first, true
		}
		if !ok || since >= f.sequence {
			continue
		}
		rows = append(rows, equalityFile{f.path, f.sequence, scope, true})
		i := slices.IndexFunc(groups, func(g *deletesOf) bool { return g.global == global && slices.Equal(g.keys, f.keys) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &deletesOf{keys: f.keys, global: global, paths: map[string]bool{}})
		}
		groups[i].paths[f.path] = true
	}
	return groups, r.keep(rows)
}

// scope returns a number that identifies a partition of a spec.
func (r *equalityRows) scope(f *contentFile) int64 {
	key := strconv.FormatInt(f.spec, 10) + ":" + f.partition
	n, ok := r.scopes[key]
	if !ok {
		n = int64(len(r.scopes))
		r.scopes[key] = n
	}
	return n
}

type equalityFile struct {
	Path     string `json:"path"`
	Sequence int64  `json:"sequence"`
	Scope    int64  `json:"scope"`
	Deletes  bool   `json:"deletes"`
}

// keep creates the table of files.
func (r *equalityRows) keep(rows []equalityFile) error {
	slices.SortFunc(rows, func(a, b equalityFile) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Scope, b.Scope))
	})
	rows = slices.Compact(rows)
	var b strings.Builder
	for i, row := range rows {
		if i > 0 && rows[i-1].Path == row.Path {
			return sqltext.Refuse(-1, "The table %s.%s names one file twice, as of different times, so that it cannot be known what is deleted: %s.", r.table.Schema, r.table.Table, sqltext.Cut(row.Path, 300))
		}
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	path := filepath.Join(r.dir, "files.json")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return err
	}
	return r.conn.exec("CREATE TABLE " + r.joined(r.name+" files") + " AS FROM read_json(" + sqltext.Literal(path) +
		", format = 'newline_delimited', columns = {path: 'VARCHAR', sequence: 'BIGINT', scope: 'BIGINT', deletes: 'BOOLEAN'})")
}

// writeFiles writes the metadata of the data and of each group of deletes.
func (r *equalityRows) writeFiles(groups []*deletesOf) error {
	list, err := r.manifestsOfData()
	if err != nil {
		return err
	}
	if err := r.writeMetadata("data", list); err != nil {
		return err
	}
	for i, g := range groups {
		list, err := r.manifestsOfDeletes(i, g)
		if err != nil {
			return err
		}
		if err := r.writeMetadata(fmt.Sprint("deletes", i), list); err != nil {
			return err
		}
	}
	return nil
}

// manifestsOfData returns the snapshot's manifests without equality deletes.
func (r *equalityRows) manifestsOfData() (list []map[string]any, err error) {
	for i, m := range r.all {
		if m.file == nil {
			list = append(list, m.listed)
			continue
		}
		var others []map[string]any
		left := 0
		for _, entry := range m.file.Records {
			if of, _ := entry["data_file"].(map[string]any); whole(of["content"]) == deletesByEquality {
				continue
			}
			others = append(others, entry)
			if whole(entry["status"]) != entryDeleted {
				left++
			}
		}
		switch {
		case left == 0:
			continue
		case len(others) < len(m.file.Records):
			path := filepath.Join(r.dir, fmt.Sprintf("positions%d.avro", i))
			size, err := m.file.write(path, "", others)
			if err != nil {
				return nil, err
			}
			list = append(list, relisted(m.listed, path, size))
		default:
			list = append(list, m.listed)
		}
	}
	return list, nil
}

// manifestsOfDeletes returns manifests that list a group's delete files as data files.
func (r *equalityRows) manifestsOfDeletes(number int, g *deletesOf) (list []map[string]any, err error) {
	for i, m := range r.all {
		if m.file == nil {
			continue
		}
		var chosen []map[string]any
		for _, entry := range m.file.Records {
			c := m.contentFile(m.file, entry, nil)
			if c == nil || c.content != deletesByEquality || !g.paths[c.path] || !slices.Equal(c.keys, g.keys) {
				continue
			}
			entry, of := maps.Clone(entry), maps.Clone(entry["data_file"].(map[string]any))
			of["content"], of["equality_ids"] = int32(0), nil
			entry["data_file"] = of
			chosen = append(chosen, entry)
		}
		if len(chosen) == 0 {
			continue
		}
		path := filepath.Join(r.dir, fmt.Sprintf("deletes%d-%d.avro", number, i))
		size, err := m.file.write(path, "data", chosen)
		if err != nil {
			return nil, err
		}
		entry := relisted(m.listed, path, size)
		entry["content"] = int32(0)
		if first, ok := entry["first_row_id"]; ok && first == nil {
			entry["first_row_id"] = int64(0)
		}
		list = append(list, entry)
	}
	return list, nil
}

func relisted(listed map[string]any, path string, size int64) map[string]any {
	entry := maps.Clone(listed)
	entry["manifest_path"], entry["manifest_length"] = path, size
	return entry
}

func (r *equalityRows) metadataPath(name string) string {
	return filepath.Join(r.dir, name+".metadata.json")
}

// writeMetadata writes the table's metadata with one snapshot that has these manifests.
func (r *equalityRows) writeMetadata(name string, manifests []map[string]any) error {
	list := filepath.Join(r.dir, name+"-list.avro")
	if _, err := r.list.write(list, "", manifests); err != nil {
		return err
	}
	m, err := r.shape.metadataOf(r.snapshot.ID, list, r.schema, r.fields)
	if err != nil {
		return err
	}
	return os.WriteFile(r.metadataPath(name), m, 0o600)
}
