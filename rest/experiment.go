package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// Pair is a parameter or a tag.
type Pair struct {
	Key   string `json:"key" example:"learning_rate"`
	Value string `json:"value" example:"0.1"`
}

// Experiment is a group of tracking runs.
type Experiment struct {
	ID               string `json:"id" example:"1" doc:"A number in the workspace. 0 is Default, which every workspace has."`
	Name             string `json:"name"`
	ArtifactLocation string `json:"artifact_location" doc:"The URI below which its runs have their artifacts."`
	Tags             []Pair `json:"tags" doc:"By key."`
	CreatedBy        Actor  `json:"created_by"`
	CreatedAt        Time   `json:"created_at"`
	UpdatedAt        Time   `json:"updated_at"`
	DeletedAt        *Time  `json:"deleted_at,omitempty" doc:"Present while it is deleted."`
}

// NewExperiment is the body of a request to create an experiment.
type NewExperiment struct {
	Name             string `json:"name" doc:"Unique in the workspace, deleted experiments included; at most 500 characters."`
	ArtifactLocation string `json:"artifact_location,omitempty" doc:"A place of your own for artifacts. The platform stores it, and never opens it."`
	Tags             []Pair `json:"tags,omitempty" nullable:"true"`
}

// ExperimentChange changes an experiment.
type ExperimentChange struct {
	Name *string `json:"name,omitempty"`
}

// TagsBody is the body of a request that sets tags.
type TagsBody struct {
	Tags []Pair `json:"tags" minItems:"1" maxItems:"100"`
}

// ExperimentPath is the path of operations on one experiment.
type ExperimentPath struct {
	ID string `path:"id" doc:"Id of the experiment." example:"0"`
}

func (p ExperimentPath) id() domain.ExperimentID { return domain.ExperimentID(p.ID) }

// TagPath is the end of the path of operations on one tag.
type TagPath struct {
	Key string `path:"key" doc:"The tag's key; a slash in it is sent as %2F."`
}

// SearchQuery is the query of a list in MLflow's grammar.
type SearchQuery struct {
	PageQuery
	Filter  string   `query:"filter" maxLength:"65536" doc:"Conditions in MLflow's grammar, joined by AND." example:"metrics.loss < 0.1"`
	OrderBy []string `query:"order_by,explode" maxItems:"20" doc:"Columns in MLflow's grammar, each with ASC or DESC." example:"metrics.loss ASC"`
	View    string   `query:"view" enum:"active,deleted,all" default:"active"`
}

func showPairs(pairs []tracking.Pair) []Pair {
	return each(pairs, func(p tracking.Pair) Pair { return Pair(p) })
}

func pairs(given []Pair) []tracking.Pair {
	return each(given, func(p Pair) tracking.Pair { return tracking.Pair(p) })
}

func showExperiment(e tracking.Experiment) Experiment {
	return Experiment{
		ID: string(e.ID), Name: e.Name, ArtifactLocation: e.ArtifactLocation(), Tags: showPairs(e.Tags),
		CreatedBy: showActor(e.CreatedBy), CreatedAt: Time(e.CreatedAt), UpdatedAt: Time(e.UpdatedAt), DeletedAt: optionalTime(e.DeletedAt),
	}
}

func (a *api) experimentRoutes() {
	const path, one = "/experiments", "/experiments/{id}"
	tags, conflict := []string{"Experiments"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: "list-experiments", Tags: tags, Summary: "List experiments, newest first",
		Description: "Attributes of the filter and the order are name, creation_time and last_update_time; tags are written tags.key.",
	}, a.listExperiments)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-experiment", Tags: tags, Summary: "Create an experiment", DefaultStatus: http.StatusCreated, Errors: conflict,
		Description: "409 if the name is taken, also by a deleted experiment.",
	}, a.createExperiment)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one, OperationID: "get-experiment", Tags: tags, Summary: "Get an experiment",
		Description: "Also a deleted one.",
	}, a.getExperiment)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: one, OperationID: "update-experiment", Tags: tags, Summary: "Rename an experiment", Errors: conflict,
		Description: "409 if the name is taken, or the experiment is deleted.",
	}, a.updateExperiment)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one, OperationID: "delete-experiment", Tags: tags, Summary: "Delete an experiment with its runs", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "It can be restored for 30 days. Then it is erased with its runs, and their points. 409 for Default and for a deleted experiment.",
	}, a.deleteExperiment)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/restore", OperationID: "restore-experiment", Tags: tags, Summary: "Restore a deleted experiment", Errors: conflict,
		Description: "Runs that were deleted before it remain deleted. 409 if it is not deleted.",
	}, a.restoreExperiment)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/tags", OperationID: "set-experiment-tags", Tags: tags, Summary: "Set tags of an experiment", Errors: conflict,
		Description: "Tags that are not named remain.",
	}, a.setExperimentTags)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one + "/tags/{key}", OperationID: "delete-experiment-tag", Tags: tags, Summary: "Remove a tag of an experiment", DefaultStatus: http.StatusNoContent, Errors: conflict,
	}, a.deleteExperimentTag)
}

func (a *api) listExperiments(ctx context.Context, s domain.Scope, in *SearchQuery) (*answer[List[Experiment]], error) {
	found, err := a.Experiments.Search(ctx, s, tracking.ExperimentSearch{Filter: in.Filter, Order: in.OrderBy, View: tracking.View(in.View), Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	return list(found, showExperiment), nil
}

func (a *api) createExperiment(ctx context.Context, s domain.Scope, in *struct {
	Once
	Body NewExperiment `example:"{\"name\":\"churn\"}"`
},
) (*created[Experiment], error) {
	e, err := a.Experiments.Create(ctx, s, tracking.NewExperiment{Name: in.Body.Name, Location: in.Body.ArtifactLocation, Tags: pairs(in.Body.Tags)}, in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[Experiment]{Location: Prefix + "/experiments/" + string(e.ID), Body: showExperiment(e)}, nil
}

func (a *api) getExperiment(ctx context.Context, s domain.Scope, in *ExperimentPath) (*answer[Experiment], error) {
	return answered(showExperiment)(a.Experiments.Get(ctx, s, in.id()))
}

func (a *api) updateExperiment(ctx context.Context, s domain.Scope, in *struct {
	ExperimentPath
	Body ExperimentChange `example:"{\"name\":\"churn of 2026\"}"`
},
) (*answer[Experiment], error) {
	return answered(showExperiment)(a.Experiments.Update(ctx, s, in.id(), in.Body.Name))
}

func (a *api) deleteExperiment(ctx context.Context, s domain.Scope, in *ExperimentPath) (*nothing, error) {
	return nil, a.Experiments.Delete(ctx, s, in.id())
}

func (a *api) restoreExperiment(ctx context.Context, s domain.Scope, in *ExperimentPath) (*answer[Experiment], error) {
	return answered(showExperiment)(a.Experiments.Restore(ctx, s, in.id()))
}

func (a *api) setExperimentTags(ctx context.Context, s domain.Scope, in *struct {
	ExperimentPath
	Body TagsBody `example:"{\"tags\":[{\"key\":\"team\",\"value\":\"growth\"}]}"`
},
) (*answer[Experiment], error) {
	if err := a.Experiments.SetTags(ctx, s, in.id(), pairs(in.Body.Tags)); err != nil {
		return nil, err
	}
	return answered(showExperiment)(a.Experiments.Get(ctx, s, in.id()))
}

func (a *api) deleteExperimentTag(ctx context.Context, s domain.Scope, in *struct {
	ExperimentPath
	TagPath
},
) (*nothing, error) {
	return nil, a.Experiments.DeleteTag(ctx, s, in.id(), in.Key)
}
