package graph

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph/generated"
)

// secret is in every name of the workspace that the stranger must not see.
const secret = "alpha"

// row is the expected answer of a root field for each caller: an error's code, "" for data, "null"
// for a failed look-up.
type row struct {
	args                                         string                              // of the field, with variables
	declare                                      string                              // those variables' types
	vars                                         func(f *matrixWorld) map[string]any // new ones for each caller, for mutations
	viewer, editor, admin, run, stranger, nobody string
}

const (
	denied  = "FORBIDDEN"
	absent  = "NOT_FOUND"
	unknown = "UNAUTHENTICATED"
)

// reads is a row that every member may read. The stranger reads in his own workspace.
func reads() row { return row{nobody: unknown} }

// pages is a row like reads, for a list.
func pages() row { return row{args: "first: 2", nobody: unknown} }

// finds is a row that finds an object of the workspace by its id.
func finds(vars func(*matrixWorld) map[string]any) row {
	return row{args: "id: $id", declare: "$id: ID!", vars: vars, stranger: "null", nobody: unknown}
}

// edits is a row that editors and admins may change.
func edits(input string, vars func(*matrixWorld) map[string]any) row {
	return row{args: "input: $input", declare: "$input: " + input, vars: vars, viewer: denied, stranger: absent, nobody: unknown}
}

// administers is a row that only admins may change.
func administers(input string, vars func(*matrixWorld) map[string]any) row {
	r := edits(input, vars)
	r.editor, r.run = denied, denied
	return r
}

func (r row) but(change func(*row)) row {
	change(&r)
	return r
}

var matrix = map[string]map[string]row{
	"Query": {
		"instance":         {},
		"viewer":           {nobody: "null"},
		"overview":         reads(),
		"quotas":           reads(),
		"members":          pages(),
		"apiKeys":          pages(),
		"agents":           pages(),
		"jobs":             pages(),
		"runs":             pages(),
		"cronPreview":      {args: `cron: "@daily", timeZone: "Europe/Rome"`, nobody: unknown},
		"computeInstances": pages(),
		"warehouses":       pages(),
		"flavors":          reads(),
		"provider":         reads(),
		"storage":          reads(),
		"compute":          finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.compute.ID} }),
		"warehouse":        finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.warehouse.ID} }),
		"agent":            finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.alpha.agent.ID} }),
		"job":              finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.job.ID} }),
		"run":              finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.run.ID} }),
		"statements":       pages(),
		"databases":        pages(),
		"statement":        finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.statement.ID} }),
		"database":         finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.database().ID} }),
		"table":            finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.table.ID} }),
		"maintenance":      reads(),
		"maintenanceRuns":  pages(),
		"maintenanceRun":   finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.upkeep.ID} }),
		"tableByName":      {args: `database: "lake", schema: "public", name: "` + secret + `_table"`, stranger: "null", nobody: unknown},
		"experiments":      pages(),
		"experiment":       finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.experiment.ID} }),
		"trackingRun":      finds(func(f *matrixWorld) map[string]any { return map[string]any{"id": f.tracked.ID} }),
		"trackingRuns": {
			args: "experiments: [$id], first: 2", declare: "$id: ID!", nobody: unknown,
			vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.experiment.ID} },
		},
		"lineage": {
			args: "table: $id", declare: "$id: String!", stranger: absent, nobody: unknown,
			vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.table.ID} },
		},
		"attemptLog": {
			args: "attempt: $id", declare: "$id: ID!", stranger: absent, nobody: unknown,
			vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.attempt} },
		},
	},
	"Mutation": {
		"login": {args: "input: $input", declare: "$input: LoginInput!", vars: func(f *matrixWorld) map[string]any {
			return in("email", f.beta.admin.scope.Actor().Name, "password", password)
		}},
		"setUp": {args: "input: $input", declare: "$input: SetUpInput!", vars: func(f *matrixWorld) map[string]any {
			_, token, err := f.w.services.Members.Add(f.w.t.Context(), f.beta.admin.scope, f.fresh("email")+"@example.com", "x", domain.RoleViewer)
			require.NoError(f.w.t, err)
			return in("token", token, "email", f.last+"@example.com", "password", password)
		}},
		"logout":         {run: denied, nobody: unknown},
		"changePassword": {args: "input: $input", declare: "$input: ChangePasswordInput!", run: denied, nobody: unknown, vars: func(*matrixWorld) map[string]any { return in("current", password, "new", password+" too") }},
		"addMember": administers("AddMemberInput!", func(f *matrixWorld) map[string]any {
			return in("email", f.fresh("new")+"@example.com", "role", "VIEWER")
		}).but(func(r *row) { r.stranger = "" }),
		"updateMember": administers("UpdateMemberInput!", func(f *matrixWorld) map[string]any { return in("id", f.member(), "role", "EDITOR") }),
		"removeMember": administers("RemoveMemberInput!", func(f *matrixWorld) map[string]any { return in("id", f.member()) }),
		"createApiKey": {args: "input: $input", declare: "$input: CreateAPIKeyInput!", run: denied, nobody: unknown, vars: func(*matrixWorld) map[string]any { return in("name", "a key") }},
		// The key belongs to the editor.
		"revokeApiKey": {
			args: "input: $input", declare: "$input: RevokeAPIKeyInput!", viewer: absent, run: absent, stranger: absent, nobody: unknown,
			vars: func(f *matrixWorld) map[string]any { return in("id", f.key()) },
		},
		"rotateAgentToken": administers("RotateAgentTokenInput!", func(f *matrixWorld) map[string]any { return in("id", f.alpha.agent.ID) }),
		"createJob": edits("CreateJobInput!", func(*matrixWorld) map[string]any {
			return in("name", "a job", "command", "true")
		}).but(func(r *row) { r.stranger = "" }),
		"updateJob": edits("UpdateJobInput!", func(f *matrixWorld) map[string]any { return in("id", f.job.ID, "description", "changed") }),
		"deleteJob": edits("DeleteJobInput!", func(f *matrixWorld) map[string]any {
			return in("id", f.alpha.job(job.Spec{Command: "true"}).ID)
		}),
		"createCompute": edits("CreateComputeInput!", func(f *matrixWorld) map[string]any {
			return in("name", f.fresh("machine"), "flavor", "cpu.1")
		}).but(func(r *row) { r.stranger = "" }),
		"updateCompute": edits("UpdateComputeInput!", func(f *matrixWorld) map[string]any { return in("id", f.compute.ID, "autoStop", "2h") }),
		"startCompute":  edits("StartComputeInput!", func(f *matrixWorld) map[string]any { return in("id", f.machine(f.w.services.Compute).ID) }),
		"stopCompute":   edits("StopComputeInput!", func(f *matrixWorld) map[string]any { return in("id", f.started(f.w.services.Compute).ID) }),
		"deleteCompute": edits("DeleteComputeInput!", func(f *matrixWorld) map[string]any { return in("id", f.machine(f.w.services.Compute).ID) }),
		"createWarehouse": edits("CreateWarehouseInput!", func(f *matrixWorld) map[string]any {
			return in("name", f.fresh("machine"), "size", "cpu.1")
		}).but(func(r *row) { r.stranger = "" }),
		"updateWarehouse": edits("UpdateWarehouseInput!", func(f *matrixWorld) map[string]any { return in("id", f.warehouse.ID, "autoStop", "2h") }),
		"startWarehouse":  edits("StartWarehouseInput!", func(f *matrixWorld) map[string]any { return in("id", f.machine(f.w.services.Warehouses).ID) }),
		"stopWarehouse":   edits("StopWarehouseInput!", func(f *matrixWorld) map[string]any { return in("id", f.started(f.w.services.Warehouses).ID) }),
		"deleteWarehouse": edits("DeleteWarehouseInput!", func(f *matrixWorld) map[string]any { return in("id", f.machine(f.w.services.Warehouses).ID) }),
		"updateProvider":  administers("UpdateProviderInput!", func(*matrixWorld) map[string]any { return in("kind", "local") }).but(func(r *row) { r.stranger = "" }),
		"updateStorage": administers("UpdateStorageInput!", func(f *matrixWorld) map[string]any {
			return in("url", f.w.services.Settings.Storage)
		}).but(func(r *row) { r.stranger = "" }),
		"startRun":    edits("StartRunInput!", func(f *matrixWorld) map[string]any { return in("jobId", f.job.ID) }),
		"cancelRun":   edits("CancelRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.alpha.run(f.job).ID) }),
		"repairRun":   edits("RepairRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.cancelled()) }),
		"updateQuota": administers("UpdateQuotaInput!", func(*matrixWorld) map[string]any { return in("name", "max_running_runs", "limit", 1000) }).but(func(r *row) { r.stranger = "" }),
		// Every reader may run statements: rights are checked after an engine has read them.
		"executeStatement": {
			args: "input: $input", declare: "$input: ExecuteStatementInput!", stranger: absent, nobody: unknown,
			vars: func(f *matrixWorld) map[string]any {
				return in("query", "SELECT 1 AS "+secret, "warehouse", f.warehouse.ID, "waitMs", 0)
			},
		},
		"cancelStatement": edits("CancelStatementInput!", func(f *matrixWorld) map[string]any { return in("id", f.alpha.submitted("SELECT 1 AS "+secret).ID) }),
		"createDatabase":  edits("CreateDatabaseInput!", func(f *matrixWorld) map[string]any { return in("name", f.fresh("database")) }).but(func(r *row) { r.stranger = "" }),
		"deleteDatabase":  administers("DeleteDatabaseInput!", func(f *matrixWorld) map[string]any { return in("id", f.newDatabase().ID) }),
		"createSchema":    edits("CreateSchemaInput!", func(f *matrixWorld) map[string]any { return in("database", f.database().ID, "name", f.fresh("schema")) }),
		"deleteSchema": edits("DeleteSchemaInput!", func(f *matrixWorld) map[string]any {
			return in("database", f.newDatabase().ID, "name", "public")
		}),
		"dropTable": edits("DropTableInput!", func(f *matrixWorld) map[string]any { return in("id", f.alpha.table(f.fresh(secret)).ID) }),
		"renameTable": edits("RenameTableInput!", func(f *matrixWorld) map[string]any {
			return in("id", f.alpha.table(f.fresh(secret)).ID, "name", f.fresh("renamed"))
		}),
		"updateMaintenance": administers("UpdateMaintenanceInput!", func(*matrixWorld) map[string]any { return in("policy", map[string]any{}) }).but(func(r *row) { r.stranger = "" }),
		"updateDatabaseMaintenance": edits("UpdateDatabaseMaintenanceInput!", func(f *matrixWorld) map[string]any {
			return in("id", f.database().ID, "policy", map[string]any{})
		}),
		"updateTableMaintenance": edits("UpdateTableMaintenanceInput!", func(f *matrixWorld) map[string]any { return in("id", f.table.ID, "policy", map[string]any{}) }),
		"runDatabaseMaintenance": edits("RunDatabaseMaintenanceInput!", func(f *matrixWorld) map[string]any { return in("id", f.database().ID) }),
		"runTableMaintenance":    edits("RunTableMaintenanceInput!", func(f *matrixWorld) map[string]any { return in("id", f.table.ID) }),
		"purgeTable":             edits("PurgeTableInput!", func(f *matrixWorld) map[string]any { return in("id", f.dropped()) }),
		"undropTable":            edits("UndropTableInput!", func(f *matrixWorld) map[string]any { return in("id", f.dropped()) }),
		"createExperiment":       edits("CreateExperimentInput!", func(f *matrixWorld) map[string]any { return in("name", f.fresh("experiment")) }).but(func(r *row) { r.stranger = "" }),
		"updateExperiment":       edits("UpdateExperimentInput!", func(f *matrixWorld) map[string]any { return in("id", f.experiment.ID, "name", f.fresh(secret)) }),
		"deleteExperiment":       edits("DeleteExperimentInput!", func(f *matrixWorld) map[string]any { return in("id", f.newExperiment().ID) }),
		"restoreExperiment":      edits("RestoreExperimentInput!", func(f *matrixWorld) map[string]any { return in("id", f.deletedExperiment()) }),
		"setExperimentTags":      edits("SetExperimentTagsInput!", func(f *matrixWorld) map[string]any { return in("id", f.experiment.ID, "tags", pairsOf("a", "1")) }),
		"deleteExperimentTag":    edits("DeleteExperimentTagInput!", func(f *matrixWorld) map[string]any { return in("id", f.newExperiment().ID, "key", "a") }),
		"createTrackingRun":      edits("CreateTrackingRunInput!", func(f *matrixWorld) map[string]any { return in("name", f.fresh("run")) }).but(func(r *row) { r.stranger = "" }),
		"updateTrackingRun":      edits("UpdateTrackingRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.tracked.ID, "name", f.fresh(secret)) }),
		"deleteTrackingRun":      edits("DeleteTrackingRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.newTracked().ID) }),
		"restoreTrackingRun":     edits("RestoreTrackingRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.deletedTracked()) }),
		"logTrackingRun":         edits("LogTrackingRunInput!", func(f *matrixWorld) map[string]any { return in("id", f.tracked.ID, "parameters", pairsOf("p", "1")) }),
		"deleteTrackingRunTag":   edits("DeleteTrackingRunTagInput!", func(f *matrixWorld) map[string]any { return in("id", f.newTracked().ID, "key", "a") }),
		"logTrackingRunInputs":   edits("LogTrackingRunInputsInput!", func(f *matrixWorld) map[string]any { return in("id", f.tracked.ID, "inputs", []any{datasetOf("iris")}) }),
		"removeSamples":          administers("", nil).but(func(r *row) { r.args, r.declare, r.stranger = "", "", "" }),
	},
	"Subscription": {
		"run":                    {args: "id: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.run.ID} }},
		"runs":                   reads(),
		"agentUpdated":           reads(),
		"computeUpdated":         reads(),
		"warehouseUpdated":       reads(),
		"machineMetrics":         {args: "id: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.warehouse.ID} }},
		"statementUpdated":       {args: "id: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.statement.ID} }},
		"statementsUpdated":      reads(),
		"maintenanceRunsUpdated": reads(),
		"trackingRunChanges":     {args: "experiment: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.experiment.ID} }},
		"trackingRunPoints":      {args: "run: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.tracked.ID} }},
		"runLogs":                {args: "attempt: $id", declare: "$id: ID!", stranger: absent, nobody: unknown, vars: func(f *matrixWorld) map[string]any { return map[string]any{"id": f.attempt} }},
	},
}

func in(pairs ...any) map[string]any {
	input := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		input[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{"input": input}
}

// matrixWorld has the tested workspace and the stranger's.
type matrixWorld struct {
	w                  *world
	alpha, beta        *tenant
	job                job.Job // a DAG
	run                job.Run
	attempt            domain.AttemptID
	compute, warehouse machine.Machine
	table              lake.Table
	statement          statement.Statement // has succeeded
	upkeep             maintenance.Run
	experiment         tracking.Experiment
	tracked            tracking.Run // of a task
	count              int
	last               string
}

func newMatrixWorld(t *testing.T) *matrixWorld {
	w := newWorld(t, quick)
	f := &matrixWorld{w: w, alpha: w.tenant(secret), beta: w.tenant("beta")}
	f.alpha.connect(500)
	_, err := w.services.Quotas.Update(t.Context(), f.alpha.admin.scope, quota.MaxRunningRuns, new(int64(1000)))
	require.NoError(t, err)
	f.machines()
	schedule := job.NewSchedule{Cron: "0 3 * * *", TimeZone: "Europe/Rome"}
	f.job, err = w.services.Jobs.Create(t.Context(), f.alpha.editor.scope, job.NewJob{
		Name: secret + " job", Schedule: &schedule,
		Spec: job.Spec{
			Tasks:       []job.TaskSpec{{Key: "one", Command: "true"}, {Key: "two", Command: "true", DependsOn: []string{"one"}, Compute: f.compute.Name}},
			Environment: []job.Variable{{Name: "A", Value: "1"}}, Parameters: []job.Variable{{Name: "P", Value: "2"}},
		},
	}, domain.Idempotency{})
	require.NoError(t, err)
	f.run = f.alpha.run(f.job)
	f.attempt = f.alpha.attempt(f.run.ID).ID
	f.alpha.begin(f.attempt)
	f.alpha.write(f.attempt, 0, []byte(secret+" line\n"))
	f.key()
	f.sql()
	f.track()
	f.beta.run(f.beta.job(job.Spec{Command: "true"}))
	return f
}

// machines creates a compute instance in both workspaces, and renames alpha's warehouse.
func (f *matrixWorld) machines() {
	ctx := f.w.t.Context()
	f.compute = f.alpha.machine(f.w.services.Compute, secret+" machine")
	f.beta.machine(f.w.services.Compute, "machine")
	warehouses, err := f.w.services.Warehouses.List(ctx, f.alpha.viewer.scope, domain.Page{})
	require.NoError(f.w.t, err)
	f.warehouse, err = f.w.services.Warehouses.Update(ctx, f.alpha.editor.scope, warehouses.Items[0].ID, machine.Change{Name: new(secret + " warehouse")})
	require.NoError(f.w.t, err)
	f.alpha.measured(f.warehouse.ID, machine.Metrics{At: time.Now(), GPUs: []machine.GPUMetrics{{Name: secret + " gpu"}}})
}

func (f *matrixWorld) machine(of *machine.Machines) machine.Machine {
	return f.alpha.machine(of, f.fresh("machine"))
}

func (f *matrixWorld) started(of *machine.Machines) machine.Machine {
	m, err := of.Start(f.w.t.Context(), f.alpha.editor.scope, f.machine(of).ID, domain.Idempotency{})
	require.NoError(f.w.t, err)
	return m
}

func (f *matrixWorld) fresh(what string) string {
	f.count++
	f.last = fmt.Sprintf("%s-%d", what, f.count)
	return f.last
}

func (f *matrixWorld) member() domain.UserID {
	m, _, err := f.w.services.Members.Add(f.w.t.Context(), f.alpha.admin.scope, f.fresh(secret)+"@example.com", "x", domain.RoleViewer)
	require.NoError(f.w.t, err)
	return m.User.ID
}

func (f *matrixWorld) key() domain.APIKeyID {
	key, _, err := f.w.services.APIKeys.Create(f.w.t.Context(), f.alpha.editor.scope, identity.NewAPIKey{Name: f.fresh(secret)})
	require.NoError(f.w.t, err)
	return key.ID
}

func (f *matrixWorld) cancelled() domain.RunID {
	run := f.alpha.run(f.job)
	_, err := f.w.services.Runs.Cancel(f.w.t.Context(), f.alpha.editor.scope, run.ID)
	require.NoError(f.w.t, err)
	code := 1
	require.NoError(f.w.t, f.w.services.Runs.Report(f.w.t.Context(), f.alpha.worker, job.AttemptReport{
		Attempt: f.alpha.attempt(run.ID).ID, Exited: true, Reason: job.ReasonCancelled, ExitCode: &code,
	}))
	return run.ID
}

// caller sends requests.
type caller struct {
	name  string
	login func() header
	want  func(row) string
	known header
}

// credential is valid until a call ends it; such calls use a new one.
func (c *caller) credential(fresh bool) header {
	if fresh {
		return c.login()
	}
	if c.known == nil {
		c.known = c.login()
	}
	return c.known
}

func (f *matrixWorld) callers() []*caller {
	member := func(n *tenant, role domain.Role) func() header {
		return func() header { return bearer(n.add(f.fresh("caller"), role).token) }
	}
	return []*caller{
		{name: "viewer", login: member(f.alpha, domain.RoleViewer), want: func(r row) string { return r.viewer }},
		{name: "editor", login: func() header { return bearer(f.w.again(f.alpha.editor).token) }, want: func(r row) string { return r.editor }},
		{name: "admin", login: member(f.alpha, domain.RoleAdmin), want: func(r row) string { return r.admin }},
		{name: "run", login: func() header { return bearer(f.w.keys.RunToken(f.alpha.workspace.ID, f.attempt)) }, want: func(r row) string { return r.run }},
		{name: "stranger", login: member(f.beta, domain.RoleAdmin), want: func(r row) string { return r.stranger }},
		{name: "nobody", login: func() header { return nobody }, want: func(r row) string { return r.nobody }},
	}
}

func TestEveryFieldForEverybody(t *testing.T) {
	f := newMatrixWorld(t)
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	sel := selector{schema: schema, asked: map[string]bool{}}
	callers := f.callers()
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation} {
		requireRows(t, root)
		// In order: after its token is rotated, the agent is disconnected.
		for _, name := range slices.Sorted(maps.Keys(matrix[root.Name])) {
			r := matrix[root.Name][name]
			for _, c := range callers {
				if name == "changePassword" && c.name == "editor" {
					continue // it would change the next callers' answers; the viewer and the admin have their own
				}
				query, vars := f.operation(&sel, root, name, r)
				res := f.w.query(c.credential(name == "logout" || name == "changePassword"), query, vars)
				require.Equal(t, http.StatusOK, res.Status, "%s by %s", name, c.name)
				requireOutcome(t, fmt.Sprintf("%s by %s", name, c.name), c.want(r), res, name)
				if c.name == "stranger" || c.name == "nobody" {
					require.NotContains(t, strings.ReplaceAll(res.Body, fmt.Sprint(vars["id"]), ""), secret, "%s shows %s what is not theirs", name, c.name)
				}
			}
		}
	}
	sel.of("TrackingPoints", rootDepth) // only a subscription has them
	requireAllAsked(t, schema, sel.asked)
}

func TestEverySubscriptionForEverybody(t *testing.T) {
	f := newMatrixWorld(t)
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	sel := selector{schema: schema, asked: map[string]bool{}}
	requireRows(t, schema.Subscription)
	callers := f.callers()
	for name, r := range matrix["Subscription"] {
		for _, c := range callers {
			what := fmt.Sprintf("%s by %s", name, c.name)
			query, vars := f.operation(&sel, schema.Subscription, name, r)
			if c.name == "nobody" {
				socket := f.w.dial(nobody)
				socket.init(nil)
				code, _, _ := socket.closed()
				require.Equal(t, closeUnauthenticated, code, what)
				continue
			}
			if c.name == "stranger" && name == "agentUpdated" {
				f.beta.connect(1)
			}
			socket := f.w.open(c.credential(false), nil)
			id := socket.subscribe(query, vars)
			if want := c.want(r); want != "" {
				require.Equal(t, want, socket.failure(id), what)
				continue
			}
			event := fmt.Sprint(socket.event(id))
			require.Equal(t, c.name == "stranger", !strings.Contains(event, secret) && name != "runLogs", "%s: %s", what, event)
		}
	}
}

func TestExpiredAndRevokedCredentialsOpenNothing(t *testing.T) {
	f := newMatrixWorld(t)
	key, keySecret, err := f.w.services.APIKeys.Create(t.Context(), f.alpha.admin.scope, identity.NewAPIKey{Name: "revoked"})
	require.NoError(t, err)
	_, err = f.w.services.APIKeys.Revoke(t.Context(), f.alpha.admin.scope, key.ID)
	require.NoError(t, err)
	over := f.w.again(f.alpha.admin)
	require.NoError(t, f.w.auth.Logout(t.Context(), over.scope))
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	sel := selector{schema: schema, asked: map[string]bool{}}
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
		for name, r := range matrix[root.Name] {
			for what, token := range map[string]string{"an ended session": over.token, "a revoked key": keySecret} {
				if root == schema.Subscription {
					socket := f.w.dial(nobody)
					socket.init(map[string]any{"authorization": "Bearer " + token})
					code, _, _ := socket.closed()
					require.Equal(t, closeUnauthenticated, code, "%s with %s", name, what)
					continue
				}
				query, vars := f.operation(&sel, root, name, r)
				res := f.w.query(bearer(token), query, vars)
				require.Equal(t, http.StatusUnauthorized, res.Status, "%s with %s", name, what)
			}
			// An expired cookie counts as no credential.
			if root == schema.Query {
				query, vars := f.operation(&sel, root, name, r)
				requireOutcome(t, name+" with a dead cookie", r.nobody, f.w.query(console(over.cookie), query, vars), name)
			}
		}
	}
}

func (f *matrixWorld) operation(sel *selector, root *ast.Definition, name string, r row) (string, map[string]any) {
	field := root.Fields.ForName(name)
	text := strings.ToLower(root.Name) + " "
	if r.declare != "" {
		text += "(" + r.declare + ") "
	}
	text += "{ " + name
	if r.args != "" {
		text += "(" + r.args + ")"
	}
	text += sel.of(field.Type.Name(), rootDepth) + " }"
	sel.asked[root.Name+"."+name] = true
	if r.vars == nil {
		return text, nil
	}
	return text, r.vars(f)
}

func requireRows(t *testing.T, root *ast.Definition) {
	var fields []string
	for _, field := range root.Fields {
		if !strings.HasPrefix(field.Name, "__") {
			fields = append(fields, field.Name)
		}
	}
	require.ElementsMatch(t, fields, slices.Collect(maps.Keys(matrix[root.Name])), "each field of %s has a row in the matrix", root.Name)
}

func requireOutcome(t *testing.T, what, want string, res answer, field string) {
	t.Helper()
	switch want {
	case "":
		require.Empty(t, res.Errors, "%s: %s", what, res.Body)
		require.NotNil(t, res.Data[field], what)
	case "null":
		require.Empty(t, res.Errors, "%s: %s", what, res.Body)
		require.Nil(t, res.Data[field], what)
	default:
		require.Equal(t, want, res.code(), "%s: %s", what, res.Body)
	}
}
