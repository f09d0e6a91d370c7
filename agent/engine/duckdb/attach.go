package duckdb

import (
	"slices"
	"strings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// attach attaches the databases that a statement names and its default database to DuckDB. The
// token stays outside DuckDB: the catalog proxy adds it.
func (e *execution) attach() error {
	if len(e.named) == 0 && !e.class.Write {
		return nil
	}
	names := e.databases()
	if e.class.Write && len(names) == 0 {
		return sqltext.Refuse(-1, "There is no database %q here. Name one that exists, as the request's database or as database.schema.table.", sqltext.Cut(e.s.Database, 60))
	}
	for _, name := range names {
		if err := e.attachDatabase(name); err != nil {
			return err
		}
	}
	if slices.Contains(e.attached, e.s.Database) && e.class.Kind != "CREATE SCHEMA" {
		return e.conn.exec("USE " + sqltext.Quote(e.s.Database) + "." + sqltext.Quote(e.s.Schema))
	}
	return nil
}

// attachDatabase attaches one of the catalog's databases, unless it is attached already.
func (e *execution) attachDatabase(name string) error {
	if !slices.Contains(e.s.Catalog.Databases, name) || slices.Contains(e.attached, name) {
		return nil
	}
	options := []string{"TYPE iceberg", "ENDPOINT " + sqltext.Literal(e.proxy.URL()), "TOKEN " + sqltext.Literal(e.asking.Handle()), "ACCESS_DELEGATION_MODE 'none'", "SUPPORT_NESTED_NAMESPACES true", "PURGE_REQUESTED true"}
	if err := e.conn.exec("ATTACH " + sqltext.Literal(name) + " AS " + sqltext.Quote(name) + " (" + strings.Join(options, ", ") + ")"); err != nil {
		return err
	}
	e.attached = append(e.attached, name)
	return nil
}

// detach undoes attach. If it fails, the child ends after this statement.
func (e *execution) detach() {
	if len(e.attached) > 0 && e.conn.exec("USE memory.main") != nil {
		e.broken = true
	}
	for _, name := range slices.Backward(e.attached) {
		if e.conn.exec("DETACH "+sqltext.Quote(name)) != nil {
			e.broken = true
		}
	}
	// A statement that passed all checks may still have attached another database.
	left, err := e.conn.strings("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
	if err != nil || !slices.Equal(left, []string{"memory"}) {
		e.broken = true
	}
}

// databases returns the databases that the statement names, the default one first.
func (e *execution) databases() []string {
	if e.s.Catalog.URL == "" {
		return nil
	}
	var names []string
	add := func(name string) {
		if slices.Contains(e.s.Catalog.Databases, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(e.s.Database)
	for _, m := range e.named {
		if len(m.Parts) > 2 {
			add(m.Parts[0])
		}
	}
	return names
}
