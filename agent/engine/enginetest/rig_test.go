// Package enginetest runs the engine against the platform's own catalog.
package enginetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
	_ "github.com/millpond/millpond/agent/children"
	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) {
	before := goleak.IgnoreCurrent()
	code := storetest.Run(m)
	if unpacked.dir != "" {
		_ = os.RemoveAll(filepath.Dir(unpacked.dir))
	}
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(before); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// unpacked are the first engine's extensions, which the other engines share.
var unpacked struct {
	sync.Mutex
	dir string
}

func newEngine(t testing.TB, o engine.Options) *engine.Engine {
	unpacked.Lock()
	defer unpacked.Unlock()
	o.Dir = t.TempDir()
	if unpacked.dir != "" {
		require.NoError(t, os.Symlink(unpacked.dir, filepath.Join(o.Dir, filepath.Base(unpacked.dir))))
	}
	e, err := engine.New(o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	if unpacked.dir == "" {
		found, err := filepath.Glob(filepath.Join(o.Dir, "extensions-*"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		kept, err := os.MkdirTemp("", "millpond-enginetest-")
		require.NoError(t, err)
		require.NoError(t, os.Chmod(kept, 0o755))
		dir := filepath.Join(kept, filepath.Base(found[0]))
		require.NoError(t, os.CopyFS(dir, os.DirFS(found[0])))
		unpacked.dir = dir
	}
	return e
}

// rig is an engine with a catalog. Its workspace has the database lake with the schema public.
type rig struct {
	t        testing.TB
	engine   *httptest.Server
	engineOf *engine.Engine // behind it
	catalog  agent.Catalog
	storage  agent.Storage
	other    agent.Storage // storage of another workspace
	auth     *auth.Service
	another  string // key of an editor outside any statement
	numbers  *atomic.Int64
	running  *sync.Map // channels by statement id, closed when the statement runs

	database string // address of the database
	store    *store.Store
	files    *objects.Lake
}

// later is a clock that runs ahead.
type later time.Duration

// Now implements domain.Clock.
func (l later) Now() time.Time { return time.Now().Add(time.Duration(l)) }

// lakeAt returns the catalog as it is after a time.
func (r *rig) lakeAt(after time.Duration) *lake.Catalog {
	return lake.New(lake.Options{Store: store.For[lake.Tx](r.store), Quick: r.store, System: r.store.System(), Files: r.files, Clock: later(after), Report: func(err error) { r.t.Error("reported:", err) }})
}

func newRig(t testing.TB) *rig { return newRigWith(t, rigOptions{lake: "file://" + t.TempDir()}) }

type rigOptions struct {
	lake    string                          // address of the storage
	between func(http.Handler) http.Handler // wraps the catalog; nil for nothing
	engine  engine.Options
}

// newRigWith creates a rig and lets the test run in parallel. On S3 the test does not, because its
// credentials are in the process's environment.
func newRigWith(t testing.TB, o rigOptions) *rig {
	if test, ok := t.(*testing.T); ok && !strings.HasPrefix(o.lake, "s3://") {
		test.Parallel()
	}
	clock := domain.SystemClock{}
	database := storetest.Database(t, store.Migrate)
	st, err := store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	files, err := objects.OpenLake(t.Context(), o.lake, objects.LakeOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	signing, err := auth.NewKeys(t.Context(), st.System(), clock)
	require.NoError(t, err)
	r := &rig{t: t, numbers: &atomic.Int64{}, running: &sync.Map{}, database: database, store: st, files: files, auth: auth.NewService(st.System(), store.For[domain.Tx](st), signing, nil, clock)}
	catalog := lake.New(lake.Options{Store: store.For[lake.Tx](st), Quick: st, System: st.System(), Files: files, Clock: clock, Report: func(err error) { t.Log("reported:", err) }})
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
	instance := &setup.Instance{Store: st.System(), Clock: clock}
	token, scope := r.workspace(instance, "ours")
	access, err := catalog.Access(t.Context(), scope)
	require.NoError(t, err)
	r.storage = storageOf(access)
	_, theirs := r.workspace(instance, "theirs")
	access, err = catalog.Access(t.Context(), theirs)
	require.NoError(t, err)
	r.other = storageOf(access)
	keys := &identity.APIKeys{Store: store.For[identity.Tx](st), Clock: clock}
	_, reading, err := keys.Create(t.Context(), scope, identity.NewAPIKey{Name: "reading", Role: domain.RoleViewer})
	require.NoError(t, err)
	_, r.another, err = keys.Create(t.Context(), scope, identity.NewAPIKey{Name: "another", Role: domain.RoleEditor})
	require.NoError(t, err)
	r.catalog = agent.Catalog{URL: server.URL + iceberg.Prefix, ReadToken: reading, WriteToken: token, Databases: []string{"lake"}}
	o.engine.Memory, o.engine.Log = 1<<30, slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), closed{t, r.storageAddress()}), nil))
	o.engine.Slots = max(o.engine.Slots, 2)
	r.engineOf = newEngine(t, o.engine)
	r.engine = httptest.NewServer(r.engineOf)
	t.Cleanup(r.engine.Close)
	return r
}

// closed fails a test if an answer or log of the engine contains an address of the catalog: of the
// engine's connection, or of the platform.
type closed struct {
	t       testing.TB
	storage string // address of the storage, which users may see; empty for files
}

var address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

func (c closed) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("127.0.0.1:")) { // far faster for large results
		return len(b), nil
	}
	for _, found := range address.FindAll(b, -1) {
		if string(found) == c.storage {
			continue
		}
		c.t.Errorf("the address %s has left the engine: %.2000q", found, b)
	}
	return len(b), nil
}

func (r *rig) storageAddress() string {
	if r.storage.S3 == nil {
		return ""
	}
	_, address, _ := strings.Cut(r.storage.S3.Endpoint, "://")
	return address
}

func storageOf(a lake.Access) agent.Storage {
	s := agent.Storage{Prefix: a.Prefix}
	if k := a.S3; k != nil {
		s.S3 = &agent.S3Storage{Endpoint: k.Endpoint, Region: k.Region, AccessKeyID: k.AccessKeyID, SecretKey: k.SecretKey, SessionToken: k.SessionToken, PathStyle: k.PathStyle}
	}
	return s
}

func (r *rig) workspace(instance *setup.Instance, name string) (token string, scope domain.Scope) {
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

// do runs a statement and returns its rows as text, one row as "a|b".
func (r *rig) do(s agent.Statement) (rows []string, end agent.StatementEnd) {
	rows, _, end = r.follow(s)
	return rows, end
}

// headOf runs a statement and returns its head.
func (r *rig) headOf(s agent.Statement) (head agent.StatementHead, end agent.StatementEnd) {
	_, head, end = r.follow(s)
	return head, end
}

// awaitRunning waits until a followed statement runs.
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
		_, _ = closed{r.t, r.storageAddress()}.Write(payload)
		switch kind {
		case agent.FrameHead:
			require.NoError(r.t, json.Unmarshal(payload, &head))
			running, _ := r.running.LoadOrStore(s.ID, make(chan struct{}))
			close(running.(chan struct{}))
		case agent.FrameSchema:
			stream.Write(payload)
		case agent.FrameBatch:
			stream.Write(payload[8:])
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

// ok runs a statement that must succeed, and returns its rows.
func (r *rig) ok(query string, parameters ...any) []string {
	r.t.Helper()
	rows, end := r.do(r.statement(query, parameters...))
	require.Nil(r.t, end.Error, "%s: %+v", query, end.Error)
	return rows
}

// changes runs a write and returns the number of changed rows.
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

// named returns the tables that a statement names, without their snapshots.
func named(end agent.StatementEnd) []agent.StatementTable {
	tables := slices.Clone(end.Tables)
	for i := range tables {
		tables[i].Snapshot = nil
	}
	return tables
}
