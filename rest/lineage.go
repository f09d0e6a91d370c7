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
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

// RunLineage is the lineage of a run.
type RunLineage struct {
	TablesOf
	Edges      []RunEdge `json:"edges,omitempty" doc:"Each read and write, oldest first: the tables above with details, and datasets outside the catalog. Absent without reads and writes."`
	Unresolved []string  `json:"unresolved,omitempty" doc:"Ids of the run's statements that name a table which the catalog did not see them load or commit. Absent without such statements."`
	Truncated  bool      `json:"truncated,omitempty" doc:"True if the run has more than 10,000 entries. read, written and edges show only the first ones."`
}

// RunEdge is one read or write of a table by a run.
type RunEdge struct {
	Direction   string   `json:"direction" enum:"read,written"`
	TableID     string   `json:"table_id" doc:"The table's id. For a dataset outside the catalog, it begins with ext_."`
	Name        string   `json:"name" example:"lake.samples.penguins" doc:"The name at that time."`
	Namespace   *string  `json:"namespace" nullable:"true" doc:"Namespace of a dataset outside the catalog, which OpenLineage reported; else null."`
	SnapshotID  *int64   `json:"snapshot_id" nullable:"true" doc:"The snapshot that was read, or that the commit created. Null if there was none, or it is not known."`
	Columns     []string `json:"columns" nullable:"true" doc:"The columns that were used; null if not known."`
	TaskKey     string   `json:"task_key" doc:"Empty for a single command."`
	AttemptID   *string  `json:"attempt_id" nullable:"true" doc:"The task's attempt, if its process did it directly."`
	StatementID *string  `json:"statement_id" nullable:"true" doc:"The statement, if a statement of the run did it."`
	At          Time     `json:"at"`
}

// LineageGraph is the data flow into and out of a table.
type LineageGraph struct {
	Root      string         `json:"root" doc:"Id of the requested table."`
	At        Time           `json:"at" doc:"The graph shows everything up to this time."`
	Nodes     []GraphNode    `json:"nodes" doc:"Nearest first, at most 1,000."`
	Edges     []LineageArrow `json:"edges"`
	Truncated bool           `json:"truncated" doc:"True if there are more than 1,000 nodes."`
}

// GraphNode is a table or dataset, or a task, statement or job that reads and writes them.
type GraphNode struct {
	ID        string  `json:"id" doc:"tbl_… for a table, ext_… for a dataset outside the catalog, job_… or job_…/key for a job's task, stm_… for a statement outside of a run, xjob_… for an external job."`
	Kind      string  `json:"kind" enum:"table,dataset,task,statement,external_job"`
	Name      string  `json:"name" doc:"For a table, database.schema.table at that time; for a task, its job's name; for a statement, its kind."`
	Namespace *string `json:"namespace" nullable:"true" doc:"Namespace of a node outside the platform."`
	Dropped   bool    `json:"dropped" doc:"True if the table no longer existed at that time."`
	JobID     *string `json:"job_id" nullable:"true" doc:"Job of a task."`
	TaskKey   *string `json:"task_key" nullable:"true" doc:"Key of a task; empty for a single command."`
	RunID     *string `json:"run_id" nullable:"true" doc:"For a task, its latest run up to that time in the graph."`
	Text      *string `json:"text" nullable:"true" doc:"For a statement, its first 200 characters."`
	Actor     *string `json:"actor" nullable:"true" doc:"For a statement, its sender."`
	Distance  int     `json:"distance" doc:"Distance from the root, in tables."`
}

// LineageArrow is all reads, or all writes, of a table by one node.
type LineageArrow struct {
	From        string   `json:"from" doc:"Id of the node that the data came from."`
	To          string   `json:"to" doc:"Id of the node that the data went to."`
	Direction   string   `json:"direction" enum:"read,written" doc:"What the node other than the table did."`
	LastAt      Time     `json:"last_at" doc:"Time of the latest one up to that time. The fields below are from it."`
	Count       int64    `json:"count" doc:"Number of reads or writes up to that time. Each snapshot that a run or a statement used counts once. 10,000 means 10,000 or more."`
	SnapshotID  *int64   `json:"snapshot_id" nullable:"true"`
	Columns     []string `json:"columns" nullable:"true" doc:"The columns that were used; null if not known."`
	RunID       *string  `json:"run_id" nullable:"true"`
	StatementID *string  `json:"statement_id" nullable:"true"`
}

// LineageCoverage counts the statements with and without known lineage.
type LineageCoverage struct {
	Since      Time     `json:"since"`
	Resolved   int64    `json:"resolved" doc:"Successful statements for which the catalog saw all tables that they name."`
	Unresolved int64    `json:"unresolved" doc:"Successful statements that name a table which the catalog did not see them load or commit."`
	None       int64    `json:"none" doc:"Successful statements that name no table."`
	Share      *float64 `json:"share" nullable:"true" doc:"resolved / (resolved + unresolved), from 0 to 1; null if both are 0."`
}

// RunEvents is the JSON of one OpenLineage RunEvent, or of an array of them.
type RunEvents []byte

// UnmarshalJSON implements json.Unmarshaler.
func (e *RunEvents) UnmarshalJSON(b []byte) error {
	*e = slices.Clone(b)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (e RunEvents) MarshalJSON() ([]byte, error) { return json.RawMessage(e).MarshalJSON() }

// Schema implements huma.SchemaProvider. It leaves facets open, because a client may send any; they
// are checked when they are read.
func (RunEvents) Schema(r huma.Registry) *huma.Schema {
	one := r.Schema(reflect.TypeFor[RunEvent](), true, "")
	return &huma.Schema{OneOf: []*huma.Schema{one, {Type: huma.TypeArray, Items: one, MaxItems: new(lineage.MaxEvents)}}}
}

// RunEvent has the fields of an OpenLineage RunEvent (2-0-2) that are read.
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

// RunEventRun names an OpenLineage run.
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

// RunEventData is a dataset. Only its facets columnLineage, symlinks and version are read.
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
		Description: "The tables of all its attempts and statements, as the catalog saw them, and as their processes reported them by OpenLineage.\n\n" +
			"Decided here: `read` and `written` are arrays of three-part names, and may be empty. A table is not read by a statement that only adds rows to it. " +
			"`edges` has the details of each: snapshots, columns if known, the task with its attempt or statement, and datasets outside the catalog.",
	}, a.getRunLineage)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/lineage", OperationID: "get-lineage", Tags: []string{tag}, Errors: []int{http.StatusNotFound}, Summary: "Get the data flow into and out of a table",
		Description: "The graph has tables and what reads and writes them: tasks of jobs, statements outside of a run, and external jobs and datasets. All runs of a task, with their statements, are one node. " +
			"`at` selects a past time: the graph shows everything up to it, and `table` is a name of that time. Tables have the names of their latest event by then, or their current names without `at`.\n\n" +
			"Decided here: direction defaults to both, and depth to 3. Depth counts tables.",
	}, a.getLineage)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/lineage/coverage", OperationID: "get-lineage-coverage", Tags: []string{tag}, Summary: "Get the share of statements whose lineage is known",
		Description: "Decided here: `since` defaults to 24 hours ago.",
	}, a.getLineageCoverage)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/lineage", OperationID: "report-lineage", Tags: []string{tag}, Summary: "Report lineage by OpenLineage", DefaultStatus: http.StatusNoContent,
		SkipValidateBody: true,
		Description: "One OpenLineage 2-0-2 RunEvent, or an array of up to 1,000, at most 1 MiB. Repeating an event changes nothing.\n\n" +
			"Decided here: with a task's token, an event belongs to the task's run, else to an external job. A dataset is one of our tables if its name is the database.schema.table of a " +
			"live table and its namespace is not another system's. It also is if one of its symlinks is, or if it is named by the table's location. Else it is an external dataset. " +
			"Inputs count from every event, outputs from all events except those of failed runs: FAIL and ABORT withdraw the writes that the run reported. Only the facets columnLineage, symlinks and version are read.",
	}, a.reportLineage)
}

func (a *api) getRunLineage(ctx context.Context, s domain.Scope, in *RunPath) (*answer[RunLineage], error) {
	return answered(showRunLineage)(a.Lineages.OfRun(ctx, s, domain.RunID(in.ID)))
}

func showRunLineage(l lineage.OfRun) RunLineage {
	shown := RunLineage{Truncated: l.Truncated, Unresolved: each(l.Unresolved, func(id domain.StatementID) string { return string(id) })}
	var tables lake.Lineage
	for _, f := range l.Facts {
		outside, isOutside := l.Externals[f.TableID]
		edge := showRunEdge(f)
		switch {
		case isOutside:
			edge.Name, edge.Namespace = outside.Name, &outside.Namespace
		case f.Direction == lake.LineageRead:
			tables.Read = append(tables.Read, f.LineageEntry)
		default:
			tables.Written = append(tables.Written, f.LineageEntry)
		}
		shown.Edges = append(shown.Edges, edge)
	}
	shown.TablesOf = showTables(tables)
	return shown
}

func showRunEdge(f lineage.Fact) RunEdge {
	edge := RunEdge{
		Direction: string(f.Direction), TableID: string(f.TableID), Name: f.Database + "." + f.Schema + "." + f.Name, Columns: f.Columns, TaskKey: f.TaskKey, At: Time(f.At),
		SnapshotID: snapshotOf(f), StatementID: statementOf(f),
	}
	if f.Actor.Kind == domain.ActorRun {
		edge.AttemptID = &f.Actor.ID
	}
	return edge
}

func snapshotOf(f lineage.Fact) *int64 {
	if f.SnapshotID == 0 {
		return nil
	}
	return &f.SnapshotID
}

func statementOf(f lineage.Fact) *string {
	if f.Actor.Kind != domain.ActorStatement {
		return nil
	}
	return &f.Actor.ID
}

// optionalText returns nil for an empty text.
func optionalText[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

func (a *api) getLineage(ctx context.Context, s domain.Scope, in *struct {
	Table     string `query:"table" required:"true" example:"lake.samples.penguins" doc:"database.schema.table, or the id of a table or of a dataset outside the catalog."`
	Direction string `query:"direction" example:"upstream" doc:"upstream, downstream or both."`
	Depth     int    `query:"depth" default:"3" minimum:"1" maximum:"10" doc:"How many tables away the graph reaches."`
	At        string `query:"at" format:"date-time" example:"2026-03-01T08:30:00Z" doc:"A past time, in ISO 8601."`
},
) (*answer[LineageGraph], error) {
	q := lineage.Query{Table: in.Table, Way: lineage.Way(in.Direction), Depth: in.Depth}
	var err error
	if q.At, err = pastTime("at", in.At); err != nil {
		return nil, err
	}
	return answered(showGraph)(a.Lineages.Graph(ctx, s, q))
}

// pastTime reads a time. It returns nil for an empty text.
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

func showGraph(g lineage.Graph) LineageGraph {
	return LineageGraph{Root: g.Root, At: Time(g.At), Nodes: each(g.Nodes, showNode), Edges: each(g.Edges, showArrow), Truncated: g.Truncated}
}

func showNode(n lineage.Node) GraphNode {
	shown := GraphNode{
		ID: n.ID, Kind: string(n.Kind), Name: n.Name, Namespace: optionalText(n.Namespace), Dropped: n.Dropped, JobID: optionalText(n.JobID), RunID: optionalText(n.RunID),
		Text: optionalText(n.Text), Actor: optionalText(n.Actor), Distance: n.Distance,
	}
	if n.Kind == lineage.NodeTask {
		shown.TaskKey = &n.TaskKey
	}
	return shown
}

func showArrow(e lineage.Edge) LineageArrow {
	return LineageArrow{
		From: e.From(), To: e.To(), Direction: string(e.Direction), LastAt: Time(e.At), Count: e.Count, SnapshotID: snapshotOf(e.Fact), Columns: e.Columns,
		RunID: optionalText(e.RunID), StatementID: statementOf(e.Fact),
	}
}

func (a *api) getLineageCoverage(ctx context.Context, s domain.Scope, in *struct {
	Since string `query:"since" format:"date-time" example:"2026-03-01T08:30:00Z" doc:"In ISO 8601. Only statements that ended at or after this time."`
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
	events, err := lineage.ParseRunEvents(in.Body, a.Clock.Now())
	if err != nil {
		return nil, err
	}
	return nil, a.Lineages.Report(ctx, s, events)
}
