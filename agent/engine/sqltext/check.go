package sqltext

import (
	"slices"
	"strings"
)

// Engine has the names in DuckDB, in lower case, that no statement may use.
type Engine struct {
	Functions      map[string]bool // forbidden everywhere
	TableFunctions map[string]bool // forbidden in place of a table
	Tables         map[string]bool // DuckDB's own
}

// CheckWrite refuses a write that uses what the engine forbids. DuckDB shows the syntax tree of
// reads alone, so writes are checked by their tokens. The tables are those of TableRefs.
func (e Engine) CheckWrite(c Class, found []TableRef, databases []string) error {
	if all := c.Tokens; c.Kind == "CREATE TABLE" && all[1].IsWord("or") {
		return Refuse(all[1].Pos, "CREATE OR REPLACE TABLE is not run here: the old table would be gone before the new one is made. Use DELETE FROM and INSERT, which keep the table's history, or DROP TABLE and CREATE TABLE.")
	}
	if err := checkShows(c.Tokens); err != nil {
		return err
	}
	if err := e.checkCalls(c.Tokens); err != nil {
		return err
	}
	if err := checkColumns(c, found); err != nil {
		return err
	}
	for _, m := range found {
		if err := e.CheckTable(m, databases); err != nil {
			return err
		}
	}
	return nil
}

// CheckCall refuses a forbidden function. table is true if it stands in place of a table.
func (e Engine) CheckCall(pos int, name string, table bool) error {
	name = LowerASCII(name)
	if e.Functions[name] || table && e.TableFunctions[name] {
		return Refuse(pos, "The function %s is not run here: it reads files, addresses, settings or the engine's own state. Tables are read by their names.", name)
	}
	return nil
}

// CheckTable refuses a file as a table, a forbidden table function, the engine's own tables, and a
// name with a database but no schema.
func (e Engine) CheckTable(m TableRef, databases []string) error {
	last := LowerASCII(m.Parts[len(m.Parts)-1])
	first := m.Parts[0]
	switch {
	case m.Call:
		return e.CheckCall(m.Pos, last, true)
	case m.text || slices.ContainsFunc(m.Parts, func(p string) bool { return strings.ContainsAny(p, `/\`) }):
		return Refuse(m.Pos, "No file or address can be read as a table (%q). Name a table as database.schema.table, or register the file's data as one.", Cut(first, 60))
	case e.Tables[last], slices.ContainsFunc(m.Parts[:len(m.Parts)-1], enginesOwn):
		return Refuse(m.Pos, "%s belongs to the engine and holds nothing of the platform. SHOW TABLES lists tables, and DESCRIBE describes one.", strings.Join(m.Parts, "."))
	case len(m.Parts) == 2 && DatabaseNamed(databases, first) != "":
		return Refuse(m.Pos, "%s is a database: name its schema too, as in %s.public.%s.", first, DatabaseNamed(databases, first), m.Parts[1])
	case len(m.Parts) > 3:
		return Refuse(m.Pos, "A table's name has three parts at most: database.schema.table. Quote a schema within a schema: \"outer.inner\".")
	}
	return nil
}

// enginesOwn reports whether a qualifier is a database or a schema of DuckDB's own.
func enginesOwn(part string) bool {
	switch LowerASCII(part) {
	case "memory", "temp", "system", "information_schema", "pg_catalog", "main":
		return true
	}
	return LowerASCII(part) == Views
}

// checkShows refuses SHOW and the like within another statement.
func checkShows(all []Token) error {
	for i, t := range all[1:] {
		before := all[i]
		inner := t.IsWord("show", "describe", "summarize") && !before.Is(".") || t.IsWord("desc") && (before.Is("(") || before.IsWord("as"))
		if inner {
			return RefuseShow(t.Pos)
		}
	}
	return nil
}

// checkCalls refuses calls of forbidden functions, wherever they stand.
func (e Engine) checkCalls(all []Token) error {
	for i, t := range all[:len(all)-1] {
		if !t.IsName() || !all[i+1].Is("(") {
			continue
		}
		if err := e.CheckCall(t.Pos, t.Text, false); err != nil {
			return err
		}
	}
	return nil
}

// constraints maps a keyword to a constraint that SQL can declare and Iceberg cannot store.
var constraints = map[string]string{"check": "CHECK", "unique": "UNIQUE", "primary": "PRIMARY KEY", "references": "REFERENCES", "collate": "COLLATE", "foreign": "FOREIGN KEY"}

// checkColumns refuses parts of CREATE TABLE and ALTER TABLE that would otherwise be ignored
// silently. It checks the columns in parentheses, and the text after an altered table's name.
func checkColumns(c Class, found []TableRef) error {
	if c.Kind != "CREATE TABLE" && c.Kind != "ALTER TABLE" {
		return nil
	}
	depth := 0
	for i, t := range c.Tokens {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case t.IsWord("as") && depth == 0:
			return nil
		}
		why := constraints[t.Text]
		if why == "" || t.Kind != Word || (depth == 0 && c.Kind == "CREATE TABLE") || i == 0 || depth > 1 || slices.ContainsFunc(found, func(m TableRef) bool { return m.Pos <= t.Pos && t.Pos < m.End }) {
			continue
		}
		next := Token{}
		if i+1 < len(c.Tokens) {
			next = c.Tokens[i+1]
		}
		names := !c.Tokens[i-1].Is("(") && !c.Tokens[i-1].Is(",")
		if t.IsWord("primary", "foreign") && next.IsWord("key") || t.IsWord("check") && next.Is("(") || t.IsWord("unique") && (names || next.Is("(")) || t.IsWord("references", "collate") && names {
			return Refuse(t.Pos, "%s is not supported here: Iceberg cannot store it, and nothing would enforce it. Leave it out.", why)
		}
	}
	return nil
}
