package engine

import (
	"strconv"
	"strings"

	"github.com/millpond/millpond/agent"
)

// TrinoName is that of Trino, as statements name it.
const TrinoName = "trino"

// route says which engine runs a statement, by its text alone, and why. Writes go to the write engine of the warehouse, and everything else to DuckDB, unless the
// statement names an engine. Views are the catalog's either way: DuckDB's dialect is that of reads.
func (e *Engine) route(s *agent.Statement) (class, string, error) {
	c, err := classify(plainSpace(s.Query), nil)
	switch s.Engine {
	case Name:
		return c, routing(c, s), err
	case TrinoName:
		if e.trino == nil {
			return c, "", refuse(-1, "This warehouse has no engine %q; it has %s. A warehouse whose write engine is Trino has both.", TrinoName, Name)
		}
		c, err = classifyTrino(plainSpace(s.Query))
		c.trino = true
		return c, "The request names Trino.", err
	case "":
	default:
		return c, "", refuse(-1, "This warehouse has no engine %q; it has %s.", cut(s.Engine, 40), strings.Join(e.names(), " and "))
	}
	if e.trino == nil {
		return c, routing(c, s), err
	}
	t, refused := classifyTrino(plainSpace(s.Query))
	if refused == nil && t.write && !strings.HasSuffix(t.kind, " VIEW") {
		t.trino = true
		return t, "The write engine of this warehouse is Trino.", nil
	}
	return c, routing(c, s), err
}

func (e *Engine) names() []string {
	if e.trino == nil {
		return []string{Name}
	}
	return []string{Name, TrinoName}
}

func routing(c class, s *agent.Statement) string {
	switch {
	case s.Engine == Name:
		return "The request names DuckDB."
	case strings.HasSuffix(c.kind, " VIEW"):
		return "Views are kept by the catalog, in DuckDB's dialect, which is that of reads."
	case c.executes():
		return "The write engine of this warehouse is DuckDB, beside which iceberg-go maintains tables."
	case c.write:
		return "The write engine of this warehouse is DuckDB."
	}
	return "DuckDB serves reads."
}

// classifyTrino knows a statement of Trino's dialect by its leading words: Trino itself would run CREATE CATALOG, GRANT, SET ROLE and CALL.
func classifyTrino(query string) (class, error) {
	text, err := checkText(query)
	if err != nil {
		return class{}, err
	}
	c, err := classifyTokens(withoutReplace(text.tokens))
	if err != nil {
		return class{}, err
	}
	c.tokens = text.tokens
	for _, t := range c.tokens {
		if t.kind == tokenString && query[t.pos] != '\'' && query[t.pos]|0x20 != 'x' {
			return c, refuse(t.pos, "Trino knows strings between single quotes alone.")
		}
	}
	return c, nil
}

// checkProperties refuses tables that DuckDB, and so the reads of a warehouse, would not open: their files are Parquet, and their format has deletes of rows.
func checkProperties(c class) error {
	if c.kind != "CREATE TABLE" && c.kind != "ALTER TABLE" {
		return nil
	}
	listed := false // from WITH (, or SET PROPERTIES, on
	for i, t := range c.tokens {
		listed = listed || t.word("properties") || t.word("with") && follows(c.tokens, i, "(")
		if listed && t.word("as") { // the query
			return nil
		}
		if !listed || !t.name() || !follows(c.tokens, i, "=") || i+2 >= len(c.tokens) {
			continue
		}
		switch value := c.tokens[i+2]; {
		case strings.EqualFold(t.text, "format") && value.kind == tokenString && !strings.EqualFold(value.text, "parquet"):
			return refuse(value.pos, "Files of tables are Parquet here, which all engines read. Leave format out.")
		case strings.EqualFold(t.text, "format_version") && value.text == "1":
			return refuse(value.pos, "Tables have the format version 2 here: of version 1 no rows can be deleted. Leave format_version out.")
		}
	}
	return nil
}

// withoutReplace leaves OR REPLACE of a table out: Trino replaces a table in one commit, which keeps its history.
func withoutReplace(all []token) []token {
	if len(all) > 3 && all[0].word("create") && all[1].word("or") && all[2].word("replace") && all[3].word("table") {
		return append([]token{all[0]}, all[3:]...)
	}
	return all
}

// trinoText is a statement as Trino gets it: what the engine took for its words and nothing more, as the two do not take the same for a comment. Parameters are
// Trino's, each for one value; order has the number of the value for each, 0 of one that has a name. Places in the text stay what they are.
func trinoText(query string, all []token) (text string, order []int) {
	b := []byte(query[:all[len(all)-1].end])
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
	next := 0
	for _, t := range all {
		if t.kind != tokenParameter {
			copy(b[t.pos:t.end], query[t.pos:t.end])
			continue
		}
		b[t.pos] = '?'
		n, _ := strconv.Atoi(strings.TrimPrefix(t.text, "$"))
		if t.text == "?" {
			next++
			n = next
		}
		order = append(order, n)
	}
	return string(b), order
}
