package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// RunLineage is what a run read and wrote.
type RunLineage struct {
	TablesOf
	Edges      []RunEdge `json:"edges,omitempty" doc:"Each reading and writing, oldest first: the tables above with what is known of them, and datasets outside. Absent when there are none."`
	Unresolved []string  `json:"unresolved,omitempty" doc:"Ids of the run's statements that name a table which the catalog did not see them load or commit. Absent when there are none."`
	Truncated  bool      `json:"truncated,omitempty" doc:"The run has more than 10,000 entries; read, written and edges are of the first ones."`
}

// RunEdge says that a run read or wrote a table.
type RunEdge struct {
	Direction   string   `json:"direction" enum:"read,written"`
	TableID     string   `json:"table_id" doc:"Of a dataset outside it begins with ext_."`
	Name        string   `json:"name" example:"lake.samples.penguins" doc:"As it was then."`
	Namespace   *string  `json:"namespace" nullable:"true" doc:"Of a dataset outside, which OpenLineage told of; else null."`
	SnapshotID  *int64   `json:"snapshot_id" nullable:"true" doc:"That was read, or that the commit made. Null where there was none, or it is not known."`
	Columns     []string `json:"columns" nullable:"true" doc:"That were used; null where they are not known."`
	TaskKey     string   `json:"task_key" doc:"Empty for a single command."`
	AttemptID   *string  `json:"attempt_id" nullable:"true" doc:"Of the task's process, where it did so itself."`
	StatementID *string  `json:"statement_id" nullable:"true" doc:"Where a statement of the run did so."`
	At          Time     `json:"at"`
}

// LineageGraph is what leads to a table and from it.
type LineageGraph struct {
	Root      string         `json:"root" doc:"The id of the table that was asked for."`
	At        Time           `json:"at" doc:"What had happened by then."`
	Nodes     []GraphNode    `json:"nodes" doc:"The nearest first; 1,000 at most."`
	Edges     []LineageArrow `json:"edges"`
	Truncated bool           `json:"truncated" doc:"There are more nodes than 1,000."`
}

// GraphNode is a table, or what reads and writes tables.
type GraphNode struct {
	ID        string  `json:"id" doc:"tbl_… of a table, ext_… of a dataset outside, job_… or job_…/key of a job's task, stm_… of a statement of no run, xjob_… of a job outside."`
	Kind      string  `json:"kind" enum:"table,dataset,task,statement,external_job"`
	Name      string  `json:"name" doc:"Of a table database.schema.table as of then; of a task its job's; of a statement its kind."`
	Namespace *string `json:"namespace" nullable:"true" doc:"Of what is outside."`
	Dropped   bool    `json:"dropped" doc:"The table was not there any more."`
	JobID     *string `json:"job_id" nullable:"true" doc:"Of a task."`
	TaskKey   *string `json:"task_key" nullable:"true" doc:"Of a task; empty for a single command."`
	RunID     *string `json:"run_id" nullable:"true" doc:"Of a task: the latest run by then that is in the graph."`
	Text      *string `json:"text" nullable:"true" doc:"Of a statement: its first 200 characters."`
	Actor     *string `json:"actor" nullable:"true" doc:"Of a statement: whose it is."`
	Distance  int     `json:"distance" doc:"Tables from the first one."`
}

// LineageArrow is the way that data went, as often as it did.
type LineageArrow struct {
	From        string   `json:"from" doc:"Id of the node that the data came from."`
	To          string   `json:"to" doc:"Id of the node that it went to."`
	Direction   string   `json:"direction" enum:"read,written" doc:"What the one that is no table did."`
	LastAt      Time     `json:"last_at" doc:"The latest time by then; the fields below are of it."`
	Count       int64    `json:"count" doc:"How often by then, each snapshot that a run or a statement used counting once; 10,000 stands for that and more."`
	SnapshotID  *int64   `json:"snapshot_id" nullable:"true"`
	Columns     []string `json:"columns" nullable:"true" doc:"That were used; null where they are not known."`
	RunID       *string  `json:"run_id" nullable:"true"`
	StatementID *string  `json:"statement_id" nullable:"true"`
}

// LineageCoverage says of how many statements the lineage is known.
type LineageCoverage struct {
	Since      Time     `json:"since"`
	Resolved   int64    `json:"resolved" doc:"Statements that succeeded, and of which the catalog saw all tables that they name."`
	Unresolved int64    `json:"unresolved" doc:"Statements that succeeded, and name a table that the catalog did not see them load or commit."`
	None       int64    `json:"none" doc:"Statements that succeeded, and name no table."`
	Share      *float64 `json:"share" nullable:"true" doc:"resolved of resolved and unresolved, from 0 to 1; null where there are neither."`
}

// RunEvents is one RunEvent of OpenLineage, or an array of them, as it came.
type RunEvents []byte

// UnmarshalJSON implements json.Unmarshaler.
func (e *RunEvents) UnmarshalJSON(b []byte) error {
	*e = slices.Clone(b)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (e RunEvents) MarshalJSON() ([]byte, error) { return json.RawMessage(e).MarshalJSON() }

// Schema implements huma.SchemaProvider. What it leaves open is checked when it is read: a client may send any facets.
func (RunEvents) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[RunEvent](), true, "")
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MaxItems: new(domain.MaxLineageEvents)}}}
}

// RunEvent is the part of an OpenLineage RunEvent (2-0-2) that is read.
type RunEvent struct {
	_         struct{}       `additionalProperties:"true"`
	EventType string         `json:"eventType,omitempty" enum:"START,RUNNING,COMPLETE,ABORT,FAIL,OTHER"`
	EventTime time.Time      `json:"eventTime"`
	Producer  string         `json:"producer"`
	SchemaURL string         `json:"schemaURL"`
	Run       RunEventRun    `json:"run"`
	Job       RunEventName   `json:"job"`
	Inputs    []RunEventData `json:"inputs,omitempty"`
	Outputs   []RunEventData `json:"outputs,omitempty"`
}

// RunEventRun names a run of OpenLineage.
type RunEventRun struct {
	_     struct{} `additionalProperties:"true"`
	RunID string   `json:"runId" format:"uuid"`
}

// RunEventName is a name in a namespace.
type RunEventName struct {
	_         struct{} `additionalProperties:"true"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
}

// RunEventData is a dataset. Of its facets columnLineage, symlinks and version are read.
type RunEventData struct {
	_         struct{}       `additionalProperties:"true"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Facets    map[string]any `json:"facets,omitempty"`
}

func (a *api) lineageRoutes() {
	const tag = "Lineage"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/runs/{id}/lineage", OperationID: "get-run-lineage", Tags: []string{tag}, Summary: "Get the tables that a run read and wrote",
		Description: "By all of its attempts and all of its statements, as the catalog saw it, and as their processes told by OpenLineage.\n\n" +
			"Decided here: `read` and `written` are arrays of three-part names, both empty when there is nothing. A table that a statement only adds rows to is not read. " +
			"`edges` tells more of each: snapshots, columns where they are known, the task with its attempt or statement, and datasets that are not the platform's.",
	}, a.getRunLineage)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/lineage", OperationID: "get-lineage", Tags: []string{tag}, Errors: []int{http.StatusNotFound}, Summary: "Get the graph of what leads to a table and from it",
		Description: "Tables and what reads and writes them: tasks of jobs (all runs of one are one node, and their statements belong to it), statements of no run, and what is outside. " +
			"With `at`, what had happened by then; a name in `table` is that of then. Names of tables are those of the latest event by then, and without `at` those of now.\n\n" +
			"Decided here: direction is both and depth 3 when they are left out. Depth counts tables.",
	}, a.getLineage)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/lineage/coverage", OperationID: "get-lineage-coverage", Tags: []string{tag}, Summary: "Get the share of statements whose lineage is known",
		Description: "Decided here: `since` is 24 hours ago when it is left out.",
	}, a.getLineageCoverage)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/lineage", OperationID: "report-lineage", Tags: []string{tag}, Summary: "Report lineage by OpenLineage", DefaultStatus: http.StatusNoContent,
		SkipValidateBody: true,
		Description: "One RunEvent of OpenLineage 2-0-2, or an array of up to 1,000, in 1 MiB. The same event again changes nothing.\n\n" +
			"Decided here: with the token of a task, what is told is of its run; else of a job outside. A dataset is a table of ours when its name is database.schema.table of a table that is " +
			"there and its namespace is not another system's, when one of its symlinks is, or when it is named by the table's location; else it is a dataset outside. " +
			"Inputs count from any event, outputs from any but those of runs that fail: FAIL and ABORT take back what the run was said to write. Facets but columnLineage, symlinks and version are left aside.",
	}, a.reportLineage)
}

func (a *api) getRunLineage(ctx context.Context, s domain.Scope, in *RunPath) (*answer[RunLineage], error) {
	return answered(showRunLineage)(a.Lineages.OfRun(ctx, s, domain.RunID(in.ID)))
}

func showRunLineage(l domain.RunLineage) RunLineage {
	shown := RunLineage{Truncated: l.Truncated, Unresolved: each(l.Unresolved, func(id domain.StatementID) string { return string(id) })}
	var tables domain.Lineage
	for _, f := range l.Facts {
		outside, isOutside := l.Externals[f.TableID]
		edge := showRunEdge(f)
		switch {
		case isOutside:
			edge.Name, edge.Namespace = outside.Name, &outside.Namespace
		case f.Direction == domain.LineageRead:
			tables.Read = append(tables.Read, f.LineageEntry)
		default:
			tables.Written = append(tables.Written, f.LineageEntry)
		}
		shown.Edges = append(shown.Edges, edge)
	}
	shown.TablesOf = showTables(tables)
	return shown
}

func showRunEdge(f domain.LineageFact) RunEdge {
	edge := RunEdge{
		Direction: string(f.Direction), TableID: string(f.TableID), Name: f.Database + "." + f.Schema + "." + f.Name, Columns: f.Columns, TaskKey: f.TaskKey, At: Time(f.At),
		SnapshotID: snapshotOf(f), StatementID: statementOf(f),
	}
	if f.Actor.Kind == domain.ActorRun {
		edge.AttemptID = &f.Actor.ID
	}
	return edge
}

func snapshotOf(f domain.LineageFact) *int64 {
	if f.SnapshotID == 0 {
		return nil
	}
	return &f.SnapshotID
}

func statementOf(f domain.LineageFact) *string {
	if f.Actor.Kind != domain.ActorStatement {
		return nil
	}
	return &f.Actor.ID
}

// optionalText is nil for what is empty.
func optionalText[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

func (a *api) getLineage(ctx context.Context, s domain.Scope, in *struct {
	Table     string `query:"table" required:"true" example:"lake.samples.penguins" doc:"database.schema.table, or the id of a table or of a dataset outside."`
	Direction string `query:"direction" example:"upstream" doc:"upstream, downstream or both."`
	Depth     int    `query:"depth" default:"3" minimum:"1" maximum:"10" doc:"How many tables far."`
	At        string `query:"at" example:"2026-03-01T08:30:00Z" doc:"A time of the past, in ISO 8601."`
},
) (*answer[LineageGraph], error) {
	q := domain.LineageQuery{Table: in.Table, Way: domain.LineageWay(in.Direction), Depth: in.Depth}
	var err error
	if q.At, err = pastTime("at", in.At); err != nil {
		return nil, err
	}
	return answered(showGraph)(a.Lineages.Graph(ctx, s, q))
}

// pastTime reads a time; nil for none.
func pastTime(name, given string) (*time.Time, error) {
	if given == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339Nano, given)
	if err != nil {
		return nil, domain.Invalid(name, "%s is %q; write a time such as 2026-01-31T12:00:00Z.", name, given)
	}
	at = at.UTC()
	return &at, nil
}

func showGraph(g domain.LineageGraph) LineageGraph {
	return LineageGraph{Root: g.Root, At: Time(g.At), Nodes: each(g.Nodes, showNode), Edges: each(g.Edges, showArrow), Truncated: g.Truncated}
}

func showNode(n domain.LineageNode) GraphNode {
	shown := GraphNode{
		ID: n.ID, Kind: string(n.Kind), Name: n.Name, Namespace: optionalText(n.Namespace), Dropped: n.Dropped, JobID: optionalText(n.JobID), RunID: optionalText(n.RunID),
		Text: optionalText(n.Text), Actor: optionalText(n.Actor), Distance: n.Distance,
	}
	if n.Kind == domain.NodeTask {
		shown.TaskKey = &n.TaskKey
	}
	return shown
}

func showArrow(e domain.LineageEdge) LineageArrow {
	return LineageArrow{
		From: e.From(), To: e.To(), Direction: string(e.Direction), LastAt: Time(e.At), Count: e.Count, SnapshotID: snapshotOf(e.LineageFact), Columns: e.Columns,
		RunID: optionalText(e.RunID), StatementID: statementOf(e.LineageFact),
	}
}

func (a *api) getLineageCoverage(ctx context.Context, s domain.Scope, in *struct {
	Since string `query:"since" example:"2026-03-01T08:30:00Z" doc:"In ISO 8601: statements that ended then or later."`
},
) (*answer[LineageCoverage], error) {
	since, err := pastTime("since", in.Since)
	if err != nil {
		return nil, err
	}
	if since == nil {
		since = new(a.Clock.Now().Add(-24 * time.Hour))
	}
	c, err := a.Lineages.Coverage(ctx, s, *since)
	if err != nil {
		return nil, err
	}
	shown := LineageCoverage{Since: Time(*since), Resolved: c.Resolved, Unresolved: c.Unresolved, None: c.None}
	if share, ok := c.Share(); ok {
		shown.Share = &share
	}
	return &answer[LineageCoverage]{shown}, nil
}

func (a *api) reportLineage(ctx context.Context, s domain.Scope, in *struct {
	Body RunEvents `example:"{\"eventType\":\"COMPLETE\",\"eventTime\":\"2026-03-01T08:30:00Z\",\"producer\":\"https://example.com/etl\",\"schemaURL\":\"https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent\",\"run\":{\"runId\":\"01957c2e-8a4b-7c3d-9e1f-000000000001\"},\"job\":{\"namespace\":\"etl\",\"name\":\"load\"},\"inputs\":[{\"namespace\":\"s3://raw\",\"name\":\"events\"}],\"outputs\":[{\"namespace\":\"millpond\",\"name\":\"lake.public.events\"}]}"`
},
) (*nothing, error) {
	events, err := domain.ParseRunEvents(in.Body, a.Clock.Now())
	if err != nil {
		return nil, err
	}
	return nil, a.Lineages.Report(ctx, s, events)
}
