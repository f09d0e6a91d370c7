package sqltext

import (
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
)

// Views is a statement's own database, in which its catalog views are created. Each of its schemas
// corresponds to one of the catalog's.
const Views = "millpond views"

// TableRef is a table, a view or a table function, as a statement names it.
type TableRef struct {
	Parts  []string
	Pos    int  // offset of its start, in bytes
	End    int  // offset of its end, in bytes
	Call   bool // a table function
	text   bool // written as a string, which DuckDB reads as a file name
	Target bool // the statement writes, creates, alters or drops it
	common bool // certainly a common table expression
	Unsure bool // either a recursive common table expression or a table of that name
}

// Clause is the parser's state within one pair of parentheses, or within the whole statement.
type clause struct {
	call   bool // the arguments of a function
	list   bool // within a FROM list
	past   bool // SELECT or FROM was seen since the last UNION
	begun  bool // a token was seen
	expect bool // a table comes next
	target bool // and it is the statement's target
	using  bool // a later USING names tables
	rows   bool // within the rows of VALUES in a FROM list
}

// endOfList are the words after which no table follows before the next FROM. None of them can be an
// unquoted table name.
var endOfList = []string{"where", "group", "order", "having", "limit", "offset", "fetch", "window", "qualify", "select", "union", "except", "intersect", "returning", "when"}

// queryWords begin a query.
var queryWords = []string{"select", "values", "from", "with", "table", "pivot", "pivot_wider", "pivot_longer", "unpivot", "describe", "desc", "show", "summarize"}

// TableRefs finds the tables that a statement names, by syntactic position. The result includes the
// names of common table expressions.
func TableRefs(all []Token) []TableRef {
	var found []TableRef
	stack := []clause{{}}
	for i := 0; i < len(all); i++ {
		c := &stack[len(stack)-1]
		t := all[i]
		switch {
		case t.Is("("):
			stack = append(stack, openClause(c, all, i))
			c.expect, c.begun = false, true
			continue
		case t.Is("["), t.Is("{"):
			stack = append(stack, clause{call: true})
			continue
		case t.Is(")"), t.Is("]"), t.Is("}"):
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			stack[len(stack)-1].expect = false
			continue
		case t.Is(","):
			c.expect, c.target = c.list && !(c.rows && follows(all, i, "(")), false
		case i > 0 && all[i-1].Is("."): // a part of a name, even if it is a keyword
		case c.expect && aliasBefore(all, i):
		case c.expect && (t.Kind == Quoted || t.Kind == String || t.Kind == Word && !c.keyword(all, i)):
			m, next := QualifiedName(all, i)
			m.Target = c.target
			m.Call = m.Call && !m.Target // else these are the columns of a created or written table
			found = append(found, m)
			i = next - 1
			c.expect, c.target = false, false
		case t.Kind == Word && !aliasAfterAs(all, i, len(stack) == 1 && !c.past):
			c.word(all, i, len(stack) == 1)
		}
		c = &stack[len(stack)-1]
		c.begun, c.rows = true, c.rows && (!t.IsName() || t.IsWord("values"))
	}
	return found
}

// aliasBefore reports whether the token is the alias in alias: table.
func aliasBefore(all []Token, i int) bool {
	if !all[i].IsName() && all[i].Kind != String || !follows(all, i, ":") {
		return false
	}
	next := i + 2
	return next >= len(all) || all[next].Pos > all[i+1].End || !all[next].Is(":") && !all[next].Is("=")
}

// aliasAfterAs reports whether a word after AS is an alias. After the AS of CREATE, it may start a
// query.
func aliasAfterAs(all []Token, i int, outer bool) bool {
	return i > 0 && all[i-1].IsWord("as") && !(outer && all[0].IsWord("create") && all[i].IsWord(queryWords...))
}

// Tables returns the refs without table functions and certain common table expressions.
func Tables(found []TableRef, all []Token) []TableRef {
	common := commonTables(all)
	var tables []TableRef
	for _, m := range found {
		if m.Call || m.text {
			continue
		}
		for _, c := range common {
			if m.Target || len(m.Parts) != 1 || LowerASCII(m.Parts[0]) != c.name {
				continue
			}
			m.common = m.common || c.from <= m.Pos && m.Pos < c.end
			m.Unsure = m.Unsure || c.unsure <= m.Pos && m.Pos < c.from
		}
		if !m.common {
			tables = append(tables, m)
		}
	}
	return tables
}

func openClause(c *clause, all []Token, i int) clause {
	if c.expect {
		return clause{list: true, expect: true}
	}
	return clause{call: i > 0 && all[i-1].IsName() && !queryFollows(all, i+1)}
}

// keyword reports whether a word in a table's position is a keyword, and updates the state for it.
func (c *clause) keyword(all []Token, i int) bool {
	t := all[i]
	next, before := Token{}, Token{}
	if i+1 < len(all) {
		next = all[i+1]
	}
	if i > 0 {
		before = all[i-1]
	}
	switch {
	case t.IsWord("lateral", "only"), t.IsWord("if") && next.IsWord("not", "exists"), t.IsWord("not") && next.IsWord("exists"), t.IsWord("exists") && before.IsWord("if", "not"):
		return true
	case t.IsWord("values") && next.Is("("):
		c.expect, c.rows = false, true
		return true
	case t.IsWord("select", "from", "with", "pivot", "pivot_wider", "pivot_longer", "unpivot", "table", "describe", "desc", "show", "summarize", "all"),
		t.IsWord("set") && before.IsWord("update"), t.IsWord("tables", "databases", "schemas") && before.IsWord("show", "describe", "desc"):
		c.expect, c.list = false, false
		return true
	}
	return false
}

func (c *clause) word(all []Token, i int, outer bool) {
	t := all[i]
	before := Token{}
	if i > 0 {
		before = all[i-1]
	}
	switch {
	case t.IsWord("from"):
		if before.IsWord("distinct") && i > 1 && all[i-2].IsWord("is", "not") {
			return
		}
		if c.call { // extract(year FROM …) and the like
			return
		}
		c.list, c.expect, c.past, c.target = true, true, true, before.IsWord("delete")
	case t.IsWord("delete") && follows2(all, i, "from"), t.IsWord("merge") && follows2(all, i, "into"):
		c.using = true
	case t.IsWord("join"):
		c.list, c.expect, c.target = true, true, false
	case t.IsWord("using"):
		c.list, c.expect, c.using = c.list || c.using, c.using, false
	case t.IsWord("conflict") && before.IsWord("on"):
		c.list, c.expect = false, false
	case t.IsWord("into") && before.IsWord("insert", "merge", "replace", "ignore"), t.IsWord("update") && outer && !c.past && (i == 0 || before.Is(")")), t.IsWord("view") && before.IsWord("create", "replace", "alter", "drop"):
		c.expect, c.target = true, true
	case t.IsWord("table", "describe", "desc", "show", "summarize", "pivot", "unpivot", "pivot_wider", "pivot_longer"):
		if (c.past || c.list) && !t.IsWord("pivot", "unpivot") || c.list || c.call {
			return
		}
		c.expect, c.target = true, t.IsWord("table") && before.IsWord("create", "replace", "alter", "drop")
	case t.IsWord(endOfList...):
		c.list, c.expect = false, false
		if t.IsWord("union", "except", "intersect") {
			c.call, c.past = false, false
		}
		c.past = c.past || t.IsWord("select")
	}
}

func follows(all []Token, i int, symbol string) bool { return i+1 < len(all) && all[i+1].Is(symbol) }

func follows2(all []Token, i int, word string) bool { return i+1 < len(all) && all[i+1].IsWord(word) }

func queryFollows(all []Token, i int) bool { return i < len(all) && all[i].IsWord(queryWords...) }

// QualifiedName parses a qualified name.
func QualifiedName(all []Token, i int) (TableRef, int) {
	m := TableRef{Pos: all[i].Pos, text: all[i].Kind == String, Parts: []string{all[i].Identifier()}}
	i++
	for i+1 < len(all) && all[i].Is(".") && all[i+1].IsName() {
		m.Parts = append(m.Parts, all[i+1].Identifier())
		i += 2
	}
	m.Call, m.End = i < len(all) && all[i].Is("("), all[i-1].End
	return m, i
}

// commonTable is a common table expression. Its name hides a table of that name from the end of its
// Query to the end of the enclosing statement.
type commonTable struct {
	name string // in lower case
	// Offsets in bytes. Between unsure and from, the name may refer to itself, as it does if the
	// expression is recursive.
	unsure, from, end int
}

// commonTables returns the common table expressions of WITH.
func commonTables(all []Token) []commonTable {
	var found []commonTable
	closes := closing(all)
	var ends []int // of open parentheses
	for i, t := range all {
		if n := len(ends); n > 0 && t.Pos >= ends[n-1] {
			ends = ends[:n-1]
		}
		if at, ok := closes[i]; ok {
			ends = append(ends, all[at].Pos)
		}
		if !t.IsWord("with") || i > 0 && all[i-1].Is(".") {
			continue
		}
		end := all[len(all)-1].End
		if n := len(ends); n > 0 {
			end = ends[n-1]
		}
		found = append(found, commonTablesAt(all, closes, i+1, end)...)
	}
	return found
}

func commonTablesAt(all []Token, closes map[int]int, i, end int) (found []commonTable) {
	recursive := i < len(all) && all[i].IsWord("recursive")
	if recursive {
		i++
	}
	for ; i < len(all) && all[i].IsName(); i += 2 {
		body := bodyOf(all, closes, i+1)
		last, ok := closes[body]
		if !ok {
			return found
		}
		c := commonTable{name: LowerASCII(all[i].Text), unsure: all[last].Pos, from: all[last].Pos, end: end}
		if recursive {
			c.unsure = all[body].Pos
		}
		found = append(found, c)
		if !follows(all, last, ",") {
			return found
		}
		i = last
	}
	return found
}

// bodyOf returns the index at which a common table expression's query starts, or -1. Its name ends
// before next.
func bodyOf(all []Token, closes map[int]int, next int) int {
	if at, ok := closes[next]; ok {
		next = at + 1
	}
	if next+1 < len(all) && all[next].IsWord("using") && all[next+1].IsWord("key") {
		for next++; next < len(all) && !all[next].IsWord("as"); {
			next++
		}
	}
	if next >= len(all) || !all[next].IsWord("as") {
		return -1
	}
	for next++; next < len(all) && all[next].IsWord("not", "materialized"); {
		next++
	}
	if next < len(all) && all[next].Is("(") {
		return next
	}
	return -1
}

// closing maps each opening parenthesis to its closing one.
func closing(all []Token) map[int]int {
	closes := map[int]int{}
	var open []int
	for i, t := range all {
		switch n := len(open); {
		case t.Is("("):
			open = append(open, i)
		case t.Is(")") && n > 0:
			closes[open[n-1]] = i
			open = open[:n-1]
		}
	}
	return closes
}

// DatabaseNamed returns a database's name as the catalog writes it, or "" if there is none.
func DatabaseNamed(databases []string, name string) string {
	if i := slices.IndexFunc(databases, func(d string) bool { return strings.EqualFold(d, name) }); i >= 0 {
		return databases[i]
	}
	return ""
}

// Canonical rewrites the database names as the catalog writes them.
func Canonical(found []TableRef, databases []string) []TableRef {
	for _, m := range found {
		if name := DatabaseNamed(databases, m.Parts[0]); len(m.Parts) > 2 && name != "" {
			m.Parts[0] = name
		}
	}
	return found
}

// Resolve completes the refs with the statement's database and schema.
func Resolve(found []TableRef, s *agent.Statement, c Class) (tables []agent.StatementTable) {
	for _, m := range found {
		tables = c.AddTable(tables, m.Resolve(s.Database, s.Schema), m.Target)
	}
	return tables
}

// AddTable adds a table that a statement names, unless the list has it. UPDATE, DELETE and MERGE
// also read the table that they write.
func (c Class) AddTable(all []agent.StatementTable, t agent.StatementTable, target bool) []agent.StatementTable {
	uses := []bool{target}
	if target && (c.Kind == "UPDATE" || c.Kind == "DELETE" || c.Kind == "MERGE") {
		uses = append(uses, false)
	}
	for _, t.Target = range uses {
		if !slices.ContainsFunc(all, func(o agent.StatementTable) bool {
			return SameTable(o, t) && o.Target == t.Target && SameSnapshot(o, t)
		}) {
			all = append(all, t)
		}
	}
	return all
}

// SameSnapshot reports whether both name one snapshot, or neither names one.
func SameSnapshot(a, b agent.StatementTable) bool {
	if a.Snapshot == nil || b.Snapshot == nil {
		return a.Snapshot == b.Snapshot
	}
	return *a.Snapshot == *b.Snapshot
}

// Resolve returns the table's full name.
func (m TableRef) Resolve(database, schema string) agent.StatementTable {
	t := agent.StatementTable{Database: database, Schema: schema, Table: m.Parts[len(m.Parts)-1]}
	if len(m.Parts) > 1 {
		t.Schema = m.Parts[len(m.Parts)-2]
	}
	if len(m.Parts) > 2 {
		t.Database = m.Parts[len(m.Parts)-3]
	}
	return t
}

// SameTable reports whether two tables have one name.
func SameTable(a, b agent.StatementTable) bool {
	return a.Database == b.Database && a.Schema == b.Schema && a.Table == b.Table
}

// Literal returns a string of SQL.
func Literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Quote returns a name in quotes.
func Quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
