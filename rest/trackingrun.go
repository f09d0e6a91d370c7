package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// TrackingRun is one execution that logs to an experiment.
type TrackingRun struct {
	ID           string       `json:"id" example:"0198c1f2a4b57c3d9e8f7a6b5c4d3e2f"`
	ExperimentID string       `json:"experiment_id" example:"0"`
	Name         string       `json:"name"`
	Status       string       `json:"status" enum:"scheduled,running,finished,failed,killed"`
	User         string       `json:"user" doc:"As the client says."`
	ArtifactURI  string       `json:"artifact_uri"`
	CreatedBy    Actor        `json:"created_by"`
	CreatedAt    Time         `json:"created_at"`
	StartedAt    Time         `json:"started_at" doc:"As the client says, in milliseconds."`
	FinishedAt   *Time        `json:"finished_at" nullable:"true"`
	DeletedAt    *Time        `json:"deleted_at,omitempty" doc:"Present while it, or its experiment, is deleted."`
	JobRunID     string       `json:"job_run_id,omitempty" doc:"The job's run whose task made it."`
	Task         string       `json:"task,omitempty" doc:"The task's key; absent for a job with a single command."`
	AttemptID    string       `json:"attempt_id,omitempty"`
	Metrics      []LastMetric `json:"metrics" doc:"The latest point of each metric: the greatest by step, time and value. By key."`
	Parameters   []Pair       `json:"parameters" doc:"By key."`
	Tags         []Pair       `json:"tags" doc:"By key. The platform alone sets those that begin with millpond."`
	Inputs       []RunInput   `json:"inputs" doc:"The datasets that it used."`
}

// RunInput is a dataset that a run used.
type RunInput struct {
	Name       string `json:"name" maxLength:"500"`
	Digest     string `json:"digest" maxLength:"36"`
	SourceType string `json:"source_type"`
	Source     string `json:"source"`
	Schema     string `json:"schema,omitempty"`
	Profile    string `json:"profile,omitempty"`
	Tags       []Pair `json:"tags,omitempty" nullable:"true"`
}

// TrackingRunLineage is what a tracking run read and wrote.
type TrackingRunLineage struct {
	TablesOf
	Inputs []RunInput `json:"inputs" doc:"The datasets that it logged."`
}

// NewTrackingRun is the body of a request to start a tracking run.
type NewTrackingRun struct {
	Name      string     `json:"name,omitempty" doc:"Without one, the platform invents a name."`
	User      string     `json:"user,omitempty" maxLength:"256"`
	StartedAt *time.Time `json:"started_at,omitempty" nullable:"true" doc:"Now by default."`
	Tags      []Pair     `json:"tags,omitempty" nullable:"true" maxItems:"100"`
}

// TrackingRunChange changes a tracking run.
type TrackingRunChange struct {
	Name       *string    `json:"name,omitempty"`
	Status     *string    `json:"status,omitempty" enum:"scheduled,running,finished,failed,killed"`
	FinishedAt *time.Time `json:"finished_at,omitempty" nullable:"true" doc:"With a final status; now by default."`
}

// TrackingRunSearch is the body of a search.
type TrackingRunSearch struct {
	Filter  string   `json:"filter,omitempty" maxLength:"65536" doc:"Conditions in MLflow's grammar, joined by AND." example:"metrics.loss < 0.1 AND params.model = 'tree'"`
	OrderBy []string `json:"order_by,omitempty" nullable:"true" maxItems:"20" doc:"Columns in MLflow's grammar, each with ASC or DESC."`
	View    string   `json:"view,omitempty" enum:"active,deleted,all" default:"active"`
	Limit   int      `json:"limit,omitempty" minimum:"1" maximum:"200" default:"50"`
	Cursor  string   `json:"cursor,omitempty" doc:"next_cursor of the previous page."`
}

// ParametersBody is the body of a request that logs parameters.
type ParametersBody struct {
	Parameters []Pair `json:"parameters" minItems:"1" maxItems:"100"`
}

// InputsBody is the body of a request that logs datasets.
type InputsBody struct {
	Inputs []RunInput `json:"inputs" minItems:"1" maxItems:"1000"`
}

// TrackingRunPath is the path of operations on one tracking run.
type TrackingRunPath struct {
	ExperimentPath
	Run string `path:"run" doc:"Id of the tracking run." example:"0198c1f2a4b57c3d9e8f7a6b5c4d3e2f"`
}

func (p TrackingRunPath) run() domain.TrackingRunID { return domain.TrackingRunID(p.Run) }

func showTrackingRun(r tracking.Run) TrackingRun {
	return TrackingRun{
		ID: string(r.ID), ExperimentID: string(r.Experiment), Name: r.Name, Status: string(r.State), User: r.User, ArtifactURI: r.ArtifactURI(),
		CreatedBy: showActor(r.CreatedBy), CreatedAt: Time(r.CreatedAt), StartedAt: Time(r.StartedAt), FinishedAt: optionalTime(r.FinishedAt), DeletedAt: optionalTime(r.DeletedAt),
		JobRunID: string(r.JobRun), Task: r.TaskKey, AttemptID: string(r.Attempt),
		Metrics: each(r.Metrics, showLastMetric), Parameters: showPairs(r.Parameters), Tags: showPairs(r.Tags), Inputs: each(r.Inputs, showRunInput),
	}
}

func showRunInput(in tracking.Input) RunInput {
	d := in.Dataset
	return RunInput{Name: d.Name, Digest: d.Digest, SourceType: d.SourceType, Source: d.Source, Schema: d.Schema, Profile: d.Profile, Tags: showPairs(in.Tags)}
}

func (in RunInput) domain() tracking.Input {
	return tracking.Input{
		Dataset: tracking.Dataset{Name: in.Name, Digest: in.Digest, SourceType: in.SourceType, Source: in.Source, Schema: in.Schema, Profile: in.Profile},
		Tags:    pairs(in.Tags),
	}
}

func (a *api) trackingRunRoutes() {
	const path, one = "/experiments/{id}/runs", "/experiments/{id}/runs/{run}"
	tags, conflict := []string{"Experiments"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: "list-tracking-runs", Tags: tags, Summary: "List an experiment's runs, the latest start first",
		Description: "A page holds at most 8 MiB of runs, so it may be shorter than limit; next_cursor leads to the next page.",
	}, a.listTrackingRuns)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path + "/search", OperationID: "search-tracking-runs", Tags: tags, Summary: "Search an experiment's runs",
		Description: "As the list of runs, for long filters. A missing parameter, tag or metric meets no condition, != included; in an order it comes last.",
	}, a.searchTrackingRuns)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-tracking-run", Tags: tags, Summary: "Start a tracking run", DefaultStatus: http.StatusCreated, Errors: conflict,
		Description: "With the credential of a job's task, the run belongs to the task: if it is still running when the task's attempt ends, it becomes failed, or killed if the attempt was cancelled. 409 for a deleted experiment.",
	}, a.createTrackingRun)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one, OperationID: "get-tracking-run", Tags: tags, Summary: "Get a tracking run",
		Description: "Also a deleted one.",
	}, a.getTrackingRun)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: one, OperationID: "update-tracking-run", Tags: tags, Summary: "Rename, finish or resume a tracking run", Errors: conflict,
		Description: "A run that is over may run again. 409 for a deleted run.",
	}, a.updateTrackingRun)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one, OperationID: "delete-tracking-run", Tags: tags, Summary: "Delete a tracking run", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "It can be restored for 30 days. Then it is erased with its points.",
	}, a.deleteTrackingRun)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/restore", OperationID: "restore-tracking-run", Tags: tags, Summary: "Restore a deleted tracking run", Errors: conflict,
	}, a.restoreTrackingRun)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/lineage", OperationID: "get-tracking-run-lineage", Tags: tags, Summary: "Get what a tracking run read and wrote",
		Description: "The tables that its task read and wrote while it ran, and the datasets that it logged. A run that no task made has no tables.",
	}, a.getTrackingRunLineage)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/parameters", OperationID: "log-parameters", Tags: tags, Summary: "Log parameters of a run", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "A parameter is logged once; the same value again changes nothing, and another value is 409. Values are cut at 6,000 characters.",
	}, a.logParameters)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/tags", OperationID: "set-tracking-run-tags", Tags: tags, Summary: "Set tags of a run", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "Tags that are not named remain. Values are cut at 8,000 characters. The tag mlflow.runName is the run's name.",
	}, a.setTrackingRunTags)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one + "/tags/{key}", OperationID: "delete-tracking-run-tag", Tags: tags, Summary: "Remove a tag of a run", DefaultStatus: http.StatusNoContent, Errors: conflict,
	}, a.deleteTrackingRunTag)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/inputs", OperationID: "log-inputs", Tags: tags, Summary: "Log datasets that a run used", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "An experiment has a dataset with the same name and digest once. The same dataset again adds its tags.",
	}, a.logInputs)
}

func (a *api) listTrackingRuns(ctx context.Context, s domain.Scope, in *struct {
	ExperimentPath
	SearchQuery
},
) (*answer[List[TrackingRun]], error) {
	return a.searchRuns(ctx, s, in.id(), tracking.RunSearch{Filter: in.Filter, Order: in.OrderBy, View: tracking.View(in.View), Limit: in.Limit, Cursor: in.Cursor})
}

func (a *api) searchTrackingRuns(ctx context.Context, s domain.Scope, in *struct {
	ExperimentPath
	Body TrackingRunSearch `example:"{\"filter\":\"metrics.loss < 0.1\",\"order_by\":[\"metrics.loss ASC\"]}"`
},
) (*answer[List[TrackingRun]], error) {
	b := in.Body
	return a.searchRuns(ctx, s, in.id(), tracking.RunSearch{Filter: b.Filter, Order: b.OrderBy, View: tracking.View(b.View), Limit: b.Limit, Cursor: b.Cursor})
}

func (a *api) searchRuns(ctx context.Context, s domain.Scope, x domain.ExperimentID, q tracking.RunSearch) (*answer[List[TrackingRun]], error) {
	if _, err := a.Experiments.Get(ctx, s, x); err != nil {
		return nil, err
	}
	q.Experiments = []domain.ExperimentID{x}
	found, err := a.TrackingRuns.Search(ctx, s, q)
	if err != nil {
		return nil, err
	}
	return list(found, showTrackingRun), nil
}

func (a *api) createTrackingRun(ctx context.Context, s domain.Scope, in *struct {
	Once
	ExperimentPath
	Body NewTrackingRun `example:"{\"name\":\"first\"}"`
},
) (*created[TrackingRun], error) {
	run, err := a.TrackingRuns.Create(ctx, s, tracking.NewRun{
		Experiment: in.id(), Name: in.Body.Name, User: in.Body.User, StartedAt: in.Body.StartedAt, Tags: pairs(in.Body.Tags),
	}, in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[TrackingRun]{Location: Prefix + "/experiments/" + string(run.Experiment) + "/runs/" + string(run.ID), Body: showTrackingRun(run)}, nil
}

func (a *api) getTrackingRun(ctx context.Context, s domain.Scope, in *TrackingRunPath) (*answer[TrackingRun], error) {
	return answered(showTrackingRun)(a.TrackingRuns.Get(ctx, s, in.id(), in.run()))
}

func (a *api) updateTrackingRun(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body TrackingRunChange `example:"{\"status\":\"finished\"}"`
},
) (*answer[TrackingRun], error) {
	change := tracking.Change{Name: in.Body.Name, FinishedAt: in.Body.FinishedAt}
	if in.Body.Status != nil {
		state := tracking.State(*in.Body.Status)
		change.State = &state
	}
	if _, err := a.TrackingRuns.Update(ctx, s, in.id(), in.run(), change); err != nil {
		return nil, err
	}
	return answered(showTrackingRun)(a.TrackingRuns.Get(ctx, s, in.id(), in.run()))
}

func (a *api) deleteTrackingRun(ctx context.Context, s domain.Scope, in *TrackingRunPath) (*nothing, error) {
	return nil, a.TrackingRuns.Delete(ctx, s, in.id(), in.run())
}

func (a *api) restoreTrackingRun(ctx context.Context, s domain.Scope, in *TrackingRunPath) (*answer[TrackingRun], error) {
	if _, err := a.TrackingRuns.Restore(ctx, s, in.id(), in.run()); err != nil {
		return nil, err
	}
	return answered(showTrackingRun)(a.TrackingRuns.Get(ctx, s, in.id(), in.run()))
}

func (a *api) getTrackingRunLineage(ctx context.Context, s domain.Scope, in *TrackingRunPath) (*answer[TrackingRunLineage], error) {
	tables, inputs, err := a.TrackingRuns.Lineage(ctx, s, in.id(), in.run())
	if err != nil {
		return nil, err
	}
	return &answer[TrackingRunLineage]{TrackingRunLineage{showTables(tables), each(inputs, showRunInput)}}, nil
}

func (a *api) logParameters(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body ParametersBody `example:"{\"parameters\":[{\"key\":\"depth\",\"value\":\"3\"}]}"`
},
) (*nothing, error) {
	return nil, a.TrackingRuns.Log(ctx, s, in.id(), in.run(), tracking.Batch{Parameters: pairs(in.Body.Parameters)})
}

func (a *api) setTrackingRunTags(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body TagsBody `example:"{\"tags\":[{\"key\":\"team\",\"value\":\"growth\"}]}"`
},
) (*nothing, error) {
	return nil, a.TrackingRuns.Log(ctx, s, in.id(), in.run(), tracking.Batch{Tags: pairs(in.Body.Tags)})
}

func (a *api) deleteTrackingRunTag(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	TagPath
},
) (*nothing, error) {
	return nil, a.TrackingRuns.DeleteTag(ctx, s, in.id(), in.run(), in.Key)
}

func (a *api) logInputs(ctx context.Context, s domain.Scope, in *struct {
	TrackingRunPath
	Body InputsBody `example:"{\"inputs\":[{\"name\":\"iris\",\"digest\":\"1f3a\",\"source_type\":\"local\",\"source\":\"{}\"}]}"`
},
) (*nothing, error) {
	return nil, a.TrackingRuns.LogInputs(ctx, s, in.id(), in.run(), each(in.Body.Inputs, RunInput.domain))
}
