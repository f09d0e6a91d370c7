package duckdb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// maxViews bounds the number of views of a statement, nested ones included.
const maxViews = 100

// withViews creates the catalog's views that a query names, after DuckDB did not find a table. It
// returns the query with the view names replaced by the statement's own. If there are no such
// views, it returns DuckDB's error.
func (e *execution) withViews(query string, missed error) (string, error) {
	d, ok := errors.AsType[*exception](missed)
	if missed != nil && (!ok || d.Type != "Catalog" || !strings.Contains(d.Message, "does not exist") || e.s.Catalog.URL == "" || len(e.named) == 0 || slices.Contains(e.attached, sqltext.Views)) {
		return "", missed
	}
	if err := e.conn.exec("ATTACH ':memory:' AS " + sqltext.Quote(sqltext.Views)); err != nil {
		return "", err
	}
	e.attached = append(e.attached, sqltext.Views)
	all := sqltext.Tokens(query)
	v := &viewMaker{execution: e, known: map[string]bool{}}
	text, found, err := v.rewrite(query, all, sqltext.TableRefs(all), e.s.Database, e.s.Schema)
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
	known  map[string]bool        // by name, whether it is a view
	tables []agent.StatementTable // named by the statement and its views
	path   []agent.StatementTable // the views being created, outermost first
}

// rewrite completes the names in a query, and replaces those of views with the statement's own.
func (v *viewMaker) rewrite(query string, all []sqltext.Token, refs []sqltext.TableRef, database, schema string) (text string, found bool, err error) {
	var b strings.Builder
	last := 0
	for _, m := range sqltext.Canonical(sqltext.Tables(refs, all), v.s.Catalog.Databases) {
		t := m.Resolve(database, schema)
		if m.Unsure {
			if err := v.refuseAmbiguous(m, t); err != nil {
				return "", false, err
			}
			continue
		}
		if at := sqltext.TravelOf(query, all, m); at != nil {
			text, snapshot, err := v.travelled(t, at)
			if err != nil {
				return "", false, err
			}
			t.Snapshot = snapshot
			v.tables, found = v.class.AddTable(v.tables, t, false), true
			b.WriteString(query[last:m.Pos] + text)
			last = at.End
			continue
		}
		isView := false
		if !m.Target || len(v.path) > 0 {
			if isView, err = v.make(t); err != nil {
				return "", false, err
			}
		}
		v.tables = v.class.AddTable(v.tables, t, m.Target && len(v.path) == 0)
		b.WriteString(query[last:m.Pos])
		if isView {
			found = true
			b.WriteString(sqltext.Quote(sqltext.Views) + "." + sqltext.Quote(t.Database+"."+t.Schema) + "." + sqltext.Quote(t.Table))
		} else {
			b.WriteString(sqltext.Quote(t.Database) + "." + sqltext.Quote(t.Schema) + "." + sqltext.Quote(t.Table))
		}
		last = m.End
	}
	b.WriteString(query[last:])
	return b.String(), found, nil
}

// refuseAmbiguous refuses a name that may be a table or the enclosing recursive expression, if the
// two differ.
func (v *viewMaker) refuseAmbiguous(m sqltext.TableRef, t agent.StatementTable) error {
	special, err := v.make(t)
	if err == nil && special {
		err = sqltext.Refuse(m.Pos, "%s is both a table and the expression of WITH RECURSIVE in which it stands. Write the table's whole name: %s.%s.%s.", m.Parts[0], t.Database, t.Schema, t.Table)
	}
	return err
}

func viewKey(t agent.StatementTable) string { return t.Database + "\x00" + t.Schema + "\x00" + t.Table }

// make creates one view and the views that it names. It returns false if the catalog has no view of
// that name.
func (v *viewMaker) make(t agent.StatementTable) (bool, error) {
	if slices.ContainsFunc(v.path, func(o agent.StatementTable) bool { return sqltext.SameTable(o, t) }) {
		return false, sqltext.Refuse(-1, "The view %s.%s.%s needs itself. Replace one of the views between with a query that does not.", t.Database, t.Schema, t.Table)
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
		if version, err = v.catalog.view(t); err != nil {
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
		return false, sqltext.Refuse(-1, "The statement needs more than %d tables and views.", maxViews)
	}
	return true, v.define(t, version)
}

// define checks a view's query like a statement's own, and creates the view.
func (v *viewMaker) define(t agent.StatementTable, version *viewVersion) error {
	name := t.Database + "." + t.Schema + "." + t.Table
	i := slices.IndexFunc(version.Representations, func(r viewRepresentation) bool { return strings.EqualFold(r.Dialect, Name) })
	if i < 0 {
		var dialects []string
		for _, r := range version.Representations {
			dialects = append(dialects, r.Dialect)
		}
		return sqltext.Refuse(-1, "The view %s is written for %s and cannot be read by DuckDB exactly. Drop it and create it here, or have that engine run the statement: name it as the request's engine.", name, strings.Join(dialects, ", "))
	}
	query := sqltext.PlainSpace(version.Representations[i].SQL)
	c, err := sqltext.Classify(query)
	if err == nil && !c.OfView() {
		err = sqltext.Refuse(-1, "its text is no query")
	}
	found := sqltext.TableRefs(c.Tokens)
	if err == nil {
		query = c.Text(query)
		err = v.checkRead(query, 0, c.Tokens, found)
	}
	if err != nil {
		return sqltext.Refuse(-1, "The view %s cannot be read: %v", name, err)
	}
	if c.ComparesDistinct() && !v.viewsDistinct && !v.class.ComparesDistinct() {
		if len(v.known) > 1 {
			return sqltext.Refuse(-1, "The view %s has IS DISTINCT FROM, and is read here together with other tables, of which DuckDB would then not find all rows. Write a = b and IS NULL out in the view.", name)
		}
		v.viewsDistinct, v.examined = true, nil
	}
	database := version.Catalog
	if named := sqltext.DatabaseNamed(v.s.Catalog.Databases, database); named != "" {
		database = named
	} else if database == "" {
		database = t.Database
	}
	v.path = append(v.path, t)
	text, _, err := v.rewrite(query, c.Tokens, found, database, strings.Join(version.Namespace, "."))
	v.path = v.path[:len(v.path)-1]
	if err != nil {
		return err
	}
	if err := v.create(t, text); err != nil {
		return sqltext.Refuse(-1, "The view %s cannot be read: %v", name, err)
	}
	return nil
}

// create creates a view in the statement's own database. It is the last look at a text that holds
// names from the catalog: the whole must be one statement.
func (v *viewMaker) create(t agent.StatementTable, query string) error {
	in := sqltext.Quote(sqltext.Views) + "." + sqltext.Quote(t.Database+"."+t.Schema)
	if err := v.conn.exec("CREATE SCHEMA IF NOT EXISTS " + in); err != nil {
		return err
	}
	sql := "CREATE VIEW " + in + "." + sqltext.Quote(t.Table) + " AS " + query
	if n, err := v.conn.count(sql); err != nil {
		return err
	} else if n != 1 {
		return sqltext.Refuse(-1, "its text is more than one statement")
	}
	return v.conn.exec(sql)
}
