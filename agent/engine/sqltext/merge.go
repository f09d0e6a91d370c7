package sqltext

// WithOpaqueCondition wraps the condition of a MERGE in a CASE that DuckDB evaluates for each row.
// It returns false if the MERGE has no ON.
func WithOpaqueCondition(query string) (text string, ok bool) {
	all := Tokens(query)
	depth, cases, on := 0, 0, -1
	for i, t := range all {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case depth > 0:
		case t.IsWord("case"):
			cases++
		case t.IsWord("end") && cases > 0:
			cases--
		case t.IsWord("on"):
			on = i
		case t.IsWord("when") && cases == 0 && on >= 0:
			from, to := all[on].End, all[i-1].End
			return query[:from] + " CASE WHEN random() >= 0 THEN (" + query[from:to] + ") END " + query[t.Pos:], true
		}
	}
	return "", false
}
