package mlflow

import (
	"net/http"
	"strconv"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// experiment is an experiment in the protocol.
type experiment struct {
	ID       domain.ExperimentID `json:"experiment_id"`
	Name     string              `json:"name"`
	Location string              `json:"artifact_location"`
	Stage    string              `json:"lifecycle_stage"`
	Updated  int64               `json:"last_update_time"`
	Created  int64               `json:"creation_time"`
	Tags     []keyValue          `json:"tags,omitempty"`
}

func experimentOf(e tracking.Experiment) experiment {
	return experiment{
		ID: e.ID, Name: e.Name, Location: e.ArtifactLocation(), Stage: stage(e.DeletedAt),
		Updated: e.UpdatedAt.UnixMilli(), Created: e.CreatedAt.UnixMilli(), Tags: keyValues(e.Tags),
	}
}

func stage(deleted *time.Time) string {
	if deleted != nil {
		return "deleted"
	}
	return "active"
}

// viewTypes are the protocol's names of the views, in the order of their numbers.
var (
	viewTypes = []string{"ACTIVE_ONLY", "DELETED_ONLY", "ALL"}
	views     = map[string]tracking.View{
		"": tracking.ViewActive, "ACTIVE_ONLY": tracking.ViewActive, "DELETED_ONLY": tracking.ViewDeleted, "ALL": tracking.ViewAll,
	}
)

// readExperiment reads the fields, and the experiment's id before them.
func (c *call) readExperiment(fields ...field) (domain.ExperimentID, error) {
	var id text
	if err := c.read(append([]field{need("experiment_id", &id)}, fields...)...); err != nil {
		return "", err
	}
	return experimentID(id.s)
}

// experimentID returns the id that the client names: MLflow's are integers.
func experimentID(sent string) (domain.ExperimentID, error) {
	n, err := strconv.ParseInt(sent, 10, 64)
	if err != nil {
		return "", refuse(http.StatusBadRequest, invalidParameter, "Invalid experiment ID '%s'. Experiment ID must be a valid integer.", sent)
	}
	return domain.ExperimentID(strconv.FormatInt(n, 10)), nil
}

// ofExperiment says in MLflow's words that there is no experiment. An error about a field is of
// something else.
func ofExperiment(err error, id domain.ExperimentID) error {
	if domain.IsCode(err, domain.CodeNotFound) && domain.AsError(err).Field == "" {
		return noExperiment(id)
	}
	return err
}

func noExperiment(id domain.ExperimentID) error {
	return refuse(http.StatusNotFound, doesNotExist, "No Experiment with id=%s exists", string(id))
}

func (f *face) createExperiment(c *call) error {
	var name, location text
	var tags list[tag]
	if err := c.read(need("name", &name), may("artifact_location", &location), may("tags", &tags)); err != nil {
		return err
	}
	pairs, err := pairsOf("tags", tags)
	if err != nil {
		return err
	}
	e, err := f.Experiments.Create(c.Context(), c.scope, tracking.NewExperiment{Name: name.s, Location: location.s, Tags: pairs}, domain.Idempotency{})
	if domain.IsCode(err, domain.CodeConflict) {
		return refuse(http.StatusBadRequest, alreadyExists, "Experiment(name=%s) already exists. %s", name.s, domain.AsError(err).Message)
	}
	if err != nil {
		return err
	}
	return c.answer(struct {
		ID domain.ExperimentID `json:"experiment_id"`
	}{e.ID})
}

func (c *call) answerExperiment(e tracking.Experiment) error {
	return c.answer(struct {
		Experiment experiment `json:"experiment"`
	}{experimentOf(e)})
}

func (f *face) getExperiment(c *call) error {
	id, err := c.readExperiment()
	if err != nil {
		return err
	}
	e, err := f.Experiments.Get(c.Context(), c.scope, id)
	if err != nil {
		return ofExperiment(err, id)
	}
	return c.answerExperiment(e)
}

func (f *face) getExperimentByName(c *call) error {
	var name text
	if err := c.read(need("experiment_name", &name)); err != nil {
		return err
	}
	e, err := f.Experiments.ByName(c.Context(), c.scope, name.s)
	if domain.IsCode(err, domain.CodeNotFound) {
		return refuse(http.StatusNotFound, doesNotExist, "Could not find experiment with name '%s'", name.s)
	}
	if err != nil {
		return err
	}
	return c.answerExperiment(e)
}

func (f *face) searchExperiments(c *call) error {
	var most integer
	var token, filter text
	var order texts
	view := choice{names: viewTypes}
	if err := c.read(may("view_type", &view), may("max_results", &most), may("order_by", &order), may("filter", &filter), may("page_token", &token)); err != nil {
		return err
	}
	found, err := f.Experiments.Search(c.Context(), c.scope, tracking.ExperimentSearch{
		Filter: filter.s, Order: order.strings(), View: views[view.name], Limit: int(most.n), Cursor: token.s,
	})
	if err != nil {
		return err
	}
	page := struct {
		Experiments []experiment `json:"experiments,omitempty"`
		Next        string       `json:"next_page_token,omitempty"`
	}{make([]experiment, len(found.Items)), found.Next}
	for i, e := range found.Items {
		page.Experiments[i] = experimentOf(e)
	}
	return c.answer(page)
}

func (f *face) updateExperiment(c *call) error {
	var name text
	id, err := c.readExperiment(need("new_name", &name))
	if err != nil {
		return err
	}
	_, err = f.Experiments.Update(c.Context(), c.scope, id, &name.s)
	if domain.IsCode(err, domain.CodeConflict) && domain.AsError(err).Field == "" {
		return refuse(http.StatusBadRequest, invalidState, "%s", domain.AsError(err).Message)
	}
	if err != nil {
		return ofExperiment(err, id)
	}
	return c.done()
}

func (f *face) deleteExperiment(c *call) error {
	id, err := c.readExperiment()
	if err != nil {
		return err
	}
	err = f.Experiments.Delete(c.Context(), c.scope, id)
	if domain.IsCode(err, domain.CodeConflict) && id != tracking.DefaultExperiment {
		return noExperiment(id) // it is deleted already
	}
	if err != nil {
		return ofExperiment(err, id)
	}
	return c.done()
}

func (f *face) restoreExperiment(c *call) error {
	id, err := c.readExperiment()
	if err != nil {
		return err
	}
	_, err = f.Experiments.Restore(c.Context(), c.scope, id)
	if domain.IsCode(err, domain.CodeConflict) {
		return noExperiment(id) // it is not deleted
	}
	if err != nil {
		return ofExperiment(err, id)
	}
	return c.done()
}

func (f *face) setExperimentTag(c *call) error {
	var key, value text
	id, err := c.readExperiment(need("key", &key), may("value", &value))
	if err != nil {
		return err
	}
	if err := f.Experiments.SetTags(c.Context(), c.scope, id, []tracking.Pair{{Key: key.s, Value: value.s}}); err != nil {
		return ofExperiment(err, id)
	}
	return c.done()
}

func (f *face) deleteExperimentTag(c *call) error {
	var key text
	id, err := c.readExperiment(need("key", &key))
	if err != nil {
		return err
	}
	if err := f.Experiments.DeleteTag(c.Context(), c.scope, id, key.s); err != nil {
		return ofExperiment(err, id)
	}
	return c.done()
}
