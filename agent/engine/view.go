package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// views is the database of a statement's own in which the catalog's views that it names are made. A schema of it is one of the catalog's.
const views = "millpond views"

// maxViews bounds how many views a statement may need, those within views included.
const maxViews = 100

// withViews makes the catalog's views that a query names, where DuckDB missed a table. It answers the query with the names of views leading to the
// statement's own ones, or the error that DuckDB gave where there are no such views.
func (e *execution) withViews(query string, missed error) (string, error) {
	d, ok := errors.AsType[*duckError](missed)
	if missed != nil && (!ok || d.Type != "Catalog" || !strings.Contains(d.Message, "does not exist") || e.s.Catalog.URL == "" || len(e.named) == 0 || slices.Contains(e.attached, views)) {
		return "", missed
	}
	if err := e.conn.exec("ATTACH ':memory:' AS " + quote(views)); err != nil {
		return "", err
	}
	e.attached = append(e.attached, views)
	all := tokens(query)
	v := &viewMaker{execution: e, known: map[string]bool{}}
	text, found, err := v.rewrite(query, canonical(tablesOf(mentions(all), all), e.s.Catalog.Databases), e.s.Database, e.s.Schema)
	if err == nil && !found {
		err = missed
	}
	if err != nil {
		return "", err
	}
	e.end.Tables, e.rewritten = v.tables, true
	return text, nil
}

// viewMaker makes the views of a statement.
type viewMaker struct {
	*execution
	known  map[string]bool        // of each name, whether it is a view's
	tables []agent.StatementTable // named by the statement and its views
	path   []agent.StatementTable // of views within views
}

// rewrite makes names complete, and leads those of views to the statement's own.
func (v *viewMaker) rewrite(query string, named []mention, database, schema string) (text string, found bool, err error) {
	var b strings.Builder
	last := 0
	for _, m := range named {
		t := m.resolve(database, schema)
		if m.unsure {
			if err := v.refuseAmbiguous(m, t); err != nil {
				return "", false, err
			}
			continue
		}
		if at := travelOf(query, m); at != nil {
			text, err := v.travelled(t, at)
			if err != nil {
				return "", false, err
			}
			v.tables, found = v.class.use(v.tables, t, false), true
			b.WriteString(query[last:m.pos] + text)
			last = at.end
			continue
		}
		isView := false
		if !m.target || len(v.path) > 0 {
			if isView, err = v.make(t); err != nil {
				return "", false, err
			}
		}
		v.tables = v.class.use(v.tables, t, m.target && len(v.path) == 0)
		b.WriteString(query[last:m.pos])
		if isView {
			found = true
			b.WriteString(quote(views) + "." + quote(t.Database+"."+t.Schema) + "." + quote(t.Table))
		} else {
			b.WriteString(quote(t.Database) + "." + quote(t.Schema) + "." + quote(t.Table))
		}
		last = m.end
	}
	b.WriteString(query[last:])
	return b.String(), found, nil
}

// checkQuery refuses a view's text that is not one query for DuckDB's parser too, before it is run as part of another text.
func (v *viewMaker) checkQuery(query string, found []mention, text string) error {
	for _, q := range []string{query, text, "CREATE VIEW x AS " + text} {
		n, err := v.conn.count(q)
		if err == nil && n != 1 {
			err = refuse(-1, "its text is more than one statement")
		}
		if err != nil {
			return err
		}
	}
	if err := v.checkParsed(query, 0, found); err != nil {
		return err
	}
	var statement duckdb.PreparedStatement
	state := duckdb.Prepare(v.conn.handle, text, &statement)
	defer duckdb.DestroyPrepare(&statement)
	if state != duckdb.StateSuccess {
		return parseDuckError(duckdb.PrepareError(statement))
	}
	if duckdb.PreparedStatementType(statement) != duckdb.StatementTypeSelect {
		return refuse(-1, "its text is no query")
	}
	return nil
}

// refuseAmbiguous refuses a name for which it matters whether it is a table's or that of the common table expression in which it stands.
func (v *viewMaker) refuseAmbiguous(m mention, t agent.StatementTable) error {
	special, err := v.make(t)
	if err == nil && special {
		err = refuse(m.pos, "%s is both a table and the expression of WITH RECURSIVE in which it stands. Write the table's whole name: %s.%s.%s.", m.parts[0], t.Database, t.Schema, t.Table)
	}
	return err
}

func sameTable(a, b agent.StatementTable) bool {
	return a.Database == b.Database && a.Schema == b.Schema && a.Table == b.Table
}

func viewKey(t agent.StatementTable) string { return t.Database + "\x00" + t.Schema + "\x00" + t.Table }

// make makes one view, with those that it names; false where the catalog has no view of that name.
func (v *viewMaker) make(t agent.StatementTable) (bool, error) {
	if slices.ContainsFunc(v.path, func(o agent.StatementTable) bool { return sameTable(o, t) }) {
		return false, refuse(-1, "The view %s.%s.%s needs itself. Replace one of the views between with a query that does not.", t.Database, t.Schema, t.Table)
	}
	if made, known := v.known[viewKey(t)]; known {
		return made, nil
	}
	if err := v.attachDatabase(t.Database); err != nil {
		return false, err
	}
	var version *viewVersion
	if _, table := v.examined[fmt.Sprint(viewKey(t), false)]; !table {
		var err error
		if version, err = v.client().view(t); err != nil {
			return false, err
		}
	}
	v.known[viewKey(t)] = version != nil
	if version == nil {
		guarded, err := v.guarded(t)
		v.known[viewKey(t)] = guarded
		return guarded, err
	}
	if len(v.known) > maxViews {
		return false, refuse(-1, "The statement needs more than %d tables and views.", maxViews)
	}
	return true, v.define(t, version)
}

// ofView reports whether a view may have such a query.
func (c class) ofView() bool { return c.kind == "SELECT" || c.kind == "VALUES" }

// define checks a view's query as a statement's own would be, and makes it.
func (v *viewMaker) define(t agent.StatementTable, version *viewVersion) error {
	name := t.Database + "." + t.Schema + "." + t.Table
	i := slices.IndexFunc(version.Representations, func(r viewRepresentation) bool { return strings.EqualFold(r.Dialect, Name) })
	if i < 0 {
		var dialects []string
		for _, r := range version.Representations {
			dialects = append(dialects, r.Dialect)
		}
		return refuse(-1, "The view %s is written for %s and cannot be read by DuckDB exactly. Drop it and make it here, or have that engine run the statement: name it as the request's engine.", name, strings.Join(dialects, ", "))
	}
	query := plainSpace(version.Representations[i].SQL)
	c, err := classify(query, v.db.forbidden)
	if err == nil && !c.ofView() {
		err = refuse(-1, "its text is no query")
	}
	if err == nil {
		err = checkMentions(mentions(c.tokens), v.db.forbiddenTables, v.db.system, v.s.Catalog.Databases)
	}
	if err != nil {
		return refuse(-1, "The view %s cannot be read: %v", name, err)
	}
	query = query[:c.tokens[len(c.tokens)-1].end]
	if comparesDistinct(c.tokens) && !v.viewsDistinct && !comparesDistinct(v.class.tokens) {
		if len(v.known) > 1 {
			return refuse(-1, "The view %s has IS DISTINCT FROM, and is read here together with other tables, of which DuckDB would then not find all rows. Write a = b and IS NULL out in the view.", name)
		}
		v.viewsDistinct, v.examined = true, nil
	}
	database := version.Catalog
	if named := databaseNamed(v.s.Catalog.Databases, database); named != "" {
		database = named
	} else if database == "" {
		database = t.Database
	}
	v.path = append(v.path, t)
	text, _, err := v.rewrite(query, canonical(tablesOf(mentions(c.tokens), c.tokens), v.s.Catalog.Databases), database, strings.Join(version.Namespace, "."))
	v.path = v.path[:len(v.path)-1]
	if err != nil {
		return err
	}
	if err := v.checkQuery(query, mentions(c.tokens), text); err != nil {
		return refuse(-1, "The view %s cannot be read: %v", name, err)
	}
	for _, sql := range []string{
		"CREATE SCHEMA IF NOT EXISTS " + quote(views) + "." + quote(t.Database+"."+t.Schema),
		"CREATE VIEW " + quote(views) + "." + quote(t.Database+"."+t.Schema) + "." + quote(t.Table) + " AS " + text,
	} {
		if err := v.conn.exec(sql); err != nil {
			return refuse(-1, "The view %s cannot be read: %v", name, err)
		}
	}
	return nil
}
