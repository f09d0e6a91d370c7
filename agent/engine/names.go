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
	target bool // what the statement writes, makes, changes, drops or describes
}

// clause is how far the reading of one pair of parentheses, or of the whole statement, has come.
type clause struct {
	call     bool // the arguments of a function
	list     bool // within a FROM list
	selected bool // SELECT was seen
	begun    bool // a token was seen
	expect   bool // a table comes next
	target   bool // and it is the statement's target
}

// after these words no table follows before the next FROM.
var endOfList = []string{
	"where", "group", "order", "having", "limit", "offset", "fetch", "window", "qualify", "select", "set", "values", "union", "except", "intersect", "returning", "when", "sample",
}

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
		case t.is(")"):
			if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			stack[len(stack)-1].expect = false
			continue
		case t.is(","):
			c.expect, c.target = c.list, false
		case c.expect && (t.kind == tokenQuoted || t.kind == tokenString || t.kind == tokenWord && !c.keyword(t)):
			m, next := path(all, i)
			m.target = c.target
			m.call = m.call && !m.target // the columns of a table that is made or written
			found = append(found, m)
			i = next - 1
			c.expect, c.target = false, false
		case t.kind == tokenWord:
			c.word(all, i)
		}
		stack[len(stack)-1].begun = true
	}
	return found
}

// tablesOf are the mentions without functions and the names of common table expressions, wherever in the statement those are declared.
func tablesOf(found []mention, all []token) []mention {
	common := commonTables(all)
	return slices.DeleteFunc(slices.Clone(found), func(m mention) bool {
		return m.call || m.text || len(m.parts) == 1 && common[strings.ToLower(m.parts[0])]
	})
}

func openClause(c *clause, all []token, i int) clause {
	if c.expect {
		return clause{list: true, expect: true}
	}
	return clause{call: i > 0 && all[i-1].name()}
}

// keyword reports whether a word in the place of a table is none, and notes what follows from it.
func (c *clause) keyword(t token) bool {
	if t.word("lateral", "only", "if", "not", "exists", "recursive") {
		return true
	}
	if t.word("select", "values", "from", "with", "set", "pivot", "unpivot", "table", "describe", "show", "summarize", "tables", "all", "databases", "schemas") {
		c.expect, c.list = false, false
		return true
	}
	return false
}

func (c *clause) word(all []token, i int) {
	t := all[i]
	switch {
	case t.word("from"):
		if i > 0 && all[i-1].word("distinct") && i > 1 && all[i-2].word("is", "not") {
			return
		}
		if c.call && !c.selected && c.begun { // extract(year FROM …) and the like
			return
		}
		c.list, c.expect, c.target = true, true, i > 0 && all[i-1].word("delete")
	case t.word("join"):
		c.list, c.expect = true, true
	case t.word("using"):
		if follows(all, i, "(") && !queryFollows(all, i+2) || c.list && !deletes(all) {
			return
		}
		c.list, c.expect = true, true
	case t.word("into", "update", "table", "view", "describe", "desc", "show", "summarize", "pivot", "unpivot", "pivot_wider", "pivot_longer"):
		if c.selected && !t.word("pivot", "unpivot") || c.list {
			return
		}
		c.expect, c.target = true, t.word("into", "update", "view") || t.word("table") && i > 0 && all[i-1].word("create", "replace", "alter", "drop")
	case t.word(endOfList...):
		c.list, c.expect = false, false
		c.selected = c.selected || t.word("select")
	}
}

func follows(all []token, i int, symbol string) bool { return i+1 < len(all) && all[i+1].is(symbol) }

func queryFollows(all []token, i int) bool {
	return i < len(all) && all[i].word("select", "values", "from", "with", "table", "pivot", "unpivot")
}

func deletes(all []token) bool {
	return slices.ContainsFunc(all, func(t token) bool { return t.word("delete", "merge") })
}

// path reads a name with its qualifiers.
func path(all []token, i int) (mention, int) {
	m := mention{pos: all[i].pos, text: all[i].kind == tokenString, parts: []string{all[i].text}}
	i++
	for i+1 < len(all) && all[i].is(".") && all[i+1].name() {
		m.parts = append(m.parts, all[i+1].text)
		i += 2
	}
	m.call, m.end = i < len(all) && all[i].is("("), all[i-1].end
	return m, i
}

// commonTables are the names before AS (, in lower case.
func commonTables(all []token) map[string]bool {
	names := map[string]bool{}
	for i, t := range all {
		if !t.name() || i == 0 || !all[i-1].is(",") && !all[i-1].word("with", "recursive") {
			continue
		}
		next := i + 1
		if next < len(all) && all[next].is("(") {
			for next < len(all) && !all[next].is(")") {
				next++
			}
			next++
		}
		if next+1 < len(all) && all[next].word("using") && all[next+1].word("key") {
			for next++; next < len(all) && !all[next].word("as"); {
				next++
			}
		}
		if next+1 < len(all) && all[next].word("as") && (all[next+1].is("(") || all[next+1].word("materialized", "not")) {
			names[strings.ToLower(t.text)] = true
		}
	}
	return names
}

// checkMentions refuses files in the place of tables, functions that are forbidden there, and the engine's own tables.
func checkMentions(found []mention, forbidden, system map[string]bool) error {
	for _, m := range found {
		last := strings.ToLower(m.parts[len(m.parts)-1])
		first := strings.ToLower(m.parts[0])
		switch {
		case m.call && forbidden[last]:
			return refuse(m.pos, "The function %s is not run here: it reads files, addresses, settings or the engine's own state. Tables are read by their names.", last)
		case m.call:
		case m.text || slices.ContainsFunc(m.parts, func(p string) bool { return strings.ContainsAny(p, `/\`) }):
			return refuse(m.pos, "No file or address can be read as a table (%q). Name a table as database.schema.table, or register the file's data as one.", cut(m.parts[0], 60))
		case len(m.parts) > 1 && (first == "memory" || first == "temp" || first == "system" || first == "information_schema" || first == "pg_catalog"),
			len(m.parts) == 1 && system[last]:
			return refuse(m.pos, "%s is the engine's own and holds nothing of the platform's: tables are listed by SHOW TABLES, and described by DESCRIBE.", strings.Join(m.parts, "."))
		}
	}
	return nil
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
