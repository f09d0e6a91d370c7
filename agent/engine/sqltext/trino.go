package sqltext

import (
	"strconv"
	"strings"
)

// CheckTrino refuses what Trino would read as something else, and tables that DuckDB, and so a
// warehouse's reads, cannot open. Their files must be Parquet, and their format version must
// support deletes.
func CheckTrino(query string, c Class) error {
	for _, t := range c.Tokens {
		if t.Kind == String && query[t.Pos] != '\'' && query[t.Pos]|0x20 != 'x' {
			return Refuse(t.Pos, "Trino supports only strings in single quotes.")
		}
	}
	return checkProperties(c)
}

func checkProperties(c Class) error {
	if c.Kind != "CREATE TABLE" && c.Kind != "ALTER TABLE" {
		return nil
	}
	listed := false // within WITH ( or SET PROPERTIES
	for i, t := range c.Tokens {
		listed = listed || t.IsWord("properties") || t.IsWord("with") && follows(c.Tokens, i, "(")
		if listed && t.IsWord("as") { // the query starts
			return nil
		}
		if !listed || !t.IsName() || !follows(c.Tokens, i, "=") || i+2 >= len(c.Tokens) {
			continue
		}
		switch value := c.Tokens[i+2]; {
		case strings.EqualFold(t.Text, "format") && value.Kind == String && !strings.EqualFold(value.Text, "parquet"):
			return Refuse(value.Pos, "Files of tables are Parquet here, which all engines read. Leave format out.")
		case strings.EqualFold(t.Text, "format_version") && value.Text == "1":
			return Refuse(value.Pos, "Tables have the format version 2 here: of version 1 no rows can be deleted. Leave format_version out.")
		}
	}
	return nil
}

// TrinoText returns the text for Trino: only the tokens that the engine recognized. The two differ
// in what they parse as a comment. Each parameter becomes ?. order has the number of its value, or
// 0 for a named parameter. Positions in the text do not change.
func TrinoText(query string, all []Token) (text string, order []int) {
	b := []byte(query[:all[len(all)-1].End])
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
	next := 0
	for _, t := range all {
		if t.Kind != Parameter {
			copy(b[t.Pos:t.End], query[t.Pos:t.End])
			continue
		}
		b[t.Pos] = '?'
		n, _ := strconv.Atoi(strings.TrimPrefix(t.Text, "$"))
		if t.Text == "?" {
			next++
			n = next
		}
		order = append(order, n)
	}
	return string(b), order
}
