package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/extensions"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "engine-child" {
		os.Exit(duckdb.Main())
	}
	if len(os.Args) > 2 && os.Args[1] == "engine-agent" {
		agentMain(os.Args[2])
	}
	var err error
	if shared, err = os.MkdirTemp("", "millpond-engine-"); err == nil {
		err = os.Chmod(shared, 0o755)
	}
	if err == nil {
		unpacked, err = extensions.Unpack(shared)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(shared)
		os.Exit(code)
	}))
}

// The extensions are unpacked once for all tests.
var shared, unpacked string

// served is an engine behind a listener, as the control plane uses it.
type served struct {
	t      testing.TB
	engine *Engine
	web    *httptest.Server
	prefix string // of the workspace, a file: URL
	root   string // the same as a path
}

var statementNumber atomic.Int64

func serve(t testing.TB, change func(*Options)) *served {
	o := Options{Dir: t.TempDir(), Memory: 1 << 30, Slots: 2, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&o)
	}
	require.NoError(t, os.MkdirAll(o.Dir, 0o755))
	require.NoError(t, os.Symlink(unpacked, filepath.Join(o.Dir, filepath.Base(unpacked))))
	e, err := New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	root := t.TempDir() + "/"
	s := &served{t: t, engine: e, web: httptest.NewServer(e), prefix: "file://" + root, root: root}
	t.Cleanup(s.web.Close)
	return s
}

func (s *served) statement(query string, parameters ...any) agent.Statement {
	st := agent.Statement{ID: fmt.Sprintf("stm_%d", statementNumber.Add(1)), Query: query, Database: "lake", Schema: "public", Storage: agent.Storage{Prefix: s.prefix}, Write: true}
	for _, p := range parameters {
		b, err := json.Marshal(p)
		require.NoError(s.t, err)
		st.Parameters = append(st.Parameters, b)
	}
	return st
}

// answered is the answer to a statement.
type answered struct {
	head     agent.StatementHead
	end      agent.StatementEnd
	stream   bytes.Buffer // of Arrow IPC
	batches  int
	progress []agent.StatementProgress
}

// open sends a statement and returns its stream.
func (s *served) open(ctx context.Context, st agent.Statement) *http.Response {
	b, err := json.Marshal(st)
	require.NoError(s.t, err)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.web.URL+agent.StatementsPath, bytes.NewReader(b))
	require.NoError(s.t, err)
	res, err := s.web.Client().Do(r)
	require.NoError(s.t, err)
	return res
}

func (s *served) do(st agent.Statement) *answered {
	res := s.open(s.t.Context(), st)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		require.Equal(s.t, http.StatusOK, res.StatusCode, string(b))
	}
	return s.read(bufio.NewReader(res.Body), nil)
}

// read reads frames to the end and calls each with every frame.
func (s *served) read(from *bufio.Reader, each func(agent.FrameKind)) *answered {
	var a answered
	for {
		kind, payload, err := agent.ReadFrame(from)
		require.NoError(s.t, err, "the stream ends with FrameEnd")
		if each != nil {
			each(kind)
		}
		switch kind {
		case agent.FrameProgress:
			var p agent.StatementProgress
			require.NoError(s.t, json.Unmarshal(payload, &p))
			a.progress = append(a.progress, p)
		case agent.FrameHead:
			require.NoError(s.t, json.Unmarshal(payload, &a.head))
		case agent.FrameSchema:
			a.stream.Write(payload)
		case agent.FrameBatch:
			a.batches++
			a.stream.Write(payload[8:])
		case agent.FrameEnd:
			require.NoError(s.t, json.Unmarshal(payload, &a.end))
			a.stream.Write(agent.ArrowEnd)
			return &a
		}
	}
}

// ok runs a statement that must succeed.
func (s *served) ok(query string, parameters ...any) *answered {
	a := s.do(s.statement(query, parameters...))
	require.Nil(s.t, a.end.Error, "%s: %+v", query, a.end.Error)
	return a
}

// fails runs a statement that must fail.
func (s *served) fails(query string, parameters ...any) *agent.StatementFailure {
	a := s.do(s.statement(query, parameters...))
	require.NotNil(s.t, a.end.Error, query)
	return a.end.Error
}

// table is the result as a schema and rows of text.
func (a *answered) table(t testing.TB) (*arrow.Schema, [][]string) {
	r, err := ipc.NewReader(bytes.NewReader(a.stream.Bytes()))
	require.NoError(t, err)
	defer r.Release()
	rows := [][]string{}
	for r.Next() {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			row := make([]string, b.NumCols())
			for j, c := range b.Columns() {
				row[j] = c.ValueStr(i)
			}
			rows = append(rows, row)
		}
	}
	require.NoError(t, r.Err())
	return r.Schema(), rows
}

func (a *answered) value(t testing.TB) string {
	_, rows := a.table(t)
	require.Len(t, rows, 1)
	require.Len(t, rows[0], 1)
	return rows[0][0]
}

func TestAnEngineAnswersReads(t *testing.T) {
	s := serve(t, nil)
	a := s.ok("SELECT 42 AS answer")
	require.Equal(t, "42", a.value(t))
	require.Equal(t, agent.StatementHead{Kind: "SELECT", Engine: "duckdb", RoutingReason: "DuckDB serves reads."}, a.head)
	require.EqualValues(t, 1, a.end.Rows)
	for _, q := range []string{"VALUES (1), (2)", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "DESCRIBE SELECT 1", "SUMMARIZE SELECT 1 AS x", "FROM range(3)", "WITH a AS (SELECT 1) FROM a", "(SELECT 1)", "SELECT 1;", "SHOW TABLES"} {
		s.ok(q)
	}
	require.Equal(t, "v1.5.5", s.engine.Engines()[0].Version)
}

func TestWhatAStatementIsIsToldFirst(t *testing.T) {
	s := serve(t, nil)
	for q, want := range map[string]agent.StatementProgress{
		"SELECT 1": {Done: -1, Kind: "SELECT"}, "INSERT INTO t VALUES (1)": {Done: -1, Kind: "INSERT", Write: true}, "EXPLAIN SELECT 1": {Done: -1, Kind: "EXPLAIN"},
	} {
		require.Equal(t, want, s.do(s.statement(q)).progress[0], q)
	}
}
