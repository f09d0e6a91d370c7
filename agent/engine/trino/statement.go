package trino

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Statement is one statement in Trino's dialect.
type Statement struct {
	ID        string // separates the catalog's answers to it from those to others
	Token     string // the statement's token for the catalog
	Query     string
	Arguments []string // values of ?, in order, by Literal
	Database  string   // resolves unqualified names
	Schema    string
	// Progress is called at intervals, from 0 to 1, or with -1 if unknown. It may be nil.
	Progress func(done float64)
}

// Outcome describes a successful statement.
type Outcome struct {
	Query   string                 // Trino's query id
	Rows    int64                  // inserted, changed or deleted rows
	Scanned int64                  // bytes read from the storage
	Read    []agent.StatementTable // with the columns that Trino reports, sorted
	Written *agent.StatementTable  // nil if no table was written or Trino reports none
}

// Session is a statement's use of a running Trino.
type Session struct {
	server  *Server
	caller  *caller
	address string // of the coordinator
	spools  bool   // large results are spooled
}

// Query runs a statement to its end and passes its rows to take, each as a JSON array. take may be
// nil for a statement without rows. The error is an *Error if Trino reports one, a *LostError if
// Trino was lost, or take's error. With take's error, the Outcome covers what was read until then.
// Otherwise ctx has ended, and the statement was cancelled.
func (s *Session) Query(ctx context.Context, st Statement, take func(columns []Column, rows []json.RawMessage) error) (Outcome, error) {
	q := &query{caller: s.caller}
	enough := false
	data, err := q.fetch(ctx, http.MethodPost, s.address+"/v1/statement", st.text(), st.header(s.spools && take != nil))
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
		q.cancel() // it may still run, even if Trino did not answer
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if enough {
			return s.record(ctx, q.id), err
		}
		return Outcome{Query: q.id}, err
	}
	if take != nil {
		if err := take(q.columns, nil); err != nil { // a result without rows has columns too
			return Outcome{Query: q.id}, err
		}
	}
	o := s.record(ctx, q.id)
	o.Rows = q.updated
	return o, nil
}

// header returns the headers that set the default schema and the statement's catalog token. The
// source separates the catalog's answers.
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
	set("Client-Capabilities", "PARAMETRIC_DATETIME") // otherwise times have only milliseconds
	if spools {
		set("Query-Data-Encoding", encodings)
	}
	if st.Token != "" {
		set("Extra-Credential", "token="+url.QueryEscape(st.Token))
	}
	return h
}

// text returns the text for Trino. Parameters are bound with EXECUTE IMMEDIATE.
func (st Statement) text() string {
	if len(st.Arguments) == 0 {
		return st.Query
	}
	return "EXECUTE IMMEDIATE " + sqltext.Literal(st.Query) + " USING " + strings.Join(st.Arguments, ", ")
}

// Literal returns a JSON scalar in SQL. A number keeps all its digits: an integer beyond BIGINT
// becomes a decimal.
func Literal(p json.RawMessage) (string, error) {
	d := json.NewDecoder(bytes.NewReader(p))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case nil:
		return "NULL", nil
	case bool:
		return fmt.Sprint(v), nil
	case string:
		return sqltext.Literal(v), nil
	case json.Number:
		if _, err := v.Int64(); err != nil && !strings.ContainsAny(string(v), ".eE") {
			return "DECIMAL " + sqltext.Literal(string(v)), nil
		}
		return string(v), nil
	}
	return "", errors.New("no scalar")
}

// recordTime bounds the wait for the record of a successful statement. The statement ends without
// its record if the wait is longer.
const recordTime = 5 * time.Second

// record reads Trino's record of the statement. It is empty if Trino has dropped it.
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
			Info    struct {
				Snapshot *int64 `json:"snapshotId"`
			} `json:"connectorInfo"`
		}
		Output *struct {
			Catalog string `json:"catalogName"`
			Schema  string
			Table   string
		}
	}
	if err := s.caller.get(ctx, s.address+"/v1/query/"+url.PathEscape(o.Query)+"?pruned=true", &q); err != nil {
		s.server.o.Log.Warn("the record of a Trino statement cannot be read", "query", o.Query, "error", catalog.WithoutAddress(err))
		return o
	}
	o.Scanned = dataSize(q.Stats.Input)
	for _, in := range q.Inputs {
		t := agent.StatementTable{Database: s.server.database(in.Catalog), Schema: in.Schema, Table: baseTable(in.Table), Snapshot: in.Info.Snapshot}
		for _, c := range in.Columns {
			addColumn(&t, c.Name)
		}
		o.addRead(t)
	}
	if out := q.Output; out != nil {
		o.Written = &agent.StatementTable{Database: s.server.database(out.Catalog), Schema: out.Schema, Table: baseTable(out.Table), Target: true}
	}
	return o
}

// baseTable returns the table of a name such as t$snapshots.
func baseTable(name string) string {
	name, _, _ = strings.Cut(name, "$")
	return name
}

// addColumn adds a column, except Trino's hidden ones, such as a row's position in its file.
func addColumn(t *agent.StatementTable, name string) {
	if i, found := slices.BinarySearch(t.Columns, name); !found && !strings.HasPrefix(name, "$") {
		t.Columns = slices.Insert(t.Columns, i, name)
	}
}

// addRead merges the scans of one table and snapshot.
func (o *Outcome) addRead(t agent.StatementTable) {
	i := slices.IndexFunc(o.Read, func(r agent.StatementTable) bool { return sqltext.SameTable(r, t) && sqltext.SameSnapshot(r, t) })
	if i < 0 {
		o.Read = append(o.Read, t)
		return
	}
	for _, c := range t.Columns {
		addColumn(&o.Read[i], c)
	}
}

// dataSize parses a size in Trino's form, such as 1.53MB. It returns 0 for other text.
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
