package sqltext

import "slices"

// Travel is the AT clause of a table in a statement.
type Travel struct {
	Alias  string
	Clause string // AT (…)
	Ref    string // the name of a branch or a tag, if any
	Named  bool
	Timed  bool // its value is a timestamp literal
	Bound  bool // its value is a parameter
	Values int  // number of values in the clause
	End    int  // of the clause, in bytes
}

// TravelOf reads the AT clause after a table's name, in a query with these tokens. It returns nil
// if there is none.
func TravelOf(query string, all []Token, m TableRef) *Travel {
	next, _ := slices.BinarySearchFunc(all, m.End, func(t Token, end int) int { return t.Pos - end })
	all = all[next:]
	at := &Travel{}
	if len(all) > 1 && all[0].IsWord("as") {
		all = all[1:]
	}
	if n := aliasOf(all); n > 0 && n < len(all) && all[n].IsWord("at") {
		at.Alias, all = query[all[0].Pos:all[n-1].End], all[n:]
	}
	if len(all) < 4 || !all[0].IsWord("at") || !all[1].Is("(") {
		return nil
	}
	at.Named, at.Timed = all[2].IsWord("version"), all[2].IsWord("timestamp")
	for i, depth := 1, 0; i < len(all); i++ {
		switch {
		case all[i].Is("("):
			depth++
		case all[i].Kind == String:
			at.Ref = all[i].Text
			at.Values++
		case all[i].Kind == Number || all[i].Kind == Parameter:
			at.Named = false
			at.Timed = at.Timed && all[i].Kind == Number
			at.Bound = at.Bound || all[i].Kind == Parameter
			at.Values++
		case all[i].Is(")"):
			if depth--; depth == 0 {
				at.End = all[i].End
				at.Clause = query[all[0].Pos:at.End]
				return at
			}
		}
	}
	return nil
}

// aliasOf returns the number of tokens in a table's alias, its column names included. It is 0 if
// there is no alias.
func aliasOf(all []Token) int {
	if len(all) < 2 || !all[0].IsName() || all[0].IsWord("at") && all[1].Is("(") {
		return 0
	}
	if !all[1].Is("(") {
		return 1
	}
	for i := 2; i < len(all); i++ {
		if all[i].Is(")") {
			return i + 1
		}
	}
	return 0
}
