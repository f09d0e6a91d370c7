package trino

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Statement is one statement in Trino's dialect.
type Statement struct {
	ID        string // by which the catalog's answers to it are kept apart from those to others
	Token     string // of this statement alone, which the catalog is shown
	Query     string
	Arguments []any  // for ?, in their order: nil, bool, string or Number
	Database  string // where names without one resolve
	Schema    string
	Progress  func(done float64) // called now and then, from 0 to 1, or with -1 where it is not known; may be nil
}

// Number is a number as it stands in JSON, for a parameter.
type Number string

// Outcome is what is known of a statement that has succeeded.
type Outcome struct {
	Query   string // Trino's id of it
	Rows    int64  // that were inserted, changed or deleted
	Scanned int64  // bytes read from the storage
	Read    []Table
	Written *Table // nil where it changed none, or was none of those that name one
}

// Table is a table that a statement read or wrote.
type Table struct {
	Database, Schema, Name string
	Columns                []string // that were read or written, as Trino tells: sorted
}

// Session is a Trino that runs.
type Session struct {
	server  *Server
	caller  *caller
	address string // of the coordinator
	spools  bool   // it puts large results where they can be fetched
}

// Query runs a statement to its end, and hands its rows to take as they come, each an array in JSON; take may be nil for a statement without any. The error is
// an *Error where Trino says why it failed, a *LostError where Trino was lost, and take's where that has one, with what was read until then; else ctx was ended, and with it the statement.
func (s *Session) Query(ctx context.Context, st Statement, take func(columns []Column, rows []json.RawMessage) error) (Outcome, error) {
	text, err := st.text()
	if err != nil {
		return Outcome{}, err
	}
	q := &query{caller: s.caller}
	enough := false
	data, err := q.fetch(ctx, http.MethodPost, s.address+"/v1/statement", text, st.header(s.spools && take != nil))
	for err == nil {
		if st.Progress != nil {
			st.Progress(q.done)
		}
		if take != nil && q.columns != nil {
			err = q.rows(ctx, data, func(rows []json.RawMessage) error {
				err := take(q.columns, rows)
				enough = err != nil
				return err
			})
		}
		if err != nil || q.next == "" {
			break
		}
		data, err = q.fetch(ctx, http.MethodGet, q.next, "", nil)
	}
	if err != nil {
		q.cancel() // it may live, also where it did not answer
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if enough {
			return s.record(ctx, q.id), err
		}
		return Outcome{Query: q.id}, err
	}
	if take != nil {
		if err := take(q.columns, nil); err != nil { // of a result without rows the columns are known too
			return Outcome{Query: q.id}, err
		}
	}
	o := s.record(ctx, q.id)
	o.Rows = q.updated
	return o, nil
}

// header says where names resolve, and by which token the catalog knows the statement. What the catalog answers is kept apart by the source.
func (st Statement) header(spools bool) http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set("X-Trino-"+name, value)
		}
	}
	set("Source", st.ID)
	set("Catalog", url.QueryEscape(CatalogName(st.Database)))
	set("Schema", url.QueryEscape(st.Schema))
	set("Time-Zone", "UTC")
	set("Client-Capabilities", "PARAMETRIC_DATETIME") // else times have three digits of a second
	if spools {
		set("Query-Data-Encoding", encodings)
	}
	if st.Token != "" {
		set("Extra-Credential", "token="+url.QueryEscape(st.Token))
	}
	return h
}

// text is what Trino gets: with parameters, a statement that has them bound.
func (st Statement) text() (string, error) {
	if len(st.Arguments) == 0 {
		return st.Query, nil
	}
	var values []string
	for i, a := range st.Arguments {
		switch v := a.(type) {
		case nil:
			values = append(values, "NULL")
		case bool:
			values = append(values, fmt.Sprint(v))
		case string:
			values = append(values, literal(v))
		case Number:
			values = append(values, v.literal())
		default:
			return "", fmt.Errorf("parameter %d is a %T", i+1, a)
		}
	}
	return "EXECUTE IMMEDIATE " + literal(st.Query) + " USING " + strings.Join(values, ", "), nil
}

// literal is the number in SQL: whole ones that no BIGINT holds are decimals.
func (n Number) literal() string {
	if _, err := strconv.ParseInt(string(n), 10, 64); err != nil && !strings.ContainsAny(string(n), ".eE") {
		return "DECIMAL " + literal(string(n))
	}
	return string(n)
}

// recordTime bounds how long the record of a statement that has succeeded is waited for: it is told without, if need be.
const recordTime = 5 * time.Second

// record reads what Trino knows of the statement, which is nothing where it is gone by then.
func (s *Session) record(ctx context.Context, id string) Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	o := Outcome{Query: id}
	var q struct {
		Stats struct {
			Input string `json:"physicalInputDataSize"`
		} `json:"queryStats"`
		Inputs []struct {
			Catalog string `json:"catalogName"`
			Schema  string
			Table   string
			Columns []struct{ Name string }
		}
		Output *struct {
			Catalog string `json:"catalogName"`
			Schema  string
			Table   string
			Columns []struct{ Column struct{ Name string } }
		}
	}
	if err := s.caller.get(ctx, s.address+"/v1/query/"+url.PathEscape(o.Query)+"?pruned=true", &q); err != nil {
		s.server.o.Log.Warn("Trino does not tell what a statement read", "query", o.Query, "error", err)
		return o
	}
	o.Scanned = dataSize(q.Stats.Input)
	for _, in := range q.Inputs {
		t := Table{Database: s.server.database(in.Catalog), Schema: in.Schema, Name: baseTable(in.Table)}
		for _, c := range in.Columns {
			t.addColumn(c.Name)
		}
		o.addRead(t)
	}
	if out := q.Output; out != nil {
		t := Table{Database: s.server.database(out.Catalog), Schema: out.Schema, Name: baseTable(out.Table)}
		for _, c := range out.Columns {
			t.addColumn(c.Column.Name)
		}
		o.Written = &t
	}
	return o
}

// baseTable is the table of one such as t$snapshots.
func baseTable(name string) string {
	name, _, _ = strings.Cut(name, "$")
	return name
}

// addColumn leaves out what is Trino's own, such as the place of a row in its file.
func (t *Table) addColumn(name string) {
	if i, found := slices.BinarySearch(t.Columns, name); !found && !strings.HasPrefix(name, "$") {
		t.Columns = slices.Insert(t.Columns, i, name)
	}
}

// addRead joins the scans of one table.
func (o *Outcome) addRead(t Table) {
	i := slices.IndexFunc(o.Read, func(r Table) bool { return r.Database == t.Database && r.Schema == t.Schema && r.Name == t.Name })
	if i < 0 {
		o.Read = append(o.Read, t)
		return
	}
	for _, c := range t.Columns {
		o.Read[i].addColumn(c)
	}
}

// dataSize reads bytes as Trino writes them, such as 1.53MB; 0 where it is another text.
func dataSize(text string) int64 {
	var n float64
	var unit string
	if _, err := fmt.Sscanf(text, "%g%s", &n, &unit); err != nil {
		return 0
	}
	i := slices.Index([]string{"B", "kB", "MB", "GB", "TB", "PB"}, unit)
	if i < 0 {
		return 0
	}
	return int64(n * float64(int64(1)<<(10*i)))
}
