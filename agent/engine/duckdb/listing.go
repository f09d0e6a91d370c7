package duckdb

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// list replaces the statement with a query that returns the catalog's rows.
func (e *execution) list(l sqltext.Listing) error {
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
			row[i] = sqltext.Literal(v)
		}
		values = append(values, "("+strings.Join(row, ", ")+")")
	}
	e.query = "SELECT * FROM (VALUES " + strings.Join(values, ", ") + ") AS t(" + strings.Join(columns, ", ") + ")"
	e.named, e.rewritten = nil, true
	return nil
}

func (e *execution) listed(l sqltext.Listing) (rows [][]string, columns []string, err error) {
	switch {
	case e.s.Catalog.URL == "": // the catalog is empty
		columns = []string{"name"}
	case l.Of == "databases":
		columns = []string{"database_name"}
		for _, name := range e.s.Catalog.Databases {
			rows = append(rows, []string{name})
		}
	case l.Of == "schemas":
		columns = []string{"database_name", "schema_name"}
		database := e.s.Database
		if len(l.In) > 0 {
			database = e.database(l.In[0])
		}
		rows, err = e.schemas(database)
	case l.Of == "tables":
		columns = []string{"name"}
		rows, err = e.tablesIn(l.In)
	default:
		columns = []string{"database", "schema", "name"}
		rows, err = e.allTables()
	}
	slices.SortFunc(rows, slices.Compare)
	return rows, columns, err
}

// tablesIn returns the names in a schema, in a database's schema, or in a database's default
// schema.
func (e *execution) tablesIn(in []string) (rows [][]string, err error) {
	database, schema := e.s.Database, e.s.Schema
	known := len(in) > 0 && sqltext.DatabaseNamed(e.s.Catalog.Databases, in[0]) != ""
	switch {
	case len(in) == 1 && known:
		database = e.database(in[0])
	case known:
		database, schema = e.database(in[0]), strings.Join(in[1:], ".")
	case len(in) > 0:
		schema = strings.Join(in, ".")
	}
	names, err := e.catalog.names(database, schema)
	for _, name := range names {
		rows = append(rows, []string{name})
	}
	return rows, err
}

// database returns a database's name as the catalog writes it, or the given name.
func (e *execution) database(name string) string {
	if known := sqltext.DatabaseNamed(e.s.Catalog.Databases, name); known != "" {
		return known
	}
	return name
}

func (e *execution) schemas(database string) (rows [][]string, err error) {
	names, err := e.catalog.schemas(database, "")
	for _, name := range names {
		rows = append(rows, []string{database, name})
	}
	return rows, err
}

func (e *execution) allTables() (rows [][]string, err error) {
	for _, database := range e.s.Catalog.Databases {
		schemas, err := e.catalog.schemas(database, "")
		if err != nil {
			return nil, err
		}
		for _, schema := range schemas {
			names, err := e.catalog.names(database, schema)
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

// schemas returns the schemas of a database below the given one, nested ones included.
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

// names returns the names of the tables and views in a schema.
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
