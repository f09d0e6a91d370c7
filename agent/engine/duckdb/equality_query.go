package duckdb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// readSchema collects the fields that the snapshot is read with: those of its schema and dropped
// key columns. It renames fields that collide with DuckDB's filename column.
func (r *equalityRows) readSchema() error {
	fields, err := r.shape.rawFields(r.schema)
	if err != nil {
		return err
	}
	r.paths = map[int]string{}
	used := map[string]bool{"filename": true, "file_row_number": true}
	for _, f := range r.shape.fieldsOf(r.schema) {
		used[strings.ToLower(f.Name)] = true
	}
	for i, f := range r.shape.fieldsOf(r.schema) {
		read := f.Name
		if name := strings.ToLower(read); name == "filename" || name == "file_row_number" {
			read = unused(read, used)
			fields[i]["name"] = read
		}
		r.columns = append(r.columns, equalityColumn{read, f.Name})
		r.addPaths(f, read)
	}
	for _, key := range r.keys {
		if r.paths[key] != "" {
			continue
		}
		column, raw, err := r.shape.lastColumnOf(key)
		if err != nil {
			return err
		}
		if column == nil || slices.ContainsFunc(r.shape.fieldsOf(r.schema), func(f shapeField) bool { return f.ID == column.ID }) {
			return sqltext.Refuse(-1, "The table %s.%s has rows that were deleted by equality in a field of a column that was dropped since, without the column: DuckDB does not read that field any more. Have the table compacted, which applies its deletes, and read it then.",
				r.table.Schema, r.table.Table)
		}
		read := unused(column.Name, used)
		raw["name"], raw["required"] = read, false
		fields = append(fields, raw)
		r.addPaths(*column, read)
	}
	for prefixUsed(used, r.hidden) {
		r.hidden += " "
	}
	r.fields = fields
	return nil
}

func prefixUsed(used map[string]bool, prefix string) bool {
	for name := range used {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// unused returns the given name, or a variant of it that no column has.
func unused(name string, used map[string]bool) string {
	for base, i := name, 1; used[strings.ToLower(name)]; i++ {
		name = fmt.Sprint(base, " ", i)
	}
	used[strings.ToLower(name)] = true
	return name
}

// addPaths records how a column, and the fields in it, are read.
func (r *equalityRows) addPaths(f shapeField, read string) {
	for id, names := range f.paths() {
		var path strings.Builder
		path.WriteString(sqltext.Quote(read))
		for _, name := range names {
			path.WriteString("." + sqltext.Quote(name))
		}
		r.paths[id] = path.String()
	}
}

func (r *equalityRows) query(groups []*deletesOf) (string, error) {
	var columns []string
	for _, c := range r.columns {
		columns = append(columns, "d."+sqltext.Quote(c.read)+" AS "+sqltext.Quote(c.name))
	}
	sequence, scope := sqltext.Quote(r.hidden+"sequence"), sqltext.Quote(r.hidden+"scope")
	var b strings.Builder
	b.WriteString("SELECT " + strings.Join(columns, ", ") + " FROM (SELECT s.*, " + r.fromFile("sequence") + " AS " + sequence + ", f.scope AS " + scope + " FROM " + r.scan("data", false) + ") AS d")
	for i, g := range groups {
		var keys, on []string
		for n, key := range g.keys {
			path, ok := r.paths[key]
			if !ok {
				return "", fmt.Errorf("the column %d of a delete by equality is not known", key)
			}
			keys = append(keys, fmt.Sprintf("CASE WHEN s.%[1]s IS NULL THEN NULL ELSE s.%[1]s END AS key%[2]d", path, n)) // DuckDB pushes no filter through CASE
			on = append(on, fmt.Sprintf("d.%s IS NOT DISTINCT FROM e%d.key%d", path, i, n))
		}
		if !g.global {
			keys = append(keys, r.fromFile("scope")+" AS scope")
			on = append(on, fmt.Sprintf("d.%s = e%d.scope", scope, i))
		}
		on = append(on, fmt.Sprintf("d.%s < e%d.sequence", sequence, i))
		fmt.Fprintf(&b, " ANTI JOIN (SELECT %s, max(%s) AS sequence FROM %s GROUP BY ALL) AS e%d ON %s", strings.Join(keys, ", "), r.fromFile("sequence"), r.scan(fmt.Sprint("deletes", i), true), i, strings.Join(on, " AND "))
	}
	return b.String(), nil
}

// scan returns a FROM item that reads rows as s, each with its file as f.
func (r *equalityRows) scan(name string, deletes bool) string {
	file := sqltext.Quote(r.hidden + "file")
	which := "NOT f.deletes"
	if deletes {
		which = "f.deletes"
	}
	return "(SELECT *, filename AS " + file + " FROM iceberg_scan(" + sqltext.Literal(r.metadataPath(name)) + ")) AS s LEFT JOIN " + r.joined(r.name+" files") + " AS f ON " + which + " AND f.path = s." + file
}

// fromFile returns an expression for a property of a row's file. An unknown file fails the
// statement.
func (r *equalityRows) fromFile(what string) string {
	return "CASE WHEN f.path IS NULL THEN error('The engine lost a file: ' || s." + sqltext.Quote(r.hidden+"file") + ")::BIGINT ELSE f." + what + " END"
}
