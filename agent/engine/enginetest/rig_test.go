// Package enginetest runs the engine against the platform's own catalog.
package enginetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
	_ "github.com/millpond/millpond/agent/children"
	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) {
	code := storetest.Run(m)
	if extensions != "" {
		_ = os.RemoveAll(filepath.Dir(extensions))
	}
	os.Exit(code)
}

// extensions are those that the first engine unpacked, for the others.
var extensions string

func newEngine(t testing.TB, o engine.Options) *engine.Engine {
	o.Dir = t.TempDir()
	if extensions != "" {
		require.NoError(t, os.Symlink(extensions, filepath.Join(o.Dir, filepath.Base(extensions))))
	}
	e, err := engine.New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	if extensions == "" {
		found, err := filepath.Glob(filepath.Join(o.Dir, "extensions-*"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		kept, err := os.MkdirTemp("", "millpond-enginetest-")
		require.NoError(t, err)
		require.NoError(t, os.Chmod(kept, 0o755))
		extensions = filepath.Join(kept, filepath.Base(found[0]))
		require.NoError(t, os.CopyFS(extensions, os.DirFS(found[0])))
	}
	return e
}

// rig is an engine with a catalog, in which a workspace has the database lake with the schema public.
type rig struct {
	t        testing.TB
	engine   *httptest.Server
	engineOf *engine.Engine // behind it
	catalog  agent.Catalog
	storage  agent.Storage
	other    agent.Storage // of another workspace
	auth     *auth.Service
	numbers  *atomic.Int64
	running  *sync.Map // of statements by their ids, channels that are closed when they run
}

func newRig(t testing.TB) *rig { return newRigWith(t, rigOptions{lake: "file://" + t.TempDir()}) }

type rigOptions struct {
	lake    string                          // address of the storage
	between func(http.Handler) http.Handler // stands before the catalog; nil for nothing
	engine  engine.Options
}

func newRigWith(t testing.TB, o rigOptions) *rig {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before)...)
	})
	clock := domain.SystemClock{}
	st, err := store.Open(t.Context(), storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	files, err := objects.OpenLake(t.Context(), o.lake, objects.LakeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	keys, err := auth.NewKeys(t.Context(), st.System(), clock)
	require.NoError(t, err)
	r := &rig{t: t, numbers: &atomic.Int64{}, running: &sync.Map{}, auth: auth.NewService(st.System(), st, keys, clock)}
	catalog := lake.New(lake.Options{Store: st, System: st.System(), Files: files, Clock: clock, Report: func(err error) { t.Log("reported:", err) }})
	face, err := iceberg.Handler(iceberg.Options{Catalog: catalog, Auth: r.auth, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), MaxBody: 1 << 24})
	require.NoError(t, err)
	mounted := chi.NewRouter()
	mounted.Handle(iceberg.Prefix+"/*", face)
	var shown http.Handler = mounted
	if o.between != nil {
		shown = o.between(mounted)
	}
	server := httptest.NewServer(shown)
	t.Cleanup(server.Close)
	instance := &domain.Instance{Store: st.System(), Clock: clock}
	token, scope := r.workspace(instance, "ours")
	access, err := catalog.Access(t.Context(), scope)
	require.NoError(t, err)
	r.storage = storageOf(access)
	_, theirs := r.workspace(instance, "theirs")
	access, err = catalog.Access(t.Context(), theirs)
	require.NoError(t, err)
	r.other = storageOf(access)
	r.catalog = agent.Catalog{URL: server.URL + iceberg.Prefix, Token: token, Databases: []string{"lake"}}
	o.engine.Memory, o.engine.Log = 1<<30, slog.New(slog.NewTextHandler(t.Output(), nil))
	o.engine.Slots = max(o.engine.Slots, 2)
	r.engineOf = newEngine(t, o.engine)
	r.engine = httptest.NewServer(r.engineOf)
	t.Cleanup(r.engine.Close)
	return r
}

func storageOf(a lake.Access) agent.Storage {
	s := agent.Storage{Prefix: a.Prefix}
	if k := a.S3; k != nil {
		s.S3 = &agent.S3Storage{Endpoint: k.Endpoint, Region: k.Region, AccessKeyID: k.AccessKeyID, SecretKey: k.SecretKey, SessionToken: k.SessionToken, PathStyle: k.PathStyle}
	}
	return s
}

func (r *rig) workspace(instance *domain.Instance, name string) (token string, scope domain.Scope) {
	_, _, credentials, err := instance.CreateWorkspace(r.t.Context(), name)
	require.NoError(r.t, err)
	in, err := r.auth.SetUp(r.t.Context(), auth.SetUp{Token: credentials.SetUpToken, Email: "admin@" + name + ".example", Password: "correct horse battery"})
	require.NoError(r.t, err)
	scope, err = r.auth.Bearer(r.t.Context(), in.Token)
	require.NoError(r.t, err)
	return in.Token, scope
}

func (r *rig) statement(query string, parameters ...any) agent.Statement {
	s := agent.Statement{
		ID: fmt.Sprint("stm_", r.numbers.Add(1)), Query: query, Database: "lake", Schema: "public", Write: true, Catalog: r.catalog, Storage: r.storage,
	}
	for _, p := range parameters {
		b, err := json.Marshal(p)
		require.NoError(r.t, err)
		s.Parameters = append(s.Parameters, b)
	}
	return s
}

// do runs a statement and answers its rows as text, one row as "a|b".
func (r *rig) do(s agent.Statement) (rows []string, end agent.StatementEnd) {
	rows, _, end = r.follow(s)
	return rows, end
}

// headOf runs a statement and answers what the engine made of it.
func (r *rig) headOf(s agent.Statement) (head agent.StatementHead, end agent.StatementEnd) {
	_, head, end = r.follow(s)
	return head, end
}

// awaitRunning waits until a statement that is being followed runs.
func (r *rig) awaitRunning(id string) {
	running, _ := r.running.LoadOrStore(id, make(chan struct{}))
	<-running.(chan struct{})
}

func (r *rig) follow(s agent.Statement) (rows []string, head agent.StatementHead, end agent.StatementEnd) {
	b, err := json.Marshal(s)
	require.NoError(r.t, err)
	res, err := http.Post(r.engine.URL+agent.StatementsPath, "application/json", bytes.NewReader(b))
	require.NoError(r.t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(r.t, http.StatusOK, res.StatusCode)
	var stream bytes.Buffer
	for from := bufio.NewReader(res.Body); ; {
		kind, payload, err := agent.ReadFrame(from)
		require.NoError(r.t, err)
		switch kind {
		case agent.FrameHead:
			require.NoError(r.t, json.Unmarshal(payload, &head))
			running, _ := r.running.LoadOrStore(s.ID, make(chan struct{}))
			close(running.(chan struct{}))
		case agent.FrameSchema:
			stream.Write(payload)
		case agent.FrameBatch:
			stream.Write(payload[4:])
		case agent.FrameEnd:
			require.NoError(r.t, json.Unmarshal(payload, &end))
			return r.rows(&stream), head, end
		}
	}
}

func (r *rig) rows(stream *bytes.Buffer) (rows []string) {
	if stream.Len() == 0 {
		return nil
	}
	stream.Write(agent.ArrowEnd)
	in, err := ipc.NewReader(stream)
	require.NoError(r.t, err)
	defer in.Release()
	for in.Next() {
		b := in.RecordBatch()
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			rows = append(rows, strings.Join(row, "|"))
		}
	}
	require.NoError(r.t, in.Err())
	return rows
}

// ok runs a statement that succeeds, and answers its rows.
func (r *rig) ok(query string, parameters ...any) []string {
	r.t.Helper()
	rows, end := r.do(r.statement(query, parameters...))
	require.Nil(r.t, end.Error, "%s: %+v", query, end.Error)
	return rows
}

// changes runs a write, and answers how many rows it changed.
func (r *rig) changes(query string, parameters ...any) int64 {
	r.t.Helper()
	_, end := r.do(r.statement(query, parameters...))
	require.Nil(r.t, end.Error, "%s: %+v", query, end.Error)
	return end.Rows
}

func (r *rig) fails(query string, parameters ...any) *agent.StatementFailure {
	r.t.Helper()
	_, end := r.do(r.statement(query, parameters...))
	require.NotNil(r.t, end.Error, query)
	return end.Error
}
