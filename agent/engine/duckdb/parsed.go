package duckdb

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// parsedNode holds the checked parts of a node in a query that DuckDB's parser returned.
type parsedNode struct {
	kind     string // such as BASE_TABLE
	at       int    // in bytes
	table    string
	function string
	source   bool // a function in place of a table
	outer    bool // the outermost table of the query
}

// checkRead refuses a read that is more than one query, or that uses what the engine forbids. It
// goes by DuckDB's syntax tree, so that no table, file or function escapes it. Each table must be
// among found, which the tokens name, because those are resolved and replaced. The query starts at
// offset in the text; what comes before is an EXPLAIN.
func (e *execution) checkRead(text string, offset int, all []sqltext.Token, found []sqltext.TableRef) error {
	got, err := e.conn.strings("SELECT json_serialize_sql(" + sqltext.Literal(text[offset:]) + ", skip_default := true, skip_null := true, skip_empty := true)")
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return sqltext.Refuse(-1, "The statement cannot be checked.")
	}
	w := &parsedWalk{d: json.NewDecoder(strings.NewReader(got[0])), visit: func(n parsedNode) error { return e.checkNode(n, offset, found) }}
	err = w.value("", 0)
	switch {
	case err != nil:
		return err
	case w.failure == "parser":
		for _, m := range found { // DuckDB's message about a name of four parts says nothing
			if err := e.db.own.CheckTable(m, e.s.Catalog.Databases); err != nil {
				return err
			}
		}
		return &exception{Type: "Parser", Message: w.message, Position: w.position, offset: -offset}
	case w.statements > 1, w.failure != "" && pivots(all):
		return refuseSeveral(all)
	case w.statements != 1:
		return errKind
	}
	return nil
}

func (e *execution) checkNode(n parsedNode, offset int, found []sqltext.TableRef) error {
	pos := offset + n.at
	switch {
	case n.function != "":
		return e.db.own.CheckCall(pos, n.function, n.source)
	case n.kind == "SHOW_REF" && !n.outer:
		return sqltext.RefuseShow(pos)
	case n.kind == "BASE_TABLE":
		i := slices.IndexFunc(found, func(m sqltext.TableRef) bool {
			return m.Pos == pos && strings.EqualFold(m.Parts[len(m.Parts)-1], n.table)
		})
		if i < 0 {
			return sqltext.Refuse(pos, "The table %s is named here in a form that the engine does not support. Write FROM database.schema.table AS alias.", sqltext.Cut(n.table, 60))
		}
		return e.db.own.CheckTable(found[i], e.s.Catalog.Databases)
	}
	return nil
}

// parsedWalk calls visit for each node of a query in DuckDB's JSON form. It decodes no more of it
// at once than it needs: a long query has a large tree.
type parsedWalk struct {
	d          *json.Decoder
	visit      func(parsedNode) error
	statements int

	failure, message, position string // of a query that cannot be parsed
}

// value reads an object or an array and skips a scalar.
func (w *parsedWalk) value(key string, depth int) error {
	t, err := w.d.Token()
	if err != nil {
		return err
	}
	return w.rest(t, key, depth)
}

func (w *parsedWalk) rest(t json.Token, key string, depth int) error {
	switch t {
	case json.Delim('['):
		for w.d.More() {
			if err := w.value(key, depth); err != nil {
				return err
			}
		}
		_, err := w.d.Token()
		return err
	case json.Delim('{'):
		if key == "statements" {
			w.statements++
		}
		return w.object(parsedNode{source: key == "function", outer: key == "from_table" && depth == 3}, depth+1)
	}
	return nil
}

func (w *parsedWalk) object(n parsedNode, depth int) error {
	for w.d.More() {
		key, err := w.d.Token()
		if err != nil {
			return err
		}
		value, err := w.d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := w.rest(value, name, depth); err != nil {
			return err
		}
		w.note(&n, name, value, depth)
	}
	if _, err := w.d.Token(); err != nil {
		return err
	}
	return w.visit(n)
}

func (w *parsedWalk) note(n *parsedNode, key string, value json.Token, depth int) {
	switch v := value.(type) {
	case float64:
		if key == "query_location" {
			n.at = int(v)
		}
	case string:
		switch key {
		case "type":
			n.kind = v
		case "table_name":
			n.table = v
		case "function_name":
			n.function = v
		}
		if depth > 1 {
			return
		}
		switch key {
		case "error_type":
			w.failure = v
		case "error_message":
			w.message = v
		case "position":
			w.position = v
		}
	}
}
