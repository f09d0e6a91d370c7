package sqltext

import "strings"

// Definition is CREATE, ALTER or DROP of a view or a schema.
type Definition struct {
	Replace, Exists, Cascade bool // OR REPLACE; IF EXISTS or IF NOT EXISTS; CASCADE
	Parts                    []string
	Columns                  []string // as written
	Rest                     []Token  // after the name and the columns
}

// ParseDefinition parses the words up to the name and the columns. It refuses words after the name
// that would be ignored.
func ParseDefinition(query string, c Class) (*Definition, error) {
	d := &Definition{}
	all := c.Tokens[1:]
	if all[0].IsWord("or") {
		d.Replace = true
		all = all[2:]
	}
	all = all[1:] // VIEW or SCHEMA
	for len(all) > 0 && all[0].IsWord("if", "not", "exists") {
		d.Exists = true
		all = all[1:]
	}
	if len(all) == 0 || !all[0].IsName() {
		return nil, Refuse(-1, "%s needs a name.", c.Kind)
	}
	m, next := QualifiedName(all, 0)
	d.Parts = m.Parts
	all = all[next:]
	if len(all) > 0 && all[0].Is("(") {
		for all = all[1:]; len(all) > 0 && !all[0].Is(")"); all = all[1:] {
			if all[0].IsName() {
				d.Columns = append(d.Columns, query[all[0].Pos:all[0].End])
			}
		}
		all = all[min(1, len(all)):]
	}
	d.Rest = all
	d.Cascade = len(all) > 0 && all[0].IsWord("cascade")
	return d, d.checkRest(c)
}

func (d *Definition) checkRest(c Class) error {
	ends := c.Kind != "CREATE VIEW" && c.Kind != "ALTER VIEW"
	switch {
	case !ends || len(d.Rest) == 0 || len(d.Rest) == 1 && d.Rest[0].IsWord("cascade", "restrict") && strings.HasPrefix(c.Kind, "DROP "):
		return nil
	case d.Rest[0].Is(","):
		return Refuse(d.Rest[0].Pos, "%s takes one name: run it for each.", c.Kind)
	}
	return Refuse(d.Rest[0].Pos, "%s ends after the name here; leave out what follows.", c.Kind)
}
