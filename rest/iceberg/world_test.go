package iceberg_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// clock can be moved forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return domain.SystemClock{}.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// buffer collects the log of several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// world is a server with two workspaces behind the catalog's face.
type world struct {
	t            testing.TB
	url          string // of the catalog, as in a client's configuration
	files        string // where tables are stored
	store        *store.Store
	keys         *auth.Keys
	auth         *auth.Service
	catalog      *lake.Catalog
	instance     *setup.Instance
	members      *identity.Members
	apiKeys      *identity.APIKeys
	clock        *clock
	logged       *buffer
	ours, theirs tenant
}

// tenant is a workspace with a member of each role, and its first database.
type tenant struct {
	id                    domain.WorkspaceID
	scope                 domain.Scope // the admin's
	admin, editor, viewer string       // access tokens
	agentToken            string
	key                   string // an editor's API key
	keyID                 domain.APIKeyID
	prefix                string // of the paths of its database
}

const password = "correct horse battery"

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, nil)
}

// newWorldOn stores its tables in the given files, or else in a directory.
func newWorldOn(t testing.TB, files lake.Files) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before)...)
	})
	w := &world{t: t, clock: &clock{}, logged: &buffer{}, files: t.TempDir()}
	var err error
	w.store, err = store.Open(t.Context(), storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	if files == nil {
		opened, err := objects.OpenLake(t.Context(), "file://"+w.files, objects.LakeOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, opened.Close()) })
		files = opened
	}
	system := w.store.System()
	w.keys, err = auth.NewKeys(t.Context(), system, w.clock)
	require.NoError(t, err)
	w.auth = auth.NewService(system, store.For[domain.Tx](w.store), w.keys, nil, w.clock)
	w.instance = &setup.Instance{Store: system, Clock: w.clock}
	w.members = &identity.Members{Store: store.For[identity.Tx](w.store), Clock: w.clock}
	w.apiKeys = &identity.APIKeys{Store: store.For[identity.Tx](w.store), Clock: w.clock}
	w.catalog = lake.New(lake.Options{Store: store.For[lake.Tx](w.store), Quick: w.store, System: system, Files: files, Clock: w.clock, Report: func(err error) { t.Log("reported:", err) }})
	w.serve()
	w.ours, w.theirs = w.tenant("ours"), w.tenant("theirs")
	return w
}

// serve mounts the face like the server.
func (w *world) serve() {
	face, err := iceberg.Handler(iceberg.Options{Catalog: w.catalog, Auth: w.auth, Log: slog.New(slog.NewJSONHandler(w.logged, nil)), MaxBody: 1 << 20})
	require.NoError(w.t, err)
	mounted := chi.NewRouter()
	mounted.Handle(iceberg.Prefix+"/*", face)
	mounted.MethodNotAllowed(face.ServeHTTP) // for methods unknown to chi
	server := httptest.NewServer(mounted)
	w.t.Cleanup(server.Close)
	w.url = server.URL + iceberg.Prefix
}

func (w *world) tenant(name string) tenant {
	ctx := w.t.Context()
	workspace, _, credentials, err := w.instance.CreateWorkspace(ctx, name)
	require.NoError(w.t, err)
	in, err := w.auth.SetUp(ctx, auth.SetUp{Token: credentials.SetUpToken, Email: "admin@" + name + ".example", Password: password})
	require.NoError(w.t, err)
	scope, err := w.auth.Bearer(ctx, in.Token)
	require.NoError(w.t, err)
	t := tenant{id: workspace.ID, scope: scope, admin: in.Token, agentToken: credentials.AgentToken}
	t.editor, t.viewer = w.member(t, "editor", domain.RoleEditor), w.member(t, "viewer", domain.RoleViewer)
	t.key, t.keyID = w.apiKey(t.editor)
	t.prefix, _ = w.call(t.admin, "GET", "/v1/config?warehouse=lake", nil).object(200)["overrides"].(map[string]any)["prefix"].(string)
	require.NotEmpty(w.t, t.prefix)
	return t
}

func (w *world) member(t tenant, name string, role domain.Role) string {
	email := name + "@" + string(t.id) + ".example"
	_, token, err := w.members.Add(w.t.Context(), t.scope, email, name, role)
	require.NoError(w.t, err)
	in, err := w.auth.SetUp(w.t.Context(), auth.SetUp{Token: token, Email: email, Password: password})
	require.NoError(w.t, err)
	return in.Token
}

// apiKey creates a key with the role of the token's owner.
func (w *world) apiKey(token string) (string, domain.APIKeyID) {
	scope, err := w.auth.Bearer(w.t.Context(), token)
	require.NoError(w.t, err)
	key, secret, err := w.apiKeys.Create(w.t.Context(), scope, identity.NewAPIKey{Name: "catalog", Role: scope.Role()})
	require.NoError(w.t, err)
	return secret, key.ID
}

// statement returns the token of a running statement that may change tables.
func (w *world) statement(t tenant) string {
	now := w.clock.Now()
	st := statement.Statement{
		ID: domain.StatementID("stm_" + string(t.id)), Query: "SELECT 1", Database: "lake", Schema: "public", CreatedBy: t.scope.Actor(), Role: domain.RoleEditor,
		CreatedAt: now, State: statement.Running, Replica: "r1",
	}
	require.NoError(w.t, w.store.In(w.t.Context(), t.scope, func(tx *store.Tx) error { return tx.InsertStatement(w.t.Context(), st) }))
	return w.keys.StatementToken(st.ID, true)
}

// reading returns the token of a statement that only reads.
func (w *world) reading(t tenant) string {
	return w.keys.StatementToken(domain.StatementID("stm_"+string(t.id)), false)
}

// reply is a completely read answer.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// call sends a request; a body that is not a string is sent as JSON, and url.Values as a form.
// Headers come in pairs.
func (w *world) call(token, method, path string, body any, headers ...string) reply {
	w.t.Helper()
	var content io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	case url.Values:
		content, kind = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	default:
		encoded, err := json.Marshal(b)
		require.NoError(w.t, err)
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, content)
	require.NoError(w.t, err)
	if content != nil {
		r.Header.Set("Content-Type", kind)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return reply{w.t, res.StatusCode, res.Header, string(b)}
}

// object returns the body of an answer with that status.
func (r reply) object(status int) map[string]any {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.body)
	var v map[string]any
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// done checks for 204 and an empty body.
func (r reply) done() {
	r.t.Helper()
	require.Equal(r.t, http.StatusNoContent, r.status, r.body)
	require.Empty(r.t, r.body)
}

// refused checks that the body is only an error of the protocol, and returns its sentence.
func (r reply) refused(status int, kind string) string {
	r.t.Helper()
	v := r.object(status)
	require.Len(r.t, v, 1, r.body)
	e, ok := v["error"].(map[string]any)
	require.True(r.t, ok, r.body)
	require.Len(r.t, e, 3, r.body)
	require.Equal(r.t, kind, e["type"], r.body)
	require.EqualValues(r.t, status, e["code"], r.body)
	require.Equal(r.t, "application/json", r.header.Get("Content-Type"))
	require.NotEmpty(r.t, r.header.Get("X-Request-Id"))
	message, _ := e["message"].(string)
	require.NotEmpty(r.t, message, r.body)
	return message
}

type object = map[string]any

// columns is a schema with an id and a name.
var columns = object{"type": "struct", "schema-id": 0, "fields": []any{
	object{"id": 1, "name": "id", "type": "long", "required": true},
	object{"id": 2, "name": "name", "type": "string", "required": false},
}}

func (w *world) ns(t tenant, path string) string { return "/v1/" + t.prefix + "/namespaces" + path }

// schema creates a namespace.
func (w *world) schema(t tenant, levels ...string) {
	w.t.Helper()
	w.call(t.admin, "POST", w.ns(t, ""), object{"namespace": levels}).object(200)
}

// table creates a table in the namespace public.
func (w *world) table(t tenant, name string) object {
	w.t.Helper()
	return w.call(t.admin, "POST", w.ns(t, "/public/tables"), object{"name": name, "schema": columns}).object(200)
}

// viewOf is a request for a view of the SQL.
func viewOf(name, sql string) object {
	return object{"name": name, "schema": columns, "properties": object{}, "view-version": object{
		"version-id": 1, "timestamp-ms": 1700000000000, "schema-id": 0, "summary": object{"engine-name": "test"}, "default-namespace": []string{"public"},
		"representations": []any{object{"type": "sql", "sql": sql, "dialect": "duckdb"}},
	}}
}
