package engine

import (
	"slices"
	"strings"
)

// attach makes the databases that a statement names, and its default one, DuckDB's, without its token, which the courier adds.
func (e *execution) attach() error {
	if len(e.named) == 0 && !e.class.write {
		return nil
	}
	names := e.databases()
	if e.class.write && len(names) == 0 {
		return refuse(-1, "There is no database %q here. Name one that exists, as the request's database or as database.schema.table.", cut(e.s.Database, 60))
	}
	for _, name := range names {
		if err := e.attachDatabase(name); err != nil {
			return err
		}
	}
	if slices.Contains(e.attached, e.s.Database) && e.class.kind != "CREATE SCHEMA" {
		return e.conn.exec("USE " + quote(e.s.Database) + "." + quote(e.s.Schema))
	}
	return nil
}

// attachDatabase attaches one of the catalog's databases, unless it is already.
func (e *execution) attachDatabase(name string) error {
	if !slices.Contains(e.s.Catalog.Databases, name) || slices.Contains(e.attached, name) {
		return nil
	}
	options := []string{"TYPE iceberg", "ENDPOINT " + literal(e.courier.address), "TOKEN 'none'", "ACCESS_DELEGATION_MODE 'none'", "SUPPORT_NESTED_NAMESPACES true"}
	if err := e.conn.exec("ATTACH " + literal(name) + " AS " + quote(name) + " (" + strings.Join(options, ", ") + ")"); err != nil {
		return err
	}
	e.attached = append(e.attached, name)
	return nil
}

// detach undoes attach. Where it cannot, the child ends after this statement.
func (e *execution) detach() {
	if len(e.attached) > 0 && e.conn.exec("USE memory.main") != nil {
		e.broken = true
	}
	for _, name := range slices.Backward(e.attached) {
		if e.conn.exec("DETACH "+quote(name)) != nil {
			e.broken = true
		}
	}
	// What no check found may have attached another one.
	left, err := e.conn.strings("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
	if err != nil || !slices.Equal(left, []string{"memory"}) {
		e.broken = true
	}
}

// databases are those that the statement names, the default one first.
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
		if len(m.parts) > 2 {
			add(m.parts[0])
		}
	}
	return names
}
