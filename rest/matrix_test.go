package rest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// matrix says of every operation what it does and what it is sent. An operation that is missing here fails the test.
var matrix = map[string]struct {
	action domain.Action // empty where any signed-in user may
	body   string
}{
	"refresh":                {},
	"logout":                 {},
	"me":                     {action: domain.WorkspaceRead},
	"change-password":        {body: `{"current":"x","new":"a new good password"}`},
	"create-job":             {domain.JobCreate, `{"name":"made","command":"true"}`},
	"list-jobs":              {action: domain.JobRead},
	"get-job":                {action: domain.JobRead},
	"update-job":             {domain.JobUpdate, `{"name":"changed"}`},
	"put-job":                {domain.JobUpdate, `{"name":"changed"}`},
	"delete-job":             {action: domain.JobDelete},
	"list-job-runs":          {action: domain.RunRead},
	"preview-schedule":       {},
	"start-run":              {domain.RunStart, `{"parameters":{}}`},
	"list-runs":              {action: domain.RunRead},
	"get-run":                {action: domain.RunRead},
	"cancel-run":             {action: domain.RunCancel},
	"repair-run":             {action: domain.RunRepair},
	"list-tasks":             {action: domain.RunRead},
	"list-attempts":          {action: domain.RunRead},
	"get-run-logs":           {action: domain.RunRead},
	"get-task-logs":          {action: domain.RunRead},
	"list-members":           {action: domain.MemberRead},
	"add-member":             {domain.MemberManage, `{"email":"more@example.com","role":"viewer"}`},
	"update-member":          {domain.MemberManage, `{"role":"editor"}`},
	"remove-member":          {action: domain.MemberManage},
	"list-api-keys":          {action: domain.APIKeyRead},
	"create-api-key":         {domain.APIKeyCreate, `{"name":"k"}`},
	"revoke-api-key":         {action: domain.APIKeyRevoke},
	"list-agents":            {action: domain.AgentRead},
	"get-agent":              {action: domain.AgentRead},
	"rotate-agent-token":     {action: domain.AgentManage},
	"list-compute-instances": {action: domain.ComputeRead},
	"create-compute":         {domain.ComputeCreate, `{"name":"made","flavor":"cpu.1"}`},
	"get-compute":            {action: domain.ComputeRead},
	"update-compute":         {domain.ComputeUpdate, `{"name":"changed"}`},
	"delete-compute":         {action: domain.ComputeDelete},
	"start-compute":          {action: domain.ComputeStart},
	"stop-compute":           {action: domain.ComputeStop},
	"get-compute-metrics":    {action: domain.ComputeRead},
	"get-compute-logs":       {action: domain.ComputeRead},
	"list-warehouses":        {action: domain.WarehouseRead},
	"create-warehouse":       {domain.WarehouseCreate, `{"name":"made","size":"cpu.1"}`},
	"get-warehouse":          {action: domain.WarehouseRead},
	"update-warehouse":       {domain.WarehouseUpdate, `{"name":"changed"}`},
	"delete-warehouse":       {action: domain.WarehouseDelete},
	"start-warehouse":        {action: domain.WarehouseStart},
	"stop-warehouse":         {action: domain.WarehouseStop},
	"get-warehouse-metrics":  {action: domain.WarehouseRead},
	"get-warehouse-logs":     {action: domain.WarehouseRead},
	"list-flavors":           {action: domain.ComputeRead},
	"get-provider":           {action: domain.SettingsRead},
	"update-provider":        {domain.ProviderUpdate, `{"kind":"local"}`},
	"get-storage":            {action: domain.SettingsRead},
	"update-storage":         {domain.StorageUpdate, `{"url":"file:///nowhere"}`},
	"list-quotas":            {action: domain.QuotaRead},
	"update-quota":           {domain.QuotaUpdate, `{"limit":500}`},
	"get-workspace":          {action: domain.WorkspaceRead},
	"get-overview":           {action: domain.WorkspaceRead},
	"remove-samples":         {action: domain.SampleRemove},
}

// operation is one of the document's.
type operationCase struct {
	id, method, path string
	action           domain.Action
	body             any
}

func operations(t *testing.T) (cases []operationCase) {
	t.Helper()
	seen := map[string]bool{}
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if len(*op.Security) == 0 {
				continue
			}
			row, known := matrix[op.OperationID]
			require.True(t, known, "the matrix lacks %s", op.OperationID)
			seen[op.OperationID] = true
			c := operationCase{id: op.OperationID, method: method, path: path, action: row.action}
			if row.body != "" {
				c.body = row.body
			}
			cases = append(cases, c)
		}
	}
	require.Len(t, seen, len(matrix), "the matrix has operations that are gone")
	slices.SortFunc(cases, func(a, b operationCase) int { return strings.Compare(a.id, b.id) })
	return cases
}

// made fills in ids of things that were just made in our workspace.
func (w *world) made(c operationCase) string {
	w.t.Helper()
	path := c.path
	switch {
	case strings.HasPrefix(path, "/jobs/{id}"):
		path = strings.Replace(path, "{id}", w.job(w.ours.editor, map[string]any{"name": "victim", "command": "true"}), 1)
	case strings.HasPrefix(path, "/runs/{id}/tasks/{key}"):
		job := w.job(w.ours.editor, map[string]any{"name": "victim", "tasks": []any{map[string]any{"key": "k", "command": "true"}}})
		path = strings.Replace(strings.Replace(path, "{id}", w.start(w.ours.editor, job), 1), "{key}", "k", 1)
	case strings.HasPrefix(path, "/runs/{id}"):
		path = strings.Replace(path, "{id}", w.start(w.ours.editor, w.job(w.ours.editor, map[string]any{"name": "victim", "command": "true"})), 1)
	case strings.HasPrefix(path, "/settings/api-keys/{id}"):
		id, _ := w.call(w.ours.editor, "POST", "/settings/api-keys", `{"name":"victim"}`).object(201)["id"].(string)
		path = strings.Replace(path, "{id}", id, 1)
	case strings.HasPrefix(path, "/settings/members/{id}"):
		email := unique("victim") + "@example.com"
		id, _ := w.call(w.ours.admin, "POST", "/settings/members", map[string]any{"email": email, "role": "viewer"}).object(201)["id"].(string)
		path = strings.Replace(path, "{id}", id, 1)
	case strings.HasPrefix(path, "/compute/{id}"):
		path = strings.Replace(path, "{id}", w.machine(computeNoun, w.ours.editor, unique("victim")), 1)
	case strings.HasPrefix(path, "/sql/warehouses/{id}"):
		path = strings.Replace(path, "{id}", w.machine(warehouseNoun, w.ours.editor, unique("victim")), 1)
	case strings.HasPrefix(path, "/settings/agents/{id}"):
		path = strings.Replace(path, "{id}", string(w.ours.agent.ID), 1)
	}
	if c.id == "preview-schedule" {
		path += "?cron=@daily"
	}
	return strings.Replace(path, "{name}", "max_endpoints", 1)
}

// unique is a name that nothing else has.
func unique(name string) string { return fmt.Sprint(name, time.Now().UnixNano()) }

// snapshot is what the API shows of our workspace to an admin.
func (w *world) snapshot() string {
	w.t.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/jobs?limit=200", "/runs?limit=200", "/settings/members?limit=200", "/settings/api-keys?limit=200", "/settings/agents", "/settings/quotas", "/workspace",
		"/compute?limit=200", "/sql/warehouses?limit=200", "/settings/provider", "/settings/storage",
	} {
		b.WriteString(w.call(w.ours.admin, "GET", path, nil).body + "\n")
	}
	return b.String()
}

// Every operation against no token, an expired one, a revoked key, a viewer and another workspace's admin.
func TestMatrix(t *testing.T) {
	w := newWorld(t)
	w.call(w.ours.admin, "PATCH", "/settings/quotas/max_running_runs", `{"limit":1000}`).object(200)
	expired := w.ours.admin
	w.clock.advance(61 * time.Minute)
	w.ours, w.theirs = w.renewed(w.ours), w.renewed(w.theirs)
	revoked := w.call(w.ours.admin, "POST", "/settings/api-keys", `{"name":"revoked"}`).object(201)
	key, _ := revoked["secret"].(string)
	w.call(key, "GET", "/workspace", nil).object(200)
	require.Equal(t, 204, w.call(w.ours.admin, "DELETE", fmt.Sprint("/settings/api-keys/", revoked["id"]), nil).status)

	for _, c := range operations(t) {
		t.Run(c.id, func(t *testing.T) {
			path := w.made(c)
			before := w.snapshot()
			for name, token := range map[string]string{"no token": "", "an expired one": expired, "a revoked key": key, "nonsense": "x.y.z"} {
				r := w.call(token, c.method, path, c.body)
				require.Equal(t, 401, r.status, name)
				require.NotEmpty(t, r.header.Get("WWW-Authenticate"), name)
				r.refused(401)
			}
			w.call(w.ours.agentToken, c.method, path, c.body).refused(403)
			if strings.Contains(c.path, "{id}") {
				w.call(w.theirs.admin, c.method, path, c.body).refused(404)
			}
			if c.action != "" && !domain.RoleViewer.Allows(c.action) {
				w.call(w.ours.viewer, c.method, path, c.body).refused(403)
			}
			require.Equal(t, before, w.snapshot(), "nothing was changed by those who may not")
			if c.id != "logout" && (c.action == "" || domain.RoleViewer.Allows(c.action)) {
				r := w.call(w.ours.viewer, c.method, path, c.body)
				require.NotEqual(t, 401, r.status, r.body)
				require.NotEqual(t, 403, r.status, r.body)
				require.NotEqual(t, 500, r.status, r.body)
			}
		})
	}
	t.Run("their lists show nothing of ours", func(t *testing.T) {
		for _, path := range []string{"/jobs", "/runs", "/settings/members", "/settings/api-keys", "/settings/agents", "/compute", "/sql/warehouses"} {
			for _, item := range w.call(w.ours.admin, "GET", path, nil).data(200) {
				thing, _ := item.(map[string]any)
				require.NotContains(t, w.call(w.theirs.admin, "GET", path, nil).body, thing["id"])
			}
		}
	})
	require.NotContains(t, w.logged.String(), "request failed")
}

// Malformed bodies are a clear 4xx for every operation that has a body, and change nothing.
func TestMalformedBodiesChangeNothing(t *testing.T) {
	w := newWorld(t)
	bodies := map[string]string{
		"cut off": `{"name":"x"`, "a list": `[]`, "null": `null`, "a string": `"x"`, "a number": `1`, "not JSON": `name=x`, "trailing": `{} {}`,
		"twice": `{"name":"a","name":"b"}`, "unknown": `{"surprise":1}`, "NUL": `{"name":"\u0000"}`, "deep": strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000),
		"not UTF-8": "{\"name\":\"\xc3\x28\"}", "half a pair": `{"name":"\ud800"}`, "wrong types": `{"name":{},"tasks":"x","role":1,"limit":"many","email":[],"parameters":[1]}`,
		"prototype": `{"__proto__":{"admin":true}}`, "huge number": `{"limit":1e400,"max_retries":1e400}`,
	}
	bodies["too large"] = `{"name":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, c := range operations(t) {
		if c.body == nil {
			continue
		}
		t.Run(c.id, func(t *testing.T) {
			path := w.made(c)
			before := w.snapshot()
			for _, name := range slices.Sorted(maps.Keys(bodies)) {
				r := w.call(w.ours.admin, c.method, path, bodies[name])
				require.GreaterOrEqual(t, r.status, 400, name)
				require.Less(t, r.status, 500, name)
				r.refused(r.status)
				require.Less(t, len(r.body), 2000, name)
			}
			for _, kind := range []string{"", "text/plain", "multipart/form-data"} {
				w.call(w.ours.admin, c.method, path, c.body, "Content-Type", kind).refused(http.StatusUnsupportedMediaType)
			}
			require.Equal(t, before, w.snapshot())
		})
	}
	require.NotContains(t, w.logged.String(), "request failed")
}
