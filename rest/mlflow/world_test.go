package mlflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/rest/mlflow"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

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

// world is a server with two workspaces behind the face.
type world struct {
	t            testing.TB
	url          string
	store        *store.Store
	auth         *auth.Service
	instance     *setup.Instance
	members      *identity.Members
	logged       *buffer
	ours, theirs tenant
}

// tenant is a workspace with a member of each role.
type tenant struct {
	id                    domain.WorkspaceID
	scope                 domain.Scope // the admin's
	admin, editor, viewer string       // access tokens
	agentToken            string
}

const password = "correct horse battery"

func newWorld(t testing.TB) *world {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, append(storetest.IgnoreCluster(), before)...)
	})
	w := &world{t: t, logged: &buffer{}}
	var err error
	w.store, err = store.Open(t.Context(), storetest.Database(t, store.Migrate), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	system, clock := w.store.System(), domain.SystemClock{}
	keys, err := auth.NewKeys(t.Context(), system, clock)
	require.NoError(t, err)
	w.auth = auth.NewService(system, store.For[domain.Tx](w.store), keys, nil, clock)
	w.instance = &setup.Instance{Store: system, Clock: clock}
	w.members = &identity.Members{Store: store.For[identity.Tx](w.store), Clock: clock}
	face, err := mlflow.Handler(mlflow.Options{
		Experiments: &tracking.Experiments{Store: store.For[tracking.Tx](w.store), Clock: clock},
		Runs:        &tracking.Runs{Store: store.For[tracking.Tx](w.store), Topics: w.store.Topics(), Clock: clock},
		Workspaces:  &identity.Workspaces{Store: store.For[identity.Tx](w.store), Clock: clock},
		Auth:        w.auth, Log: slog.New(slog.NewJSONHandler(w.logged, nil)),
	})
	require.NoError(t, err)
	mounted := chi.NewRouter()
	mounted.Handle(mlflow.Prefix+"/*", face)
	mounted.MethodNotAllowed(face.ServeHTTP) // for methods unknown to chi
	server := httptest.NewServer(mounted)
	t.Cleanup(server.Close)
	w.url = server.URL + mlflow.Prefix
	w.ours, w.theirs = w.tenant("ours"), w.tenant("theirs")
	return w
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

type object = map[string]any

// reply is a completely read answer.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// send sends a request. The body of a GET is its query; a body that is not a string is sent as
// JSON. Headers come in pairs.
func (w *world) send(token, method, path string, body any, headers ...string) reply {
	w.t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/api/2.0/mlflow/" + path
	}
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = strings.NewReader(b)
	case url.Values:
		path += "?" + b.Encode()
	default:
		encoded, err := json.Marshal(b)
		require.NoError(w.t, err)
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, content)
	require.NoError(w.t, err)
	if content != nil {
		r.Header.Set("Content-Type", "application/json")
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

// post is send for the editor.
func (w *world) post(path string, body any) reply {
	w.t.Helper()
	return w.send(w.ours.editor, http.MethodPost, path, body)
}

// get is send for the viewer. The query comes in pairs.
func (w *world) get(path string, query ...string) reply {
	w.t.Helper()
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Add(query[i], query[i+1])
	}
	return w.send(w.ours.viewer, http.MethodGet, path, values)
}

// object returns the body of a good answer.
func (r reply) object() object {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.status, r.body)
	require.Equal(r.t, "application/json", r.header.Get("Content-Type"))
	var v object
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	return v
}

// done checks for an empty object.
func (r reply) done() {
	r.t.Helper()
	require.Empty(r.t, r.object())
}

// refused checks that the body is only an error of the protocol, whose message has the words.
func (r reply) refused(status int, code, words string) {
	r.t.Helper()
	require.Equal(r.t, status, r.status, r.body)
	var v map[string]string
	require.NoError(r.t, json.Unmarshal([]byte(r.body), &v), r.body)
	require.Len(r.t, v, 2, r.body)
	require.Equal(r.t, code, v["error_code"], r.body)
	require.Contains(r.t, v["message"], words)
	require.NotEmpty(r.t, r.header.Get("X-Request-Id"))
}

// at returns the value at the path of names and indexes.
func at(t testing.TB, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch s := step.(type) {
		case string:
			v = v.(object)[s]
		case int:
			v = v.([]any)[s]
		}
	}
	return v
}

func (w *world) experiment(name string) string {
	w.t.Helper()
	return w.post("experiments/create", object{"name": name}).object()["experiment_id"].(string)
}

// run makes a run of the experiment.
func (w *world) run(experiment string, more ...object) string {
	w.t.Helper()
	body := object{"experiment_id": experiment, "start_time": 1000}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return at(w.t, w.post("runs/create", body).object(), "run", "info", "run_id").(string)
}

// points are n points of the metric, from the step.
func points(key string, from, n int) []object {
	made := make([]object, n)
	for i := range made {
		made[i] = object{"key": key, "value": float64(from + i), "timestamp": from + i, "step": from + i}
	}
	return made
}

func pairs(key string, n int) []object {
	made := make([]object, n)
	for i := range made {
		made[i] = object{"key": fmt.Sprintf("%s%d", key, i), "value": "v"}
	}
	return made
}
