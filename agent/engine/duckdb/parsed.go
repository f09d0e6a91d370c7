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
	class    string // such as FUNCTION
	at       int    // in bytes
	table    string
	function string
	outer    bool // the outermost table of the query
}

// checkParsed compares the tables and functions found by tokens with those of DuckDB's parser. It
// ensures that no table, file or function escapes the checks of the text. The query starts at
// offset in the text that found refers to.
func (e *execution) checkParsed(query string, offset int, found []sqltext.TableRef) error {
	got, err := e.conn.strings("SELECT json_serialize_sql(" + sqltext.Literal(query) + ", skip_default := true, skip_null := true, skip_empty := true)")
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return sqltext.Refuse(-1, "The statement cannot be checked.")
	}
	return parsedNodes(got[0], func(n parsedNode) error { return n.check(e.db, offset, found) })
}

func (n parsedNode) check(db *database, offset int, found []sqltext.TableRef) error {
	pos := offset + n.at
	switch name := sqltext.LowerASCII(n.function); {
	case n.class == "FUNCTION" && db.forbidden[name]:
		return sqltext.RefuseFunction(pos, name)
	case n.kind == "SHOW_REF" && !n.outer:
		return sqltext.RefuseShow(pos)
	case n.kind == "BASE_TABLE" && !slices.ContainsFunc(found, func(m sqltext.TableRef) bool {
		return m.Pos == pos && strings.EqualFold(m.Parts[len(m.Parts)-1], n.table)
	}):
		return sqltext.Refuse(pos, "The table %s is named here in a form that the engine does not support. Write FROM database.schema.table AS alias.", sqltext.Cut(n.table, 60))
	}
	return nil
}

// parsedNodes calls visit for each node of a query in DuckDB's JSON form.
func parsedNodes(text string, visit func(parsedNode) error) error {
	w := &parsedWalk{d: json.NewDecoder(strings.NewReader(text)), visit: visit}
	err := w.value("", 0)
	if err == nil && w.failed {
		return &exception{Type: "Parser", Message: w.message}
	}
	return err
}

type parsedWalk struct {
	d       *json.Decoder
	visit   func(parsedNode) error
	failed  bool
	message string
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
		return w.object(parsedNode{outer: key == "from_table" && depth == 3}, depth+1)
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
	case bool:
		w.failed = w.failed || depth == 1 && key == "error" && v
	case float64:
		if key == "query_location" {
			n.at = int(v)
		}
	case string:
		switch key {
		case "type":
			n.kind = v
		case "class":
			n.class = v
		case "table_name":
			n.table = v
		case "function_name":
			n.function = v
		case "error_message":
			if depth == 1 {
				w.message = v
			}
		}
	}
}
