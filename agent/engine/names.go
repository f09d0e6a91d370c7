package engine

import (
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
)

// mention is a table, a view or a function in the place of one, as a statement names it.
type mention struct {
	parts  []string
	pos    int // in bytes, where it begins and where it ends
	end    int
	call   bool // a table function
	text   bool // written as a string, which DuckDB takes for a file's name
	target bool // what the statement writes, makes, changes or drops
	common bool // surely a common table expression
	unsure bool // a common table expression within itself, or the table of its name
}

// clause is how far the reading of one pair of parentheses, or of the whole statement, has come.
type clause struct {
	call   bool // the arguments of a function
	list   bool // within a FROM list
	past   bool // SELECT or FROM was seen, since the last UNION
	begun  bool // a token was seen
	expect bool // a table comes next
	target bool // and it is the statement's target
	using  bool // a USING that is to come has tables
	rows   bool // the rows of VALUES in a FROM list
}

// after these words no table follows before the next FROM. None of them can be the name of a table without quotes.
var endOfList = []string{"where", "group", "order", "having", "limit", "offset", "fetch", "window", "qualify", "select", "union", "except", "intersect", "returning", "when"}

// queryWords begin a query.
var queryWords = []string{"select", "values", "from", "with", "table", "pivot", "pivot_wider", "pivot_longer", "unpivot", "describe", "desc", "show", "summarize"}

// mentions finds the tables that a statement names, by the places in which tables stand. Names of common table expressions are among them.
func mentions(all []token) []mention {
	var found []mention
	stack := []clause{{}}
	for i := 0; i < len(all); i++ {
		c := &stack[len(stack)-1]
		t := all[i]
		switch {
		case t.is("("):
			stack = append(stack, openClause(c, all, i))
			c.expect, c.begun = false, true
			continue
		case t.is("["), t.is("{"):
			stack = append(stack, clause{call: true})
			continue
		case t.is(")"), t.is("]"), t.is("}"):
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			stack[len(stack)-1].expect = false
			continue
		case t.is(","):
			c.expect, c.target = c.list && !(c.rows && follows(all, i, "(")), false
		case i > 0 && all[i-1].is("."): // a part of a name, whatever the word
		case c.expect && aliasBefore(all, i):
		case c.expect && (t.kind == tokenQuoted || t.kind == tokenString || t.kind == tokenWord && !c.keyword(all, i)):
			m, next := path(all, i)
			m.target = c.target
			m.call = m.call && !m.target // the columns of a table that is made or written
			found = append(found, m)
			i = next - 1
			c.expect, c.target = false, false
		case t.kind == tokenWord && !aliasAfterAs(all, i, len(stack) == 1 && !c.past):
			c.word(all, i, len(stack) == 1)
		}
		c = &stack[len(stack)-1]
		c.begun, c.rows = true, c.rows && (!t.name() || t.word("values"))
	}
	return found
}

// aliasBefore reports whether the token is the name in name: table.
func aliasBefore(all []token, i int) bool {
	if !all[i].name() && all[i].kind != tokenString || !follows(all, i, ":") {
		return false
	}
	next := i + 2
	return next >= len(all) || all[next].pos > all[i+1].end || !all[next].is(":") && !all[next].is("=")
}

// aliasAfterAs reports whether a word stands after AS as a name. After the AS of CREATE a query may come.
func aliasAfterAs(all []token, i int, outer bool) bool {
	return i > 0 && all[i-1].word("as") && !(outer && all[0].word("create") && all[i].word(queryWords...))
}

// tablesOf are the mentions without functions and the names that are surely those of common table expressions.
func tablesOf(found []mention, all []token) []mention {
	common := commonTables(all)
	var tables []mention
	for _, m := range found {
		if m.call || m.text {
			continue
		}
		for _, c := range common {
			if m.target || len(m.parts) != 1 || lowerASCII(m.parts[0]) != c.name {
				continue
			}
			m.common = m.common || c.from <= m.pos && m.pos < c.end
			m.unsure = m.unsure || c.unsure <= m.pos && m.pos < c.from
		}
		if !m.common {
			tables = append(tables, m)
		}
	}
	return tables
}

func openClause(c *clause, all []token, i int) clause {
	if c.expect {
		return clause{list: true, expect: true}
	}
	return clause{call: i > 0 && all[i-1].name() && !queryFollows(all, i+1)}
}

// keyword reports whether a word in the place of a table is none, and notes what follows from it.
func (c *clause) keyword(all []token, i int) bool {
	t := all[i]
	next, before := token{}, token{}
	if i+1 < len(all) {
		next = all[i+1]
	}
	if i > 0 {
		before = all[i-1]
	}
	switch {
	case t.word("lateral", "only"), t.word("if") && next.word("not", "exists"), t.word("not") && next.word("exists"), t.word("exists") && before.word("if", "not"):
		return true
	case t.word("values") && next.is("("):
		c.expect, c.rows = false, true
		return true
	case t.word("select", "from", "with", "pivot", "pivot_wider", "pivot_longer", "unpivot", "table", "describe", "desc", "show", "summarize", "all"),
		t.word("set") && before.word("update"), t.word("tables", "databases", "schemas") && before.word("show", "describe", "desc"):
		c.expect, c.list = false, false
		return true
	}
	return false
}

func (c *clause) word(all []token, i int, outer bool) {
	t := all[i]
	before := token{}
	if i > 0 {
		before = all[i-1]
	}
	switch {
	case t.word("from"):
		if before.word("distinct") && i > 1 && all[i-2].word("is", "not") {
			return
		}
		if c.call { // extract(year FROM …) and the like
			return
		}
		c.list, c.expect, c.past, c.target = true, true, true, before.word("delete")
	case t.word("delete") && follows2(all, i, "from"), t.word("merge") && follows2(all, i, "into"):
		c.using = true
	case t.word("join"):
		c.list, c.expect, c.target = true, true, false
	case t.word("using"):
		c.list, c.expect, c.using = c.list || c.using, c.using, false
	case t.word("conflict") && before.word("on"):
		c.list, c.expect = false, false
	case t.word("into") && before.word("insert", "merge", "replace", "ignore"), t.word("update") && outer && !c.past && (i == 0 || before.is(")")), t.word("view") && before.word("create", "replace", "alter", "drop"):
		c.expect, c.target = true, true
	case t.word("table", "describe", "desc", "show", "summarize", "pivot", "unpivot", "pivot_wider", "pivot_longer"):
		if (c.past || c.list) && !t.word("pivot", "unpivot") || c.list || c.call {
			return
		}
		c.expect, c.target = true, t.word("table") && before.word("create", "replace", "alter", "drop")
	case t.word(endOfList...):
		c.list, c.expect = false, false
		if t.word("union", "except", "intersect") {
			c.call, c.past = false, false
		}
		c.past = c.past || t.word("select")
	}
}

func follows(all []token, i int, symbol string) bool { return i+1 < len(all) && all[i+1].is(symbol) }

func follows2(all []token, i int, word string) bool { return i+1 < len(all) && all[i+1].word(word) }

func queryFollows(all []token, i int) bool { return i < len(all) && all[i].word(queryWords...) }

// path reads a name with its qualifiers.
func path(all []token, i int) (mention, int) {
	m := mention{pos: all[i].pos, text: all[i].kind == tokenString, parts: []string{all[i].identifier()}}
	i++
	for i+1 < len(all) && all[i].is(".") && all[i+1].name() {
		m.parts = append(m.parts, all[i+1].identifier())
		i += 2
	}
	m.call, m.end = i < len(all) && all[i].is("("), all[i-1].end
	return m, i
}

// commonTable is a common table expression. Its name hides a table of that name from behind its query to the end of what it belongs to.
type commonTable struct {
	name              string // in lower case
	unsure, from, end int    // in bytes; between the first two it may be the name of itself, as it is where it is recursive
}

// commonTables are the names after WITH.
func commonTables(all []token) []commonTable {
	var found []commonTable
	closes := closing(all)
	var ends []int // of the parentheses that are open
	for i, t := range all {
		if n := len(ends); n > 0 && t.pos >= ends[n-1] {
			ends = ends[:n-1]
		}
		if at, ok := closes[i]; ok {
			ends = append(ends, all[at].pos)
		}
		if !t.word("with") || i > 0 && all[i-1].is(".") {
			continue
		}
		end := all[len(all)-1].end
		if n := len(ends); n > 0 {
			end = ends[n-1]
		}
		found = append(found, commonTablesAt(all, closes, i+1, end)...)
	}
	return found
}

func commonTablesAt(all []token, closes map[int]int, i, end int) (found []commonTable) {
	recursive := i < len(all) && all[i].word("recursive")
	if recursive {
		i++
	}
	for ; i < len(all) && all[i].name(); i += 2 {
		body := bodyOf(all, closes, i+1)
		last, ok := closes[body]
		if !ok {
			return found
		}
		c := commonTable{name: lowerASCII(all[i].text), unsure: all[last].pos, from: all[last].pos, end: end}
		if recursive {
			c.unsure = all[body].pos
		}
		found = append(found, c)
		if !follows(all, last, ",") {
			return found
		}
		i = last
	}
	return found
}

// bodyOf is where the query of a common table expression begins, of which the name ends before next; -1 where it is none.
func bodyOf(all []token, closes map[int]int, next int) int {
	if at, ok := closes[next]; ok {
		next = at + 1
	}
	if next+1 < len(all) && all[next].word("using") && all[next+1].word("key") {
		for next++; next < len(all) && !all[next].word("as"); {
			next++
		}
	}
	if next >= len(all) || !all[next].word("as") {
		return -1
	}
	for next++; next < len(all) && all[next].word("not", "materialized"); {
		next++
	}
	if next < len(all) && all[next].is("(") {
		return next
	}
	return -1
}

// closing leads from each parenthesis that is opened to the one that closes it.
func closing(all []token) map[int]int {
	closes := map[int]int{}
	var open []int
	for i, t := range all {
		switch n := len(open); {
		case t.is("("):
			open = append(open, i)
		case t.is(")") && n > 0:
			closes[open[n-1]] = i
			open = open[:n-1]
		}
	}
	return closes
}

// checkMentions refuses files in the place of tables, functions that are forbidden there, the engine's own tables, and names that say a database and no schema.
func checkMentions(found []mention, forbidden, system map[string]bool, databases []string) error {
	for _, m := range found {
		last := lowerASCII(m.parts[len(m.parts)-1])
		first := m.parts[0]
		switch {
		case m.call && forbidden[last]:
			return refuseFunction(m.pos, last)
		case m.call:
		case m.text || slices.ContainsFunc(m.parts, func(p string) bool { return strings.ContainsAny(p, `/\`) }):
			return refuse(m.pos, "No file or address can be read as a table (%q). Name a table as database.schema.table, or register the file's data as one.", cut(first, 60))
		case system[last], slices.ContainsFunc(m.parts[:len(m.parts)-1], enginesOwn):
			return refuse(m.pos, "%s is the engine's own and holds nothing of the platform's: tables are listed by SHOW TABLES, and described by DESCRIBE.", strings.Join(m.parts, "."))
		case len(m.parts) == 2 && databaseNamed(databases, first) != "":
			return refuse(m.pos, "%s is a database: name its schema too, as in %s.public.%s.", first, databaseNamed(databases, first), m.parts[1])
		case len(m.parts) > 3:
			return refuse(m.pos, "A table's name has three parts at most: database.schema.table. Quote a schema within a schema: \"outer.inner\".")
		}
	}
	return nil
}

// enginesOwn reports whether a part before a table's name is a database or a schema of DuckDB's.
func enginesOwn(part string) bool {
	switch lowerASCII(part) {
	case "memory", "temp", "system", "information_schema", "pg_catalog", "main":
		return true
	}
	return lowerASCII(part) == views
}

// databaseNamed is a database's name as the catalog writes it; "" where there is none.
func databaseNamed(databases []string, name string) string {
	if i := slices.IndexFunc(databases, func(d string) bool { return strings.EqualFold(d, name) }); i >= 0 {
		return databases[i]
	}
	return ""
}

// canonical writes the databases in names as the catalog does.
func canonical(found []mention, databases []string) []mention {
	for _, m := range found {
		if name := databaseNamed(databases, m.parts[0]); len(m.parts) > 2 && name != "" {
			m.parts[0] = name
		}
	}
	return found
}

// resolve makes the tables of mentions complete with the statement's database and schema.
func resolve(found []mention, s *agent.Statement, c class) (tables []agent.StatementTable) {
	for _, m := range found {
		tables = c.use(tables, m.resolve(s.Database, s.Schema), m.target)
	}
	return tables
}

// use adds a table that a statement names, unless it is there. UPDATE, DELETE and MERGE read the table that they write.
func (c class) use(all []agent.StatementTable, t agent.StatementTable, target bool) []agent.StatementTable {
	uses := []bool{target}
	if target && (c.kind == "UPDATE" || c.kind == "DELETE" || c.kind == "MERGE") {
		uses = append(uses, false)
	}
	for _, t.Target = range uses {
		if !slices.ContainsFunc(all, func(o agent.StatementTable) bool { return sameTable(o, t) && o.Target == t.Target }) {
			all = append(all, t)
		}
	}
	return all
}

// resolve is the table's whole name.
func (m mention) resolve(database, schema string) agent.StatementTable {
	t := agent.StatementTable{Database: database, Schema: schema, Table: m.parts[len(m.parts)-1]}
	if len(m.parts) > 1 {
		t.Schema = m.parts[len(m.parts)-2]
	}
	if len(m.parts) > 2 {
		t.Database = m.parts[len(m.parts)-3]
	}
	return t
}
