package sqltext

// Listing is a SHOW that the catalog answers. DuckDB knows neither the catalog's views nor its
// databases.
type Listing struct {
	Of string   // databases, schemas, tables or all
	In []string // the name after FROM or IN
}

// ListingOf parses a SHOW or a bare DESCRIBE. It returns false if the statement shows something
// else.
func ListingOf(all []Token) (Listing, bool) {
	if !all[0].IsWord("show", "describe", "desc") {
		return Listing{}, false
	}
	rest := all[1:]
	switch {
	case len(rest) == 0, len(rest) == 2 && rest[0].IsWord("all") && rest[1].IsWord("tables"):
		return Listing{Of: "all"}, true
	case !all[0].IsWord("show") || !rest[0].IsWord("databases", "schemas", "tables"):
		return Listing{}, false
	}
	l := Listing{Of: rest[0].Text}
	rest = rest[1:]
	if len(rest) > 1 && rest[0].IsWord("from", "in") && rest[1].IsName() && l.Of != "databases" {
		m, next := QualifiedName(rest, 1)
		l.In, rest = m.Parts, rest[next:]
	}
	return l, len(rest) == 0
}
