package engine

import (
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// profiling is what DuckDB notes of a statement: its plan and how much it read, but no times, which would cost some.
const profiling = `{"OPERATOR_TYPE": "true", "EXTRA_INFO": "true", "TOTAL_BYTES_READ": "true"}`

// maxScans bounds the scans of one statement that are told.
const maxScans = 1000

// noteScans takes what was read from the profile of the connection's last statement, which has ended.
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

// scanOf is what an operator says of itself, if it read the files of a table.
func scanOf(said map[string]string) (agent.StatementScan, bool) {
	file, _, _ := strings.Cut(said["Filename(s)"], ", ")
	if said["Function"] != "ICEBERG_SCAN" || file == "" {
		return agent.StatementScan{}, false
	}
	columns := strings.Split(said["Projections"], "\n")
	for line := range strings.SplitSeq(said["Filters"], "\n") {
		if strings.HasPrefix(line, "optional: ") { // it only skips; the columns are projected, for the filter itself
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

// columnsOfFilter reads the columns' names in a filter, which DuckDB writes without quotes; false where it cannot be told what a name is.
func columnsOfFilter(filter string) (columns []string, ok bool) {
	all := tokens(filter)
	named := false // the token before is part of a name
	for i := 0; i < len(all); i++ {
		t := all[i]
		switch {
		case t.is(":") && i+2 < len(all) && all[i+1].is(":"): // a cast
			i += 2
			named = false
		case t.word("and", "or", "not", "is", "null", "in", "like", "between", "distinct", "from", "case", "when", "then", "else", "end", "true", "false", "cast", "as"), !t.name():
			named = false
		case named || i > 0 && joined(all[i-1], t) || i+1 < len(all) && joined(t, all[i+1]):
			return nil, false
		case i+1 < len(all) && all[i+1].is("("):
		default:
			m, next := path(all, i)
			columns = append(columns, filter[t.pos:m.end])
			i, named = next-1, true
		}
	}
	return columns, true
}

// joined reports whether two tokens may be of one name, such as a-b.
func joined(a, b token) bool {
	between := a
	if a.name() {
		between = b
	}
	return a.end == b.pos && (between.kind == tokenNumber || between.kind == tokenSymbol && !strings.Contains("()<>=!,.:", between.text))
}

// parseMap reads a map from text to text as DuckDB writes one: {key=value, 'a key'='it\'s'}.
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
