package duckdb

import (
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// profiling selects what DuckDB records for a statement: the plan and the bytes read. It omits
// timings, which cost time.
const profiling = `{"OPERATOR_TYPE": "true", "EXTRA_INFO": "true", "TOTAL_BYTES_READ": "true"}`

// maxScans bounds the number of reported scans of one statement.
const maxScans = 1000

// noteScans records the bytes and scans from the profile of the connection's last statement, which
// has ended.
func (e *execution) noteScans() {
	info := duckdb.GetProfilingInfo(e.conn.handle)
	if info.Ptr == nil {
		return
	}
	if v := duckdb.ProfilingInfoGetValue(info, "TOTAL_BYTES_READ"); v.Ptr != nil {
		e.end.Scanned = duckdb.GetInt64(v)
		duckdb.DestroyValue(&v)
	}
	e.end.Scans = scansOf(info, nil)
}

func scansOf(info duckdb.ProfilingInfo, found []agent.StatementScan) []agent.StatementScan {
	if v := duckdb.ProfilingInfoGetValue(info, "EXTRA_INFO"); v.Ptr != nil {
		if s, ok := scanOf(parseMap(duckdb.GetVarchar(v))); ok && len(found) < maxScans {
			found = append(found, s)
		}
		duckdb.DestroyValue(&v)
	}
	for i := range duckdb.ProfilingInfoGetChildCount(info) {
		found = scansOf(duckdb.ProfilingInfoGetChild(info, i), found)
	}
	return found
}

// scanOf converts an operator's extra info to a scan. It returns false if the operator read no
// table files.
func scanOf(said map[string]string) (agent.StatementScan, bool) {
	file, _, _ := strings.Cut(said["Filename(s)"], ", ")
	if said["Function"] != "ICEBERG_SCAN" || file == "" {
		return agent.StatementScan{}, false
	}
	columns := strings.Split(said["Projections"], "\n")
	for line := range strings.SplitSeq(said["Filters"], "\n") {
		// An optional filter only skips files. Its columns are projected for the exact
		// filter.
		if strings.HasPrefix(line, "optional: ") {
			continue
		}
		filtered, ok := columnsOfFilter(line)
		if !ok {
			return agent.StatementScan{}, false
		}
		columns = append(columns, filtered...)
	}
	columns = slices.DeleteFunc(columns, func(c string) bool { return c == "" })
	slices.Sort(columns)
	return agent.StatementScan{File: file, Columns: slices.Compact(columns)}, true
}

// columnsOfFilter returns the column names in a filter. DuckDB writes them without quotes, so it
// returns false if a name is ambiguous.
func columnsOfFilter(filter string) (columns []string, ok bool) {
	all := sqltext.Tokens(filter)
	named := false // the previous token is part of a name
	for i := 0; i < len(all); i++ {
		t := all[i]
		switch {
		case t.Is(":") && i+2 < len(all) && all[i+1].Is(":"): // a cast
			i += 2
			named = false
		case t.IsWord("and", "or", "not", "is", "null", "in", "like", "between", "distinct", "from", "case", "when", "then", "else", "end", "true", "false", "cast", "as"), !t.IsName():
			named = false
		case named || i > 0 && joined(all[i-1], t) || i+1 < len(all) && joined(t, all[i+1]):
			return nil, false
		case i+1 < len(all) && all[i+1].Is("("):
		default:
			m, next := sqltext.QualifiedName(all, i)
			columns = append(columns, filter[t.Pos:m.End])
			i, named = next-1, true
		}
	}
	return columns, true
}

// joined reports whether two tokens may belong to one name, such as a-b.
func joined(a, b sqltext.Token) bool {
	between := a
	if a.IsName() {
		between = b
	}
	return a.End == b.Pos && (between.Kind == sqltext.Number || between.Kind == sqltext.Symbol && !strings.Contains("()<>=!,.:", between.Text))
}

// parseMap parses DuckDB's text form of a map of strings: {key=value, 'a key'='it\'s'}.
func parseMap(text string) map[string]string {
	all := map[string]string{}
	rest, ok := strings.CutPrefix(text, "{")
	for ok && rest != "" && rest[0] != '}' {
		var key, value string
		key, rest = parseWord(rest, "=")
		value, rest = parseWord(strings.TrimPrefix(rest, "="), ",}")
		all[key] = value
		rest = strings.TrimPrefix(rest, ", ")
	}
	return all
}

func parseWord(text, ends string) (word, rest string) {
	if !strings.HasPrefix(text, "'") {
		i := strings.IndexAny(text, ends)
		if i < 0 {
			i = len(text)
		}
		return text[:i], text[i:]
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
