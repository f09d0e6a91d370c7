package sqltext

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxQuery is the maximum size of a statement's text, in bytes.
const MaxQuery = 1 << 20

// Class describes a statement, derived from its text. The agent classifies each statement once, and
// sends the class along with it.
type Class struct {
	Kind    string // such as SELECT, CREATE TABLE
	Write   bool
	Explain bool    // EXPLAIN of a read
	Query   bool    // its result can be selected from
	Begins  int     // offset of the explained statement, in bytes; 0 unless the statement is EXPLAIN
	Tokens  []Token `json:"-"` // of the text without the semicolons that end it
}

// Text returns the classified text without what follows its last token.
func (c Class) Text(query string) string { return query[:c.Tokens[len(c.Tokens)-1].End] }

// reasons maps a statement's first word to why it is refused and what to do instead.
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
	"grant": "the platform manages permissions", "revoke": "the platform manages permissions",
}

// Allowed names the statements that are run, as the end of a message.
const Allowed = "Run one of SELECT, VALUES, DESCRIBE, SHOW, EXPLAIN, INSERT, UPDATE, DELETE, MERGE, and CREATE, ALTER, DROP of tables, views and schemas"

// Classify accepts one statement of an allowed kind, in the dialect of any engine. It refuses
// everything else.
func Classify(query string) (Class, error) {
	all, err := readText(query)
	if err != nil {
		return Class{}, err
	}
	c, err := classifyTokens(all)
	if err != nil {
		return Class{}, err
	}
	c.Tokens = all
	return c, nil
}

// readText tokenizes the text. It refuses a text that is not exactly one statement.
func readText(query string) ([]Token, error) {
	if len(query) > MaxQuery {
		return nil, Refuse(-1, "The statement has %d bytes; at most %d are run. Put its values into a table and join that.", len(query), MaxQuery)
	}
	if !utf8.ValidString(query) || strings.ContainsRune(query, 0) {
		return nil, Refuse(-1, "The statement is not text in UTF-8, or holds a zero byte.")
	}
	all := Tokens(query)
	if err := unclear(query, all); err != nil {
		return nil, err
	}
	for len(all) > 0 && all[len(all)-1].Is(";") {
		all = all[:len(all)-1]
	}
	if len(all) == 0 {
		return nil, Refuse(-1, "There is no statement: the text is empty or a comment.")
	}
	for i, t := range all {
		if t.Is(";") {
			return nil, Refuse(t.Pos, "Run one statement at a time: another one begins after this semicolon.")
		}
		if t.Is("&") && i > 0 && all[i-1].IsWord("u") && all[i-1].End == t.Pos && i+1 < len(all) && all[i+1].Pos == t.End && (all[i+1].Kind == Quoted || all[i+1].Kind == String) {
			return nil, Refuse(all[i-1].Pos, "Names and strings with U& before them are not read here: write the characters themselves.")
		}
	}
	return all, checkNesting(all)
}

func classifyTokens(all []Token) (Class, error) {
	first := all[0]
	for i := 0; first.Is("(") && i+1 < len(all); i++ {
		first = all[i+1]
	}
	switch {
	case first.IsWord("explain"):
		return classifyExplain(all)
	case first.IsWord("create"):
		return classifyDefinition(all, "CREATE")
	case first.IsWord("alter"):
		return classifyDefinition(all, "ALTER")
	case first.IsWord("drop"):
		return classifyDefinition(all, "DROP")
	case first.IsWord("with"):
		verb := verbAfterWith(all)
		return classifyVerb(verb, all[0], Token{})
	}
	var next Token
	if i := slices.Index(all, first); i+1 < len(all) {
		next = all[i+1]
	}
	return classifyVerb(first, first, next)
}

// classifyVerb classifies a statement by its verb and the word after it.
func classifyVerb(verb, at, next Token) (Class, error) {
	switch {
	case verb.IsWord("insert", "update", "delete", "merge"):
		return Class{Kind: strings.ToUpper(verb.Text), Write: true}, nil
	case verb.IsWord("select", "from", "table"), verb.IsWord("pivot", "pivot_wider", "unpivot", "pivot_longer"):
		return Class{Kind: "SELECT", Query: true}, nil
	case verb.IsWord("values"):
		return Class{Kind: "VALUES", Query: true}, nil
	case verb.IsWord("desc", "describe"):
		return Class{Kind: "DESCRIBE", Query: true}, nil
	case verb.IsWord("show") && next.IsWord("settings"):
		return Class{}, Refuse(next.Pos, "SHOW SETTINGS is not run here: it would show the engine's settings, not the platform's. SHOW TABLES lists a schema, and DESCRIBE a table.")
	case verb.IsWord("show", "summarize"):
		return Class{Kind: strings.ToUpper(verb.Text), Query: true}, nil
	}
	if why := reasons[verb.Text]; why != "" && verb.Kind == Word {
		return Class{}, Refuse(verb.Pos, "%s is not run here: %s.", strings.ToUpper(verb.Text), why)
	}
	return Class{}, Refuse(at.Pos, "A statement that begins with %q is not run here. %s.", Cut(at.Text, 40), Allowed)
}

// verbAfterWith returns the first word outside parentheses that follows a common table expression.
func verbAfterWith(all []Token) Token {
	depth := 0
	base := 0
	for i, t := range all {
		switch {
		case t.IsWord("with") && i <= base:
		case t.Is("("):
			if depth == base && i == base {
				base++
			}
			depth++
		case t.Is(")"):
			depth--
		case depth == base && i > 0 && all[i-1].Is(")") && !t.Is(",") && !t.IsWord("as", "using"):
			return t
		}
	}
	return all[len(all)-1]
}

// classifyExplain allows EXPLAIN and EXPLAIN ANALYZE of reads. Even planning a write may touch the
// catalog.
func classifyExplain(all []Token) (Class, error) {
	rest := all[1:]
	kind := "EXPLAIN"
	for len(rest) > 0 && rest[0].IsWord("analyze", "analyse", "verbose") {
		if !rest[0].IsWord("verbose") {
			kind = "EXPLAIN ANALYZE"
		}
		rest = rest[1:]
	}
	if len(rest) > 1 && rest[0].Is("(") && rest[1].IsWord("format", "analyze", "analyse", "verbose", "type") {
		for len(rest) > 0 && !rest[0].Is(")") {
			if rest[0].IsWord("analyze", "analyse") {
				kind = "EXPLAIN ANALYZE"
			}
			rest = rest[1:]
		}
		rest = rest[min(1, len(rest)):]
	}
	if len(rest) == 0 {
		return Class{}, Refuse(all[0].Pos, "EXPLAIN needs a statement: put a SELECT after it.")
	}
	inner, err := classifyTokens(rest)
	if err != nil {
		return Class{}, err
	}
	if inner.Write || inner.Explain {
		return Class{}, Refuse(rest[0].Pos, "%s of %s is not run here: only reads can be explained.", kind, inner.Kind)
	}
	return Class{Kind: kind, Explain: true, Begins: rest[0].Pos}, nil
}

// classifyDefinition allows tables, views and schemas.
func classifyDefinition(all []Token, verb string) (Class, error) {
	rest := all[1:]
	if len(rest) > 1 && rest[0].IsWord("or") && rest[1].IsWord("replace") {
		rest = rest[2:]
	}
	if len(rest) == 0 || all[0].Is("(") {
		return Class{}, Refuse(all[0].Pos, "%s needs TABLE, VIEW or SCHEMA and a name.", verb)
	}
	what := rest[0]
	if what.IsWord("temp", "temporary", "local", "global", "unlogged", "persistent") {
		return Class{}, Refuse(what.Pos, "%s %s is not run here: a statement cannot see what an earlier one left. Use WITH in the statement itself, or a table.", verb, strings.ToUpper(what.Text))
	}
	if !what.IsWord("table", "view", "schema") {
		return Class{}, Refuse(what.Pos, "%s %s is not run here: only tables, views and schemas are made, changed and dropped by SQL.", verb, strings.ToUpper(Cut(what.Text, 40)))
	}
	if operation := (Class{Tokens: all}).Operation(); operation != "" {
		return Class{Kind: operations[operation].kind, Write: true}, nil
	}
	return Class{Kind: verb + " " + strings.ToUpper(what.Text), Write: true}, nil
}

// maxNesting bounds the nesting of values, calls and queries. DuckDB's work on their types grows at
// least with the cube of the depth. Parentheses that only group do not count.
const maxNesting = 200

func checkNesting(all []Token) error {
	var counted []bool // one entry for each open bracket
	depth := 0
	for i, t := range all {
		switch {
		case t.Is("("), t.Is("["), t.Is("{"):
			counts := !t.Is("(") || i > 0 && all[i-1].IsName() && !all[i-1].IsWord("and", "or", "not")
			counted = append(counted, counts)
			if counts {
				depth++
			}
			if depth > maxNesting {
				return Refuse(t.Pos, "The statement nests deeper than %d levels here. Build the value in steps, each in an expression of WITH.", maxNesting)
			}
		case (t.Is(")") || t.Is("]") || t.Is("}")) && len(counted) > 0:
			if last := len(counted) - 1; counted[last] {
				depth--
			}
			counted = counted[:len(counted)-1]
		}
	}
	return nil
}

// ChangesRows reports whether the statement inserts, changes or deletes rows.
func (c Class) ChangesRows() bool {
	return c.Kind == "UPDATE" || c.Kind == "DELETE" || c.Kind == "MERGE" || c.Kind == "INSERT"
}

// ComparesDistinct reports whether the statement has IS DISTINCT FROM. If it is part of an OR,
// DuckDB skips files in which a column holds only NULL.
func (c Class) ComparesDistinct() bool {
	all := c.Tokens
	for i, t := range all {
		if i > 0 && i+1 < len(all) && t.IsWord("distinct") && all[i+1].IsWord("from") && all[i-1].IsWord("is", "not") {
			return true
		}
	}
	return false
}

// OfCatalog reports whether the catalog runs the statement.
func (c Class) OfCatalog() bool {
	return strings.HasSuffix(c.Kind, " VIEW") || strings.HasSuffix(c.Kind, " SCHEMA")
}

// OfView reports whether a view may have such a query.
func (c Class) OfView() bool { return c.Kind == "SELECT" || c.Kind == "VALUES" }
