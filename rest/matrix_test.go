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
	"github.com/millpond/millpond/domain/lake"
)

// matrix has every operation's action and request. An operation that is missing here fails the
// test.
var matrix = map[string]struct {
	action domain.Action // empty if every signed-in user may
	body   string
}{
	"refresh":                  {},
	"logout":                   {},
	"me":                       {action: domain.WorkspaceRead},
	"change-password":          {body: `{"current":"x","new":"a new good password"}`},
	"create-job":               {domain.JobCreate, `{"name":"made","command":"true"}`},
	"list-jobs":                {action: domain.JobRead},
	"get-job":                  {action: domain.JobRead},
	"update-job":               {domain.JobUpdate, `{"name":"changed"}`},
	"put-job":                  {domain.JobUpdate, `{"name":"changed"}`},
	"delete-job":               {action: domain.JobDelete},
	"list-job-runs":            {action: domain.RunRead},
	"preview-schedule":         {},
	"start-run":                {domain.RunStart, `{"parameters":{}}`},
	"list-runs":                {action: domain.RunRead},
	"get-run":                  {action: domain.RunRead},
	"cancel-run":               {action: domain.RunCancel},
	"repair-run":               {action: domain.RunRepair},
	"list-tasks":               {action: domain.RunRead},
	"get-run-lineage":          {action: domain.LineageShow},
	"get-lineage":              {action: domain.LineageShow},
	"get-lineage-coverage":     {action: domain.LineageShow},
	"report-lineage":           {domain.LineageReport, lineageEvent},
	"list-attempts":            {action: domain.RunRead},
	"get-run-logs":             {action: domain.RunRead},
	"get-task-logs":            {action: domain.RunRead},
	"list-members":             {action: domain.MemberRead},
	"add-member":               {domain.MemberManage, `{"email":"more@example.com","role":"viewer"}`},
	"update-member":            {domain.MemberManage, `{"role":"editor"}`},
	"remove-member":            {action: domain.MemberManage},
	"list-api-keys":            {action: domain.APIKeyRead},
	"create-api-key":           {domain.APIKeyCreate, `{"name":"k"}`},
	"revoke-api-key":           {action: domain.APIKeyRevoke},
	"list-agents":              {action: domain.AgentRead},
	"get-agent":                {action: domain.AgentRead},
	"rotate-agent-token":       {action: domain.AgentManage},
	"list-compute-instances":   {action: domain.ComputeRead},
	"create-compute":           {domain.ComputeCreate, `{"name":"made","flavor":"cpu.1"}`},
	"get-compute":              {action: domain.ComputeRead},
	"update-compute":           {domain.ComputeUpdate, `{"name":"changed"}`},
	"delete-compute":           {action: domain.ComputeDelete},
	"start-compute":            {action: domain.ComputeStart},
	"stop-compute":             {action: domain.ComputeStop},
	"get-compute-metrics":      {action: domain.ComputeRead},
	"get-compute-logs":         {action: domain.ComputeRead},
	"list-warehouses":          {action: domain.WarehouseRead},
	"create-warehouse":         {domain.WarehouseCreate, `{"name":"made","size":"cpu.1"}`},
	"get-warehouse":            {action: domain.WarehouseRead},
	"update-warehouse":         {domain.WarehouseUpdate, `{"name":"changed"}`},
	"delete-warehouse":         {action: domain.WarehouseDelete},
	"start-warehouse":          {action: domain.WarehouseStart},
	"stop-warehouse":           {action: domain.WarehouseStop},
	"get-warehouse-metrics":    {action: domain.WarehouseRead},
	"get-warehouse-logs":       {action: domain.WarehouseRead},
	"list-databases":           {action: domain.CatalogRead},
	"create-database":          {domain.DatabaseCreate, `{"name":"made"}`},
	"get-database":             {action: domain.CatalogRead},
	"delete-database":          {action: domain.DatabaseDelete},
	"list-schemas":             {action: domain.CatalogRead},
	"create-schema":            {domain.CatalogWrite, `{"name":"made"}`},
	"delete-schema":            {action: domain.CatalogWrite},
	"list-tables":              {action: domain.CatalogRead},
	"list-views":               {action: domain.CatalogRead},
	"get-table":                {action: domain.CatalogRead},
	"get-table-schema":         {action: domain.CatalogRead},
	"rename-table":             {domain.CatalogWrite, `{"name":"renamed"}`},
	"drop-table":               {action: domain.CatalogWrite},
	"drop-view":                {action: domain.CatalogWrite},
	"undrop-table":             {action: domain.CatalogWrite},
	"purge-table":              {action: domain.CatalogWrite},
	"list-snapshots":           {action: domain.CatalogRead},
	"list-table-history":       {action: domain.CatalogRead},
	"list-data-files":          {action: domain.CatalogRead},
	"list-partitions":          {action: domain.CatalogRead},
	"sample-table":             {action: domain.CatalogRead},
	"get-maintenance":          {action: domain.MaintenanceRead},
	"set-maintenance":          {domain.MaintenanceDefault, `{"enabled":false}`},
	"get-database-maintenance": {action: domain.MaintenanceRead},
	"set-database-maintenance": {domain.MaintenanceUpdate, `{"enabled":false}`},
	"run-database-maintenance": {action: domain.MaintenanceStart},
	"get-table-maintenance":    {action: domain.MaintenanceRead},
	"set-table-maintenance":    {domain.MaintenanceUpdate, `{"enabled":false}`},
	"run-table-maintenance":    {action: domain.MaintenanceStart},
	"list-maintenance-runs":    {action: domain.MaintenanceRead},
	"get-maintenance-run":      {action: domain.MaintenanceRead},
	"execute-statement":        {domain.StatementRun, `{"query":"SELECT 1","warehouse_id":"default"}`},
	"list-statements":          {action: domain.StatementRead},
	"get-statement":            {action: domain.StatementRead},
	"get-statement-chunk":      {action: domain.StatementRead},
	"cancel-statement":         {action: domain.StatementRun},
	"list-experiments":         {action: domain.ExperimentRead},
	"create-experiment":        {domain.ExperimentCreate, `{"name":"made"}`},
	"get-experiment":           {action: domain.ExperimentRead},
	"update-experiment":        {domain.ExperimentUpdate, `{"name":"changed"}`},
	"delete-experiment":        {action: domain.ExperimentDelete},
	"restore-experiment":       {action: domain.ExperimentRestore},
	"set-experiment-tags":      {domain.ExperimentTag, `{"tags":[{"key":"k","value":"v"}]}`},
	"delete-experiment-tag":    {action: domain.ExperimentTag},
	"list-tracking-runs":       {action: domain.TrackingRunRead},
	"search-tracking-runs":     {domain.TrackingRunRead, `{"filter":"metrics.a > 0"}`},
	"create-tracking-run":      {domain.TrackingRunCreate, `{"name":"made"}`},
	"get-tracking-run":         {action: domain.TrackingRunRead},
	"update-tracking-run":      {domain.TrackingRunUpdate, `{"status":"finished"}`},
	"delete-tracking-run":      {action: domain.TrackingRunDelete},
	"restore-tracking-run":     {action: domain.TrackingRunRestore},
	"get-tracking-run-lineage": {action: domain.TrackingRunRead},
	"log-parameters":           {domain.TrackingRunLog, `{"parameters":[{"key":"k","value":"v"}]}`},
	"set-tracking-run-tags":    {domain.TrackingRunLog, `{"tags":[{"key":"k","value":"v"}]}`},
	"delete-tracking-run-tag":  {action: domain.TrackingRunLog},
	"log-inputs":               {domain.TrackingRunLog, `{"inputs":[{"name":"n","digest":"d","source_type":"local","source":"s"}]}`},
	"log-metric":               {domain.TrackingRunLog, `{"key":"a","value":1}`},
	"log-metrics":              {domain.TrackingRunLog, `[{"key":"a","value":1}]`},
	"get-metric-history":       {action: domain.TrackingRunRead},
	"list-flavors":             {action: domain.ComputeRead},
	"get-provider":             {action: domain.SettingsRead},
	"update-provider":          {domain.ProviderUpdate, `{"kind":"local"}`},
	"get-storage":              {action: domain.SettingsRead},
	"update-storage":           {domain.StorageUpdate, `{"url":"file:///nowhere"}`},
	"list-quotas":              {action: domain.QuotaRead},
	"update-quota":             {domain.QuotaUpdate, `{"limit":500}`},
	"get-workspace":            {action: domain.WorkspaceRead},
	"get-overview":             {action: domain.WorkspaceRead},
	"remove-samples":           {action: domain.SampleRemove},
}

// operation is an operation of the document.
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
	require.Len(t, seen, len(matrix), "the matrix has operations that no longer exist")
	slices.SortFunc(cases, func(a, b operationCase) int { return strings.Compare(a.id, b.id) })
	return cases
}

// made fills in ids of objects that were just created in our workspace.
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
	case strings.HasPrefix(path, "/sql/statements/{id}"):
		id := w.executed(w.ours.viewer, "SELECT 1", nil)["statement_id"].(string)
		path = strings.NewReplacer("{id}", id, "{n}", "0").Replace(path)
	case strings.HasPrefix(path, "/databases/{id}"), strings.HasPrefix(path, "/tables/{id}"):
		path = w.madeInLake(path)
	case strings.HasPrefix(path, "/experiments/{id}"):
		id, _ := w.call(w.ours.editor, "POST", "/experiments", map[string]any{"name": unique("victim"), "tags": []any{map[string]any{"key": "k", "value": "v"}}}).object(201)["id"].(string)
		run, _ := w.call(w.ours.editor, "POST", "/experiments/"+id+"/runs", `{"tags":[{"key":"k","value":"v"}]}`).object(201)["id"].(string)
		path = strings.NewReplacer("{id}", id, "{run}", run, "{key}", "k").Replace(path)
	case strings.HasPrefix(path, "/maintenance/runs/{id}"):
		path = strings.Replace(path, "{id}", w.maintained(), 1)
	case strings.HasPrefix(path, "/settings/agents/{id}"):
		path = strings.Replace(path, "{id}", string(w.ours.agent.ID), 1)
	}
	if c.id == "preview-schedule" {
		path += "?cron=@daily"
	}
	path = strings.Replace(path, "{name}", "max_endpoints", 1)
	require.NotContains(w.t, path, "{", "make the object of %s here", c.path)
	return path
}

// madeInLake fills in a database that the world's other cases share, and a new table, dropped table
// or view in it.
func (w *world) madeInLake(path string) string {
	w.t.Helper()
	if w.victims == "" {
		w.victims, _ = w.call(w.ours.editor, "POST", "/databases", `{"name":"victims"}`).object(201)["id"].(string)
	}
	id, name := w.victims, unique("victim")
	switch {
	case strings.HasPrefix(path, "/tables/{id}/maintenance"):
		id = string(w.tableIn(w.ours, w.victims, name, false).ID)
	case strings.HasPrefix(path, "/tables/"):
		id = string(w.tableIn(w.ours, w.victims, name, false).ID)
		require.NoError(w.t, w.lake.Drop(w.t.Context(), w.ours.scope, lake.Ref{Database: w.victims, Schema: "public", Name: name}, lake.KindTable, false, lake.Key{}))
	case strings.Contains(path, "/views/{table}"):
		w.view(w.ours, w.victims, name)
	case strings.Contains(path, "{table}"):
		w.tableIn(w.ours, w.victims, name, false)
	}
	return strings.NewReplacer("{id}", id, "{schema}", "public", "{table}", name).Replace(path)
}

// unique returns a name that nothing else has.
func unique(name string) string { return fmt.Sprint(name, time.Now().UnixNano()) }

// snapshot is what the API shows an admin of our workspace.
func (w *world) snapshot() string {
	w.t.Helper()
	var b strings.Builder
	for _, path := range []string{
		"/jobs?limit=200", "/runs?limit=200", "/settings/members?limit=200", "/settings/api-keys?limit=200", "/settings/agents", "/settings/quotas", "/workspace",
		"/compute?limit=200", "/sql/warehouses?limit=200", "/settings/provider", "/settings/storage", "/sql/statements?limit=200", "/experiments?limit=200&view=all",
	} {
		b.WriteString(w.call(w.ours.admin, "GET", path, nil).body + "\n")
	}
	for _, d := range w.call(w.ours.admin, "GET", "/databases?limit=200", nil).data(200) {
		one := fmt.Sprint("/databases/", d.(map[string]any)["id"])
		for _, path := range []string{"/schemas", "/tables", "/tables?dropped=true", "/views", "/maintenance"} {
			b.WriteString(w.call(w.ours.admin, "GET", one+path, nil).body + "\n")
		}
	}
	return b.String()
}

// Every operation with no token, an expired token, a revoked key, a viewer and another workspace's
// admin.
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
	w.runs(w.ours)

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
			require.Equal(t, before, w.snapshot(), "refused callers changed nothing")
			if c.id != "logout" && (c.action == "" || domain.RoleViewer.Allows(c.action)) {
				r := w.call(w.ours.viewer, c.method, path, c.body)
				require.NotEqual(t, 401, r.status, r.body)
				require.NotEqual(t, 403, r.status, r.body)
				require.NotEqual(t, 500, r.status, r.body)
			}
		})
	}
	t.Run("their lists show nothing of ours", func(t *testing.T) {
		for _, path := range []string{"/jobs", "/runs", "/settings/members", "/settings/api-keys", "/settings/agents", "/compute", "/sql/warehouses", "/databases", "/sql/statements"} {
			for _, item := range w.call(w.ours.admin, "GET", path, nil).data(200) {
				thing, _ := item.(map[string]any)
				require.NotContains(t, w.call(w.theirs.admin, "GET", path, nil).body, thing["id"])
			}
		}
	})
	require.NotContains(t, w.logged.String(), "request failed")
}

// A malformed body is a clear 4xx for every operation with a body, and changes nothing.
func TestMalformedBodiesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.runs(w.ours)
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
