package engine

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/agent"
)

// MaxQuery bounds the text of a statement, in bytes.
const MaxQuery = 1 << 20

// refusal is a statement's failure that the engine itself found.
type refusal struct {
	fault   agent.StatementFault
	message string
	pos     int // in bytes, where that is known; else -1
}

func (r *refusal) Error() string { return r.message }

func refuse(pos int, format string, args ...any) *refusal {
	return &refusal{agent.FaultQuery, fmt.Sprintf(format, args...), pos}
}

// class is what a statement is, by its text.
type class struct {
	kind    string // such as SELECT, CREATE TABLE
	write   bool
	explain bool // EXPLAIN of a read
	query   bool // has a result that can be selected from
	begins  int  // where what is explained begins, in bytes; 0 for a statement that is not EXPLAIN
	tokens  []token
	trino   bool // it runs in Trino
}

// reasons are why what begins with a word is refused, and what to do.
var reasons = map[string]string{
	"attach": "databases are made and attached by the platform", "detach": "databases are made and attached by the platform",
	"copy": "files are neither read nor written by SQL here: fetch a statement's result as Arrow, CSV or JSON", "export": "files are neither read nor written by SQL here",
	"import": "files are neither read nor written by SQL here", "install": "extensions are fixed", "load": "extensions are fixed", "update_extensions": "extensions are fixed",
	"set": "settings are fixed", "reset": "settings are fixed", "pragma": "settings are fixed", "use": "name the database and the schema in the request instead",
	"call": "functions are called in a SELECT", "checkpoint": "the platform maintains tables", "vacuum": "the platform maintains tables", "analyze": "the platform maintains tables",
	"prepare": "give the statement's parameters in the request instead", "execute": "give the statement's parameters in the request instead",
	"deallocate": "give the statement's parameters in the request instead", "begin": "each statement is a transaction of its own", "start": "each statement is a transaction of its own",
	"commit": "each statement is a transaction of its own", "end": "each statement is a transaction of its own", "rollback": "each statement is a transaction of its own",
	"abort": "each statement is a transaction of its own", "comment": "comments are properties of a table, which the catalog keeps", "truncate": "use DELETE FROM",
	"grant": "who may do what is settled in the platform", "revoke": "who may do what is settled in the platform",
}

const allowed = "Run one of SELECT, VALUES, DESCRIBE, SHOW, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, and CREATE, ALTER, DROP of tables, views and schemas"

// classify refuses all but one statement of an allowed kind that calls no forbidden function.
func classify(query string, forbidden map[string]bool) (class, error) {
	text, err := checkText(query)
	if err != nil {
		return class{}, err
	}
	c, err := classifyTokens(text.tokens)
	if err != nil {
		return class{}, err
	}
	c.tokens = text.tokens
	if err := checkShows(c); err != nil {
		return class{}, err
	}
	return c, checkCalls(c.tokens, forbidden)
}

// checkText refuses what is not the text of one statement, and answers its tokens.
func checkText(query string) (class, error) {
	if len(query) > MaxQuery {
		return class{}, refuse(-1, "The statement has %d bytes; at most %d are run. Put its values into a table and join that.", len(query), MaxQuery)
	}
	if !utf8.ValidString(query) || strings.ContainsRune(query, 0) {
		return class{}, refuse(-1, "The statement is not text in UTF-8, or holds a zero byte.")
	}
	all := tokens(query)
	if err := unclear(query, all); err != nil {
		return class{}, err
	}
	for len(all) > 0 && all[len(all)-1].is(";") {
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		return class{}, refuse(-1, "There is no statement: the text is empty or a comment.")
	}
	for i, t := range all {
		if t.is(";") {
			return class{}, refuse(t.pos, "Run one statement at a time: another one begins after this semicolon.")
		}
		if t.is("&") && i > 0 && all[i-1].word("u") && all[i-1].end == t.pos && i+1 < len(all) && all[i+1].pos == t.end && (all[i+1].kind == tokenQuoted || all[i+1].kind == tokenString) {
			return class{}, refuse(all[i-1].pos, "Names and strings with U& before them are not read here: write the characters themselves.")
		}
	}
	return class{tokens: all}, checkNesting(all)
}

func classifyTokens(all []token) (class, error) {
	first := all[0]
	for i := 0; first.is("(") && i+1 < len(all); i++ {
		first = all[i+1]
	}
	switch {
	case first.word("explain"):
		return classifyExplain(all)
	case first.word("create"):
		return classifyDefinition(all, "CREATE")
	case first.word("alter"):
		return classifyDefinition(all, "ALTER")
	case first.word("drop"):
		return classifyDefinition(all, "DROP")
	case first.word("with"):
		verb := verbAfterWith(all)
		return classifyVerb(verb, all[0], token{})
	}
	var next token
	if i := slices.Index(all, first); i+1 < len(all) {
		next = all[i+1]
	}
	return classifyVerb(first, first, next)
}

// classifyVerb knows a statement by the word that says what it does, and the one after.
func classifyVerb(verb, at, next token) (class, error) {
	switch {
	case verb.word("insert", "update", "delete", "merge"):
		return class{kind: strings.ToUpper(verb.text), write: true}, nil
	case verb.word("select", "from", "table"), verb.word("pivot", "pivot_wider", "unpivot", "pivot_longer"):
		return class{kind: "SELECT", query: true}, nil
	case verb.word("values"):
		return class{kind: "VALUES", query: true}, nil
	case verb.word("desc", "describe"):
		return class{kind: "DESCRIBE", query: true}, nil
	case verb.word("show") && next.word("settings"):
		return class{}, refuse(next.pos, "SHOW SETTINGS is not run here: it would tell of the engine rather than of the platform. SHOW TABLES lists a schema, and DESCRIBE a table.")
	case verb.word("show", "summarize"):
		return class{kind: strings.ToUpper(verb.text), query: true}, nil
	}
	if why := reasons[verb.text]; why != "" && verb.kind == tokenWord {
		return class{}, refuse(verb.pos, "%s is not run here: %s.", strings.ToUpper(verb.text), why)
	}
	return class{}, refuse(at.pos, "A statement that begins with %q is not run here. %s.", cut(at.text, 40), allowed)
}

// verbAfterWith is the word after the common table expressions: the first one outside of parentheses that follows one.
func verbAfterWith(all []token) token {
	depth := 0
	base := 0
	for i, t := range all {
		switch {
		case t.word("with") && i <= base:
		case t.is("("):
			if depth == base && i == base {
				base++
			}
			depth++
		case t.is(")"):
			depth--
		case depth == base && i > 0 && all[i-1].is(")") && !t.is(",") && !t.word("as", "using"):
			return t
		}
	}
	return all[len(all)-1]
}

// classifyExplain allows EXPLAIN and EXPLAIN ANALYZE of reads. Even planning a write may touch the catalog.
func classifyExplain(all []token) (class, error) {
	rest := all[1:]
	kind := "EXPLAIN"
	for len(rest) > 0 && rest[0].word("analyze", "analyse", "verbose") {
		if !rest[0].word("verbose") {
			kind = "EXPLAIN ANALYZE"
		}
		rest = rest[1:]
	}
	if len(rest) > 1 && rest[0].is("(") && rest[1].word("format", "analyze", "analyse", "verbose", "type") {
		for len(rest) > 0 && !rest[0].is(")") {
			if rest[0].word("analyze", "analyse") {
				kind = "EXPLAIN ANALYZE"
			}
			rest = rest[1:]
		}
		rest = rest[min(1, len(rest)):]
	}
	if len(rest) == 0 {
		return class{}, refuse(all[0].pos, "EXPLAIN what? Put a SELECT after it.")
	}
	inner, err := classifyTokens(rest)
	if err != nil {
		return class{}, err
	}
	if inner.write || inner.explain {
		return class{}, refuse(rest[0].pos, "%s of %s is not run here: only reads can be explained.", kind, inner.kind)
	}
	return class{kind: kind, explain: true, begins: rest[0].pos}, nil
}

// classifyDefinition allows tables, views and schemas.
func classifyDefinition(all []token, verb string) (class, error) {
	rest := all[1:]
	if len(rest) > 1 && rest[0].word("or") && rest[1].word("replace") {
		rest = rest[2:]
		if len(rest) > 0 && rest[0].word("table") {
			return class{}, refuse(all[1].pos, "CREATE OR REPLACE TABLE is not run here: the old table would be gone before the new one is made. Use DELETE FROM and INSERT, which keep the table's history, or DROP TABLE and CREATE TABLE.")
		}
	}
	if len(rest) == 0 || all[0].is("(") {
		return class{}, refuse(all[0].pos, "%s needs TABLE, VIEW or SCHEMA and a name.", verb)
	}
	what := rest[0]
	if what.word("temp", "temporary", "local", "global", "unlogged", "persistent") {
		return class{}, refuse(what.pos, "%s %s is not run here: nothing of one statement is seen by the next. Use WITH in the statement itself, or a table.", verb, strings.ToUpper(what.text))
	}
	if !what.word("table", "view", "schema") {
		return class{}, refuse(what.pos, "%s %s is not run here: only tables, views and schemas are made, changed and dropped by SQL.", verb, strings.ToUpper(cut(what.text, 40)))
	}
	if procedure, _ := executed(all); procedure.operation() != "" {
		return class{kind: procedure.operation().Kind(), write: true}, nil
	}
	return class{kind: verb + " " + strings.ToUpper(what.text), write: true}, nil
}

// maxNesting bounds how deep values, calls and queries lie within each other: what DuckDB does with their types grows with the cube of it, and more.
// Parentheses that only group do not count.
const maxNesting = 200

func checkNesting(all []token) error {
	var counted []bool // of the brackets that are open
	depth := 0
	for i, t := range all {
		switch {
		case t.is("("), t.is("["), t.is("{"):
			counts := !t.is("(") || i > 0 && all[i-1].name() && !all[i-1].word("and", "or", "not")
			counted = append(counted, counts)
			if counts {
				depth++
			}
			if depth > maxNesting {
				return refuse(t.pos, "The statement nests deeper than %d levels here. Build the value in steps, each in an expression of WITH.", maxNesting)
			}
		case (t.is(")") || t.is("]") || t.is("}")) && len(counted) > 0:
			if last := len(counted) - 1; counted[last] {
				depth--
			}
			counted = counted[:len(counted)-1]
		}
	}
	return nil
}

// checkShows refuses SHOW and the like within another statement.
func checkShows(c class) error {
	begun := false
	for i, t := range c.tokens {
		if t.is("(") || t.pos < c.begins {
			continue
		}
		before := token{}
		if i > 0 {
			before = c.tokens[i-1]
		}
		inner := t.word("show", "describe", "summarize") && (!before.word("as") || c.write) || t.word("desc") && (before.is("(") || before.word("as"))
		if begun && inner && !before.is(".") {
			return refuseShow(t.pos)
		}
		begun = true
	}
	return nil
}

// checkCalls refuses calls of forbidden functions, wherever they stand.
func checkCalls(all []token, forbidden map[string]bool) error {
	for i, t := range all[:len(all)-1] {
		if t.name() && all[i+1].is("(") && forbidden[lowerASCII(t.text)] {
			return refuseFunction(t.pos, lowerASCII(t.text))
		}
	}
	return nil
}

func refuseFunction(pos int, name string) error {
	return refuse(pos, "The function %s is not run here: it reads files, addresses, settings or the engine's own state. Tables are read by their names.", name)
}

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}
