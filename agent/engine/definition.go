package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// definition is CREATE, ALTER or DROP of a view or a schema, which the catalog does rather than DuckDB.
type definition struct {
	*execution
	replace, exists, cascade bool // OR REPLACE; IF EXISTS or IF NOT EXISTS; CASCADE
	parts                    []string
	columns                  []string
	rest                     []token // after the name and the columns
}

// ofCatalog reports whether the catalog does what a statement asks for.
func (c class) ofCatalog() bool {
	return strings.HasSuffix(c.kind, " VIEW") || strings.HasSuffix(c.kind, " SCHEMA")
}

// define does what a statement about a view or a schema asks for.
func (e *execution) define() error {
	if len(e.s.Parameters) > 0 {
		return refuse(-1, "%s takes no parameters: write its values.", e.class.kind)
	}
	d, err := e.definition()
	if err != nil {
		return err
	}
	if err := e.head(); err != nil {
		return err
	}
	switch e.class.kind {
	case "CREATE SCHEMA":
		return d.createSchema()
	case "DROP SCHEMA":
		return d.dropSchema()
	case "CREATE VIEW":
		return d.createView()
	case "DROP VIEW":
		return d.dropView()
	case "ALTER VIEW":
		return d.renameView()
	}
	return refuse(-1, "%s is not run here: make another schema and move the tables there.", e.class.kind)
}

// definition reads the words up to the name and the columns.
func (e *execution) definition() (*definition, error) {
	d := &definition{execution: e}
	all := e.class.tokens[1:]
	if all[0].word("or") {
		d.replace = true
		all = all[2:]
	}
	all = all[1:] // VIEW or SCHEMA
	for len(all) > 0 && all[0].word("if", "not", "exists") {
		d.exists = true
		all = all[1:]
	}
	if len(all) == 0 || !all[0].name() {
		return nil, refuse(-1, "%s needs a name.", e.class.kind)
	}
	m, next := path(all, 0)
	d.parts = m.parts
	all = all[next:]
	if len(all) > 0 && all[0].is("(") {
		for all = all[1:]; len(all) > 0 && !all[0].is(")"); all = all[1:] {
			if all[0].name() {
				d.columns = append(d.columns, e.query[all[0].pos:all[0].end])
			}
		}
		all = all[min(1, len(all)):]
	}
	d.rest = all
	d.cascade = len(all) > 0 && all[0].word("cascade")
	return d, d.checkRest()
}

// checkRest refuses what follows the name and would be left out.
func (d *definition) checkRest() error {
	ends := d.class.kind != "CREATE VIEW" && d.class.kind != "ALTER VIEW"
	switch {
	case !ends || len(d.rest) == 0 || len(d.rest) == 1 && d.rest[0].word("cascade", "restrict") && strings.HasPrefix(d.class.kind, "DROP "):
		return nil
	case d.rest[0].is(","):
		return refuse(d.rest[0].pos, "%s takes one name: run it for each.", d.class.kind)
	}
	return refuse(d.rest[0].pos, "%s ends after the name here; leave out what follows.", d.class.kind)
}

// schema is the database and the schema that the name stands for. A first part that is a database's name is that.
func (d *definition) schema(parts []string) (database, schema string) {
	if name := databaseNamed(d.s.Catalog.Databases, parts[0]); name != "" && len(parts) > 1 {
		return name, strings.Join(parts[1:], ".")
	}
	return d.s.Database, strings.Join(parts, ".")
}

func (d *definition) createSchema() error {
	database, schema := d.schema(d.parts)
	prefix, err := d.client().prefix(database)
	if err != nil {
		return err
	}
	if d.replace || len(d.columns) > 0 {
		return refuse(-1, "A schema is not replaced: its tables would go. Drop it first.")
	}
	err = d.client().call(http.MethodPost, "/v1"+prefix+"/namespaces", map[string]any{"namespace": strings.Split(schema, "."), "properties": map[string]string{}}, nil)
	return d.unless(err, http.StatusConflict)
}

func (d *definition) dropSchema() error {
	if d.cascade {
		return refuse(d.rest[0].pos, "DROP SCHEMA … CASCADE is not run here: drop the schema's tables one by one.")
	}
	path, err := d.client().namespacePath(d.schema(d.parts))
	if err != nil {
		return err
	}
	return d.unless(d.client().call(http.MethodDelete, path, nil, nil), http.StatusNotFound)
}

// unless forgives an answer where IF EXISTS or IF NOT EXISTS was said.
func (d *definition) unless(err error, status int) error {
	if e, ok := errors.AsType[*catalogError](err); ok && d.exists && e.status == status {
		return nil
	}
	return err
}

func (d *definition) view() agent.StatementTable {
	return canonical([]mention{{parts: d.parts}}, d.s.Catalog.Databases)[0].resolve(d.s.Database, d.s.Schema)
}

func (d *definition) dropView() error {
	path, err := d.client().viewPath(d.view())
	if err != nil {
		return err
	}
	return d.unless(d.client().call(http.MethodDelete, path, nil, nil), http.StatusNotFound)
}

func (d *definition) renameView() error {
	if len(d.rest) != 3 || !d.rest[0].word("rename") || !d.rest[1].word("to") || !d.rest[2].name() {
		return refuse(-1, "Of a view only the name can be altered: ALTER VIEW name RENAME TO other. Its query is changed by CREATE OR REPLACE VIEW.")
	}
	from := d.view()
	prefix, err := d.client().prefix(from.Database)
	if err != nil {
		return err
	}
	namespace := strings.Split(from.Schema, ".")
	name := d.rest[2].identifier()
	return d.unless(d.client().call(http.MethodPost, "/v1"+prefix+"/views/rename", map[string]any{
		"source": map[string]any{"namespace": namespace, "name": from.Table}, "destination": map[string]any{"namespace": namespace, "name": name},
	}, nil), http.StatusNotFound)
}

// createView lets DuckDB say what columns the query has, and gives it to the catalog as it was written.
func (d *definition) createView() error {
	if len(d.rest) < 2 || !d.rest[0].word("as") {
		return refuse(-1, "CREATE VIEW needs AS and a query.")
	}
	query := d.query[d.rest[1].pos:]
	if len(d.columns) > 0 {
		query = "SELECT * FROM (\n" + query + "\n) AS _(" + strings.Join(d.columns, ", ") + ")"
	}
	c, err := classify(query, d.db.forbidden)
	if err != nil {
		return err
	}
	if !c.ofView() {
		return refuse(d.rest[1].pos, "A view needs a query after AS; this is %s.", c.kind)
	}
	d.class.query = true
	if err := d.admit(func(m mention) bool { return !m.target }); err != nil { // only their columns are asked for
		return err
	}
	statement, err := d.prepareQuery(query)
	if err != nil {
		return err
	}
	schema := icebergSchema(statement)
	duckdb.DestroyPrepare(&statement)
	view := d.view()
	if slices.ContainsFunc(d.end.Tables, func(t agent.StatementTable) bool { return !t.Target && sameTable(t, view) }) {
		return refuse(d.rest[1].pos, "The view would need itself: its query reads %s.%s.%s, by itself or through other views.", view.Database, view.Schema, view.Table)
	}
	version := viewVersion{
		ID: 1, Timestamp: time.Now().UnixMilli(), Summary: map[string]string{"engine-name": Name, "statement-id": d.s.ID}, Catalog: d.s.Database, Namespace: strings.Split(d.s.Schema, "."),
		Representations: []viewRepresentation{{Type: "sql", SQL: query, Dialect: Name}},
	}
	namespace, err := d.client().namespacePath(view.Database, view.Schema)
	if err != nil {
		return err
	}
	err = d.client().call(http.MethodPost, namespace+"/views", map[string]any{"name": view.Table, "schema": schema, "view-version": version, "properties": map[string]string{}}, nil)
	if e, ok := errors.AsType[*catalogError](err); !ok || e.status != http.StatusConflict || !d.replace && !d.exists {
		return err
	}
	if d.replace {
		return d.replaceView(view, version, schema)
	}
	if known, readErr := d.client().view(view); readErr != nil || known == nil { // it is a table that is there
		return err
	}
	return nil
}

// replaceView makes another version of a view the current one.
func (d *definition) replaceView(view agent.StatementTable, version viewVersion, schema map[string]any) error {
	path, err := d.client().viewPath(view)
	if err != nil {
		return err
	}
	var known viewBody
	if err := d.client().call(http.MethodGet, path, nil, &known); err != nil {
		return err
	}
	updates := []any{}
	version.Schema = known.schema(schema)
	if version.Schema < 0 { // it is the one that is added with it
		updates = append(updates, map[string]any{"action": "add-schema", "schema": schema})
	}
	return d.client().call(http.MethodPost, path, map[string]any{"requirements": []any{map[string]any{"type": "assert-view-uuid", "uuid": known.Metadata.UUID}}, "updates": append(updates,
		map[string]any{"action": "add-view-version", "view-version": version},
		map[string]any{"action": "set-current-view-version", "view-version-id": -1},
	)}, nil)
}

// schema is the id of the same schema in a view that is there already; -1 where it is new.
func (b *viewBody) schema(schema map[string]any) int {
	wanted, _ := json.Marshal(schema["fields"]) // of strings, numbers and booleans alone
	for _, s := range b.Metadata.Schemas {
		if fields, err := json.Marshal(s.Fields); err == nil && bytes.Equal(fields, wanted) {
			return s.ID
		}
	}
	return -1
}
