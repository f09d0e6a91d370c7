package mlflow

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// run is a run in the protocol.
type run struct {
	Info    runInfo   `json:"info"`
	Data    runData   `json:"data"`
	Inputs  runInputs `json:"inputs"`
	Outputs struct{}  `json:"outputs"`
}

type runInfo struct {
	ID         domain.TrackingRunID `json:"run_id"`
	UUID       domain.TrackingRunID `json:"run_uuid"`
	Name       string               `json:"run_name"`
	Experiment domain.ExperimentID  `json:"experiment_id"`
	User       string               `json:"user_id"`
	Status     string               `json:"status"`
	Start      int64                `json:"start_time"`
	End        *int64               `json:"end_time,omitempty"`
	Artifacts  string               `json:"artifact_uri"`
	Stage      string               `json:"lifecycle_stage"`
}

type runData struct {
	Metrics []metric   `json:"metrics,omitempty"`
	Params  []keyValue `json:"params,omitempty"`
	Tags    []keyValue `json:"tags,omitempty"`
}

type keyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func keyValues(pairs []tracking.Pair) []keyValue {
	of := make([]keyValue, len(pairs))
	for i, p := range pairs {
		of[i] = keyValue(p)
	}
	return of
}

// tag is a parameter or a tag of a request.
type tag struct{ Key, Value text }

func (t *tag) field(name []byte) value {
	switch string(name) {
	case "key":
		return &t.Key
	case "value":
		return &t.Value
	}
	return nil
}

// pairsOf returns the pairs of the list, which has the name.
func pairsOf(name string, tags list[tag]) ([]tracking.Pair, error) {
	pairs := make([]tracking.Pair, len(tags.items))
	for i, t := range tags.items {
		if t.Key.s == "" || t.Key.bad != nil || t.Value.bad != nil {
			at := fmt.Sprintf("%s[%d].", name, i)
			return nil, check(need(at+"key", &t.Key), may(at+"value", &t.Value))
		}
		pairs[i] = tracking.Pair{Key: t.Key.s, Value: t.Value.s}
	}
	return pairs, nil
}

func infoOf(r tracking.Run) runInfo {
	info := runInfo{
		ID: r.ID, UUID: r.ID, Name: r.Name, Experiment: r.Experiment, User: r.User, Status: strings.ToUpper(string(r.State)),
		Start: r.StartedAt.UnixMilli(), Artifacts: r.ArtifactURI(), Stage: stage(r.DeletedAt),
	}
	if r.FinishedAt != nil {
		end := r.FinishedAt.UnixMilli()
		info.End = &end
	}
	return info
}

func runOf(r tracking.Run) run {
	shown := run{Info: infoOf(r), Data: runData{Params: keyValues(r.Parameters), Tags: keyValues(r.Tags)}, Inputs: inputsOf(r.Inputs)}
	for _, m := range r.Metrics {
		shown.Data.Metrics = append(shown.Data.Metrics, metric{m.Point})
	}
	return shown
}

// readRun reads the fields, and the run's id before them.
func (c *call) readRun(fields ...field) (domain.TrackingRunID, error) {
	var id text
	err := c.read(append([]field{need("run_id", &id)}, fields...)...)
	return domain.TrackingRunID(id.s), err
}

// ofRun says in MLflow's words that there is no run. An error about a field is of something else.
func ofRun(err error, id domain.TrackingRunID) error {
	if domain.IsCode(err, domain.CodeNotFound) && domain.AsError(err).Field == "" {
		return refuse(http.StatusNotFound, doesNotExist, "Run with id=%s not found", string(id))
	}
	return err
}

func (c *call) answerRun(r tracking.Run) error {
	return c.answer(struct {
		Run run `json:"run"`
	}{runOf(r)})
}

func (f *face) createRun(c *call) error {
	var experiment, user, name text
	var start integer
	var tags list[tag]
	if err := c.read(may("experiment_id", &experiment), may("start_time", &start), may("run_name", &name), may("user_id", &user), may("tags", &tags)); err != nil {
		return err
	}
	n := tracking.NewRun{Experiment: tracking.DefaultExperiment, Name: name.s, User: user.s, StartedAt: start.time()}
	var err error
	if n.Tags, err = pairsOf("tags", tags); err != nil {
		return err
	}
	if experiment.s != "" {
		if n.Experiment, err = experimentID(experiment.s); err != nil {
			return err
		}
	}
	r, err := f.Runs.Create(c.Context(), c.scope, n, domain.Idempotency{})
	if err != nil {
		return ofExperiment(err, n.Experiment)
	}
	return c.answerRun(r)
}

// time returns the time of the milliseconds, or nil if none were sent.
func (i *integer) time() *time.Time {
	if !i.sent {
		return nil
	}
	t := time.UnixMilli(i.n)
	return &t
}

func (f *face) getRun(c *call) error {
	id, err := c.readRun()
	if err != nil {
		return err
	}
	r, err := f.Runs.Get(c.Context(), c.scope, "", id)
	if err != nil {
		return ofRun(err, id)
	}
	return c.answerRun(r)
}

// defaultRuns is how many runs a page of a search has unless the client says so.
const defaultRuns = 1000

func (f *face) searchRuns(c *call) error {
	var ids, order texts
	var filter, token text
	var most integer
	view := choice{names: viewTypes}
	err := c.read(may("experiment_ids", &ids), may("filter", &filter), may("run_view_type", &view), may("max_results", &most), may("order_by", &order), may("page_token", &token))
	if err != nil {
		return err
	}
	q := tracking.RunSearch{Filter: filter.s, Order: order.strings(), View: views[view.name], Limit: int(most.orElse(defaultRuns)), Cursor: token.s}
	if q.Experiments, err = experimentIDs(ids); err != nil {
		return err
	}
	found, err := f.Runs.Search(c.Context(), c.scope, q)
	if err != nil {
		return err
	}
	page := struct {
		Runs []run  `json:"runs,omitempty"`
		Next string `json:"next_page_token,omitempty"`
	}{make([]run, len(found.Items)), found.Next}
	for i, r := range found.Items {
		page.Runs[i] = runOf(r)
	}
	return c.answer(page)
}

func experimentIDs(sent texts) ([]domain.ExperimentID, error) {
	ids := make([]domain.ExperimentID, len(sent.items))
	for i, id := range sent.items {
		var err error
		if ids[i], err = experimentID(id.s); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// statuses are the protocol's names of the states, in the order of their numbers.
var statuses = []string{"RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"}

func (f *face) updateRun(c *call) error {
	status := choice{names: statuses}
	var end integer
	var name text
	id, err := c.readRun(may("status", &status), may("end_time", &end), may("run_name", &name))
	if err != nil {
		return err
	}
	change := tracking.Change{FinishedAt: end.time()}
	if name.s != "" {
		change.Name = &name.s
	}
	if status.name != "" {
		state := tracking.State(strings.ToLower(status.name))
		change.State = &state
	}
	r, err := f.Runs.Update(c.Context(), c.scope, "", id, change)
	if err != nil {
		return ofRun(err, id)
	}
	return c.answer(struct {
		Info runInfo `json:"run_info"`
	}{infoOf(r)})
}

func (f *face) deleteRun(c *call) error {
	id, err := c.readRun()
	if err != nil {
		return err
	}
	if err := f.unless(c, id, true, f.Runs.Delete(c.Context(), c.scope, "", id)); err != nil {
		return ofRun(err, id)
	}
	return c.done()
}

func (f *face) restoreRun(c *call) error {
	id, err := c.readRun()
	if err != nil {
		return err
	}
	_, err = f.Runs.Restore(c.Context(), c.scope, "", id)
	if err := f.unless(c, id, false, err); err != nil {
		return ofRun(err, id)
	}
	return c.done()
}

// unless forgives the conflict of a run that already is deleted, or is not: so it is in MLflow, and
// clients repeat requests.
func (f *face) unless(c *call, id domain.TrackingRunID, deleted bool, err error) error {
	if !domain.IsCode(err, domain.CodeConflict) {
		return err
	}
	r, failed := f.Runs.Get(c.Context(), c.scope, "", id)
	if failed != nil {
		return failed
	}
	if (r.DeletedAt != nil) == deleted {
		return nil
	}
	return err
}
