package duckdb

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
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// definition is CREATE, ALTER or DROP of a view or a schema. The catalog runs it instead of DuckDB.
type definition struct {
	*execution
	*sqltext.Definition
}

// define runs a statement about a view or a schema.
func (e *execution) define() error {
	if len(e.s.Parameters) > 0 {
		return sqltext.Refuse(-1, "%s takes no parameters: write its values.", e.class.Kind)
	}
	parsed, err := sqltext.ParseDefinition(e.query, e.class)
	if err != nil {
		return err
	}
	d := &definition{e, parsed}
	if err := e.head(); err != nil {
		return err
	}
	switch e.class.Kind {
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
	return sqltext.Refuse(-1, "%s is not run here: make another schema and move the tables there.", e.class.Kind)
}

// schema resolves the name to a database and a schema. A first part that names a database is that
// database.
func (d *definition) schema(parts []string) (database, schema string) {
	if name := sqltext.DatabaseNamed(d.s.Catalog.Databases, parts[0]); name != "" && len(parts) > 1 {
		return name, strings.Join(parts[1:], ".")
	}
	return d.s.Database, strings.Join(parts, ".")
}

func (d *definition) createSchema() error {
	database, schema := d.schema(d.Parts)
	prefix, err := d.catalog.prefix(database)
	if err != nil {
		return err
	}
	if d.Replace || len(d.Columns) > 0 {
		return sqltext.Refuse(-1, "A schema is not replaced: its tables would go. Drop it first.")
	}
	err = d.catalog.call(http.MethodPost, "/v1"+prefix+"/namespaces", map[string]any{"namespace": strings.Split(schema, "."), "properties": map[string]string{}}, nil)
	return d.unless(err, http.StatusConflict)
}

func (d *definition) dropSchema() error {
	if d.Cascade {
		return sqltext.Refuse(d.Rest[0].Pos, "DROP SCHEMA … CASCADE is not run here: drop the schema's tables one by one.")
	}
	path, err := d.catalog.namespacePath(d.schema(d.Parts))
	if err != nil {
		return err
	}
	return d.unless(d.catalog.call(http.MethodDelete, path, nil, nil), http.StatusNotFound)
}

// unless ignores an error with the given status if the statement has IF EXISTS or IF NOT EXISTS.
func (d *definition) unless(err error, status int) error {
	if e, ok := errors.AsType[*catalog.AnsweredError](err); ok && d.Exists && e.Status == status {
		return nil
	}
	return err
}

func (d *definition) view() agent.StatementTable {
	return sqltext.Canonical([]sqltext.TableRef{{Parts: d.Parts}}, d.s.Catalog.Databases)[0].Resolve(d.s.Database, d.s.Schema)
}

func (d *definition) dropView() error {
	path, err := d.catalog.viewPath(d.view())
	if err != nil {
		return err
	}
	return d.unless(d.catalog.call(http.MethodDelete, path, nil, nil), http.StatusNotFound)
}

func (d *definition) renameView() error {
	if len(d.Rest) != 3 || !d.Rest[0].IsWord("rename") || !d.Rest[1].IsWord("to") || !d.Rest[2].IsName() {
		return sqltext.Refuse(-1, "Only a view's name can be altered: ALTER VIEW name RENAME TO other. CREATE OR REPLACE VIEW changes its query.")
	}
	from := d.view()
	prefix, err := d.catalog.prefix(from.Database)
	if err != nil {
		return err
	}
	namespace := strings.Split(from.Schema, ".")
	name := d.Rest[2].Identifier()
	return d.unless(d.catalog.call(http.MethodPost, "/v1"+prefix+"/views/rename", map[string]any{
		"source": map[string]any{"namespace": namespace, "name": from.Table}, "destination": map[string]any{"namespace": namespace, "name": name},
	}, nil), http.StatusNotFound)
}

// createView determines the query's columns with DuckDB and stores the query's text in the catalog
// unchanged.
func (d *definition) createView() error {
	if len(d.Rest) < 2 || !d.Rest[0].IsWord("as") {
		return sqltext.Refuse(-1, "CREATE VIEW needs AS and a query.")
	}
	query := d.query[d.Rest[1].Pos:]
	if len(d.Columns) > 0 {
		query = "SELECT * FROM (\n" + query + "\n) AS _(" + strings.Join(d.Columns, ", ") + ")"
	}
	c, err := sqltext.Classify(query)
	if err != nil {
		return err
	}
	if !c.OfView() {
		return sqltext.Refuse(d.Rest[1].Pos, "A view needs a query after AS; this is %s.", c.Kind)
	}
	d.class.Query = true
	if err := d.admit(func(m sqltext.TableRef) bool { return !m.Target }); err != nil { // only the columns are read
		return err
	}
	statement, err := d.prepareQuery(query)
	if err != nil {
		return err
	}
	schema := icebergSchema(statement)
	duckdb.DestroyPrepare(&statement)
	view := d.view()
	if slices.ContainsFunc(d.end.Tables, func(t agent.StatementTable) bool { return !t.Target && sqltext.SameTable(t, view) }) {
		return sqltext.Refuse(d.Rest[1].Pos, "The view would need itself: its query reads %s.%s.%s, by itself or through other views.", view.Database, view.Schema, view.Table)
	}
	version := viewVersion{
		ID: 1, Timestamp: time.Now().UnixMilli(), Summary: map[string]string{"engine-name": Name, "statement-id": d.s.ID}, Catalog: d.s.Database, Namespace: strings.Split(d.s.Schema, "."),
		Representations: []viewRepresentation{{Type: "sql", SQL: query, Dialect: Name}},
	}
	namespace, err := d.catalog.namespacePath(view.Database, view.Schema)
	if err != nil {
		return err
	}
	err = d.catalog.call(http.MethodPost, namespace+"/views", map[string]any{"name": view.Table, "schema": schema, "view-version": version, "properties": map[string]string{}}, nil)
	if e, ok := errors.AsType[*catalog.AnsweredError](err); !ok || e.Status != http.StatusConflict || !d.Replace && !d.Exists {
		return err
	}
	if d.Replace {
		return d.replaceView(view, version, schema)
	}
	if known, readErr := d.catalog.view(view); readErr != nil || known == nil { // a table has this name
		return err
	}
	return nil
}

// replaceView adds a version to a view and makes it the current one.
func (d *definition) replaceView(view agent.StatementTable, version viewVersion, schema map[string]any) error {
	path, err := d.catalog.viewPath(view)
	if err != nil {
		return err
	}
	var known viewBody
	if err := d.catalog.call(http.MethodGet, path, nil, &known); err != nil {
		return err
	}
	updates := []any{}
	version.Schema = known.schema(schema)
	if version.Schema < 0 { // the schema that this update adds
		updates = append(updates, map[string]any{"action": "add-schema", "schema": schema})
	}
	return d.catalog.call(http.MethodPost, path, map[string]any{"requirements": []any{map[string]any{"type": "assert-view-uuid", "uuid": known.Metadata.UUID}}, "updates": append(updates,
		map[string]any{"action": "add-view-version", "view-version": version},
		map[string]any{"action": "set-current-view-version", "view-version-id": -1},
	)}, nil)
}

// schema returns the id of an identical schema of the view, or -1.
func (b *viewBody) schema(schema map[string]any) int {
	wanted, _ := json.Marshal(schema["fields"]) // of strings, numbers and booleans alone
	for _, s := range b.Metadata.Schemas {
		if fields, err := json.Marshal(s.Fields); err == nil && bytes.Equal(fields, wanted) {
			return s.ID
		}
	}
	return -1
}
