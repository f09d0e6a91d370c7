package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// readSchema takes the fields by which the snapshot is read: those of its schema, and columns of keys that were dropped since. None has the name of what
// DuckDB gives as the file of a row.
func (r *equalityRows) readSchema() error {
	fields, err := r.shape.rawFields(r.schema)
	if err != nil {
		return err
	}
	r.paths = map[int]string{}
	taken := map[string]bool{"filename": true, "file_row_number": true}
	for _, f := range r.shape.fieldsOf(r.schema) {
		taken[strings.ToLower(f.Name)] = true
	}
	for i, f := range r.shape.fieldsOf(r.schema) {
		read := f.Name
		if name := strings.ToLower(read); name == "filename" || name == "file_row_number" {
			read = unused(read, taken)
			fields[i]["name"] = jsonText(read)
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
			return refuse(-1, "The table %s.%s has rows that were deleted by equality in a field of a column that was dropped since, without the column: DuckDB does not read that field any more. Have the table compacted, which applies its deletes, and read it then.",
				r.table.Schema, r.table.Table)
		}
		read := unused(column.Name, taken)
		raw["name"], raw["required"] = jsonText(read), json.RawMessage("false")
		fields = append(fields, raw)
		r.addPaths(*column, read)
	}
	for takenBy(taken, r.hidden) {
		r.hidden += " "
	}
	r.fields = fields
	return nil
}

func takenBy(taken map[string]bool, prefix string) bool {
	for name := range taken {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// unused is a name that no column has, the one given if that is so.
func unused(name string, taken map[string]bool) string {
	for base, i := name, 1; taken[strings.ToLower(name)]; i++ {
		name = fmt.Sprint(base, " ", i)
	}
	taken[strings.ToLower(name)] = true
	return name
}

func jsonText(s string) json.RawMessage {
	b, _ := json.Marshal(s) // text never fails
	return b
}

// addPaths notes how a column, or the fields in it, are read.
func (r *equalityRows) addPaths(f shapeField, read string) {
	for id, names := range f.paths() {
		var path strings.Builder
		path.WriteString(quote(read))
		for _, name := range names {
			path.WriteString("." + quote(name))
		}
		r.paths[id] = path.String()
	}
}

func (r *equalityRows) query(groups []*deletesOf) (string, error) {
	var columns []string
	for _, c := range r.columns {
		columns = append(columns, "d."+quote(c.read)+" AS "+quote(c.name))
	}
	sequence, scope := quote(r.hidden+"sequence"), quote(r.hidden+"scope")
	var b strings.Builder
	b.WriteString("SELECT " + strings.Join(columns, ", ") + " FROM (SELECT s.*, " + r.fromFile("sequence") + " AS " + sequence + ", f.scope AS " + scope + " FROM " + r.scan("data", false) + ") AS d")
	for i, g := range groups {
		var keys, on []string
		for n, key := range g.keys {
			path, ok := r.paths[key]
			if !ok {
				return "", fmt.Errorf("the column %d of a delete by equality is not known", key)
			}
			keys = append(keys, fmt.Sprintf("CASE WHEN s.%[1]s IS NULL THEN NULL ELSE s.%[1]s END AS key%[2]d", path, n)) // of which DuckDB makes no filter
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

// scan reads rows as s, each with its file as f.
func (r *equalityRows) scan(name string, deletes bool) string {
	file := quote(r.hidden + "file")
	which := "NOT f.deletes"
	if deletes {
		which = "f.deletes"
	}
	return "(SELECT *, filename AS " + file + " FROM iceberg_scan(" + literal(r.metadataPath(name)) + ")) AS s LEFT JOIN " + r.joined(r.name+" files") + " AS f ON " + which + " AND f.path = s." + file
}

// fromFile is what is known of a row's file. A file that is not known ends the statement.
func (r *equalityRows) fromFile(what string) string {
	return "CASE WHEN f.path IS NULL THEN error('The engine lost a file: ' || s." + quote(r.hidden+"file") + ")::BIGINT ELSE f." + what + " END"
}
