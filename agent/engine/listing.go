package engine

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// listing is a SHOW that the catalog answers: DuckDB knows neither its views nor its databases.
type listing struct {
	of string   // databases, schemas, tables or all
	in []string // the name after FROM or IN
}

// listingOf reads the words of a SHOW or a bare DESCRIBE; false where it shows something else.
func listingOf(all []token) (listing, bool) {
	if !all[0].word("show", "describe", "desc") {
		return listing{}, false
	}
	rest := all[1:]
	switch {
	case len(rest) == 0, len(rest) == 2 && rest[0].word("all") && rest[1].word("tables"):
		return listing{of: "all"}, true
	case !all[0].word("show") || !rest[0].word("databases", "schemas", "tables"):
		return listing{}, false
	}
	l := listing{of: rest[0].text}
	rest = rest[1:]
	if len(rest) > 1 && rest[0].word("from", "in") && rest[1].name() && l.of != "databases" {
		m, next := path(rest, 1)
		l.in, rest = m.parts, rest[next:]
	}
	return l, len(rest) == 0
}

// list makes the statement a query for what the catalog has.
func (e *execution) list(l listing) error {
	rows, columns, err := e.listed(l)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		rows = [][]string{make([]string, len(columns))}
		defer func() { e.query += " WHERE false" }()
	}
	var values []string
	for _, row := range rows {
		for i, v := range row {
			row[i] = literal(v)
		}
		values = append(values, "("+strings.Join(row, ", ")+")")
	}
	e.query = "SELECT * FROM (VALUES " + strings.Join(values, ", ") + ") AS t(" + strings.Join(columns, ", ") + ")"
	e.named, e.rewritten = nil, true
	return nil
}

func (e *execution) listed(l listing) (rows [][]string, columns []string, err error) {
	switch {
	case e.s.Catalog.URL == "": // nothing is there
		columns = []string{"name"}
	case l.of == "databases":
		columns = []string{"database_name"}
		for _, name := range e.s.Catalog.Databases {
			rows = append(rows, []string{name})
		}
	case l.of == "schemas":
		columns = []string{"database_name", "schema_name"}
		database := e.s.Database
		if len(l.in) > 0 {
			database = e.database(l.in[0])
		}
		rows, err = e.schemas(database)
	case l.of == "tables":
		columns = []string{"name"}
		rows, err = e.tablesIn(l.in)
	default:
		columns = []string{"database", "schema", "name"}
		rows, err = e.allTables()
	}
	slices.SortFunc(rows, slices.Compare)
	return rows, columns, err
}

// tablesIn are the names in a schema, a database's schema, or the default schema of a database.
func (e *execution) tablesIn(in []string) (rows [][]string, err error) {
	database, schema := e.s.Database, e.s.Schema
	known := len(in) > 0 && databaseNamed(e.s.Catalog.Databases, in[0]) != ""
	switch {
	case len(in) == 1 && known:
		database = e.database(in[0])
	case known:
		database, schema = e.database(in[0]), strings.Join(in[1:], ".")
	case len(in) > 0:
		schema = strings.Join(in, ".")
	}
	names, err := e.client().names(database, schema)
	for _, name := range names {
		rows = append(rows, []string{name})
	}
	return rows, err
}

// database is a name as the catalog writes it, where it has one.
func (e *execution) database(name string) string {
	if known := databaseNamed(e.s.Catalog.Databases, name); known != "" {
		return known
	}
	return name
}

func (e *execution) schemas(database string) (rows [][]string, err error) {
	names, err := e.client().schemas(database, "")
	for _, name := range names {
		rows = append(rows, []string{database, name})
	}
	return rows, err
}

func (e *execution) allTables() (rows [][]string, err error) {
	for _, database := range e.s.Catalog.Databases {
		schemas, err := e.client().schemas(database, "")
		if err != nil {
			return nil, err
		}
		for _, schema := range schemas {
			names, err := e.client().names(database, schema)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				rows = append(rows, []string{database, schema, name})
			}
		}
	}
	return rows, nil
}

// schemas are those of a database within another one, with those that lie in them.
func (c *catalogClient) schemas(database, within string) (names []string, err error) {
	prefix, err := c.prefix(database)
	if err != nil {
		return nil, err
	}
	var page struct {
		Namespaces [][]string `json:"namespaces"`
	}
	parent := ""
	if within != "" {
		parent = "?parent=" + url.QueryEscape(strings.ReplaceAll(within, ".", "\x1f"))
	}
	if err := c.call(http.MethodGet, "/v1"+prefix+"/namespaces"+parent, nil, &page); err != nil {
		return nil, err
	}
	for _, levels := range page.Namespaces {
		name := strings.Join(levels, ".")
		inner, err := c.schemas(database, name)
		if err != nil {
			return nil, err
		}
		names = append(append(names, name), inner...)
	}
	return names, nil
}

// names are those of the tables and views in a schema.
func (c *catalogClient) names(database, schema string) (names []string, err error) {
	path, err := c.namespacePath(database, schema)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"/tables", "/views"} {
		var page struct {
			Identifiers []struct {
				Name string `json:"name"`
			} `json:"identifiers"`
		}
		if err := c.call(http.MethodGet, path+kind, nil, &page); err != nil {
			return nil, err
		}
		for _, i := range page.Identifiers {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// constraints are what a column or a table may be told to be, and Iceberg has no place for.
var constraints = map[string]string{"check": "CHECK", "unique": "UNIQUE", "primary": "PRIMARY KEY", "references": "REFERENCES", "collate": "COLLATE", "foreign": "FOREIGN KEY"}

// checkColumns refuses what CREATE TABLE and ALTER TABLE would otherwise leave out of the table in silence. Only the columns in parentheses, and what follows
// the name of an altered table, are looked at.
func checkColumns(c class, found []mention) error {
	if c.kind != "CREATE TABLE" && c.kind != "ALTER TABLE" {
		return nil
	}
	depth := 0
	for i, t := range c.tokens {
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case t.word("as") && depth == 0:
			return nil
		}
		why := constraints[t.text]
		if why == "" || t.kind != tokenWord || (depth == 0 && c.kind == "CREATE TABLE") || i == 0 || depth > 1 || slices.ContainsFunc(found, func(m mention) bool { return m.pos <= t.pos && t.pos < m.end }) {
			continue
		}
		next := token{}
		if i+1 < len(c.tokens) {
			next = c.tokens[i+1]
		}
		names := !c.tokens[i-1].is("(") && !c.tokens[i-1].is(",")
		if t.word("primary", "foreign") && next.word("key") || t.word("check") && next.is("(") || t.word("unique") && (names || next.is("(")) || t.word("references", "collate") && names {
			return refuse(t.pos, "%s is not kept by tables here: Iceberg has no place for it, and nothing would hold to it. Leave it out.", why)
		}
	}
	return nil
}
