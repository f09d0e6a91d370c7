package lineage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
)

// EventsKept is how long events are stored for a receiver that does not accept them.
const EventsKept = 7 * 24 * time.Hour

// EventRef is a change of a run, an attempt or a statement to send to the OpenLineage
// receiver.
type EventRef struct {
	Seq       int64
	Workspace domain.WorkspaceID
	Kind      string // run, attempt or statement
	Subject   string // its id
	Status    string // running for its start, else its final status
	At        time.Time
}

// Outbox stores the events to send. Each is inserted by the transaction that makes the
// change.
type Outbox interface {
	// WantLineageEvents turns on the recording of changes until then.
	WantLineageEvents(ctx context.Context, until time.Time) error
	// LineageTurn runs fn unless another replica does so now; it then returns false.
	LineageTurn(ctx context.Context, fn func(context.Context) error) (bool, error)
	// LineageEvents returns events, oldest first.
	LineageEvents(ctx context.Context, limit int) ([]EventRef, error)
	// RemoveLineageEvent deletes an event that was received.
	RemoveLineageEvent(ctx context.Context, seq int64) error
	// DropLineageEvents deletes the events before then, and returns their number.
	DropLineageEvents(ctx context.Context, before time.Time) (int64, error)
}

// EventStatement is the part of a statement that its events show.
type EventStatement struct {
	Query     string
	Engine    string // empty before one is chosen
	Message   string // why it failed; else empty
	CreatedBy domain.Actor
}

// Receiver receives OpenLineage events, as JSON. CodeInvalid says that it will never accept
// this event.
type Receiver interface {
	Receive(ctx context.Context, event []byte) error
}

// Emitter sends the platform's own runs and statements to an OpenLineage receiver. It sends
// each event at least once, and the events of one run in order.
type Emitter struct {
	Store      domain.Store[Tx]
	Outbox     Outbox
	Receiver   Receiver // nil turns the emitter off
	Clock      domain.Clock
	URL        string // of the platform: the producer, and the prefix of the namespaces of jobs
	CatalogURL string // namespace of tables
	Report     func(error)

	wanted   time.Time
	failures int
}

const (
	eventsAtOnce   = 100
	eventsEvery    = time.Second
	eventsWanted   = 10 * time.Minute // how often the recording is renewed
	eventsSlowest  = time.Minute      // longest pause between tries
	facetsURL      = "https://openlineage.io/spec/facets/"
	runEventSchema = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
)

// Deliver sends stored events, and returns when to call it again. One goroutine calls it, also at
// the start, so that later changes are recorded.
func (e *Emitter) Deliver(ctx context.Context) (next time.Time, err error) {
	now := e.Clock.Now()
	if err := e.tidy(ctx, now); err != nil || e.Receiver == nil {
		return now.Add(eventsWanted), err
	}
	sent := 0
	_, err = e.Outbox.LineageTurn(ctx, func(ctx context.Context) (err error) {
		sent, err = e.batch(ctx)
		return err
	})
	if err != nil {
		e.failures++
		return now.Add(min(time.Second<<min(e.failures-1, 6), eventsSlowest)), err
	}
	e.failures = 0
	if sent == eventsAtOnce {
		return now, nil
	}
	return now.Add(eventsEvery), nil
}

// tidy renews or ends the recording of events, and drops old ones.
func (e *Emitter) tidy(ctx context.Context, now time.Time) error {
	if !e.wanted.IsZero() && now.Before(e.wanted.Add(eventsWanted)) {
		return nil
	}
	until := now
	if e.Receiver != nil {
		until = now.Add(EventsKept)
	}
	if err := e.Outbox.WantLineageEvents(ctx, until); err != nil {
		return err
	}
	dropped, err := e.Outbox.DropLineageEvents(ctx, now.Add(-EventsKept))
	if dropped > 0 {
		e.Report(fmt.Errorf("%d OpenLineage events were dropped: the receiver has not accepted them for a week", dropped))
	}
	if err == nil {
		e.wanted = now
	}
	return err
}

func (e *Emitter) batch(ctx context.Context) (sent int, err error) {
	refs, err := e.Outbox.LineageEvents(ctx, eventsAtOnce)
	for _, ref := range refs {
		if err := e.send(ctx, ref); err != nil {
			return sent, err
		}
		if err := e.Outbox.RemoveLineageEvent(ctx, ref.Seq); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, err
}

// send sends one event. It retries only failures of the receiver and the database. Other failures
// are reported and the event is skipped: the receiver will never accept it, its subject is gone, or
// it cannot be made.
func (e *Emitter) send(ctx context.Context, ref EventRef) error {
	body, err := e.body(ctx, ref)
	if err != nil {
		if waits(err) {
			return err
		}
		e.Report(fmt.Errorf("the OpenLineage event of %s %s could not be made: %w", ref.Kind, ref.Subject, err))
		return nil
	}
	err = e.Receiver.Receive(ctx, body)
	if domain.IsCode(err, domain.CodeInvalid) {
		e.Report(fmt.Errorf("the OpenLineage event of %s %s was rejected: %w", ref.Kind, ref.Subject, err))
		return nil
	}
	return err
}

// body returns the event's JSON. A panic fails this event only.
func (e *Emitter) body(ctx context.Context, ref EventRef) (body []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	event, err := e.event(ctx, ref)
	if err != nil {
		return nil, err
	}
	return json.Marshal(event)
}

// waits reports whether the error may pass: the database failed, or the caller has gone.
func waits(err error) bool {
	_, answered := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	return answered || domain.IsCode(err, domain.CodeUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// eventFacets holds facets by name.
type eventFacets map[string]map[string]any

type eventJob struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Facets    eventFacets `json:"facets,omitempty"`
}

type eventRun struct {
	RunID  string      `json:"runId"`
	Facets eventFacets `json:"facets,omitempty"`
}

type eventDataset struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	Facets    eventFacets `json:"facets,omitempty"`
}

// datasetKey identifies a dataset of an event.
type datasetKey struct {
	direction       lake.LineageDirection
	namespace, name string
}

// lineageEvent is the JSON of a RunEvent.
type lineageEvent struct {
	EventType string         `json:"eventType"`
	EventTime string         `json:"eventTime"`
	Producer  string         `json:"producer"`
	SchemaURL string         `json:"schemaURL"`
	Run       eventRun       `json:"run"`
	Job       eventJob       `json:"job"`
	Inputs    []eventDataset `json:"inputs"`
	Outputs   []eventDataset `json:"outputs"`
}

var eventTypeOf = map[string]string{
	"running": "START", "success": "COMPLETE", "succeeded": "COMPLETE", "failed": "FAIL", "lost": "FAIL", "cancelled": "ABORT",
}

// event builds the event from the current state.
func (e *Emitter) event(ctx context.Context, ref EventRef) (ev lineageEvent, err error) {
	id, err := typeid.FromString(ref.Subject)
	if err != nil {
		return ev, err
	}
	ev = lineageEvent{
		EventType: eventTypeOf[ref.Status], EventTime: ref.At.UTC().Format("2006-01-02T15:04:05.000000Z"), Producer: e.URL, SchemaURL: runEventSchema,
		Run: eventRun{RunID: id.UUID(), Facets: eventFacets{}}, Job: eventJob{Namespace: e.namespace(ref.Workspace), Facets: eventFacets{}},
		Inputs: []eventDataset{}, Outputs: []eventDataset{},
	}
	err = e.Store.In(ctx, domain.SystemScope(ref.Workspace, "openlineage"), func(tx Tx) error {
		facts, err := e.fill(ctx, tx, ref, &ev)
		if err != nil || ev.EventType == "START" {
			return err
		}
		outside, err := externalsOf(ctx, tx, facts)
		known := map[datasetKey]int{}
		for _, f := range facts {
			to := &ev.Inputs
			if f.Direction == lake.LineageWritten {
				to = &ev.Outputs
			}
			d := e.dataset(f, outside)
			key := datasetKey{f.Direction, d.Namespace, d.Name}
			if at, there := known[key]; there { // an earlier version of the dataset
				(*to)[at] = d
				continue
			}
			known[key] = len(*to)
			*to = append(*to, d)
		}
		return err
	})
	return ev, err
}

func (e *Emitter) namespace(ws domain.WorkspaceID) string { return e.URL + "/" + string(ws) }

// fill sets the fields that depend on the kind of the subject, and returns its lineage.
func (e *Emitter) fill(ctx context.Context, tx Tx, ref EventRef, ev *lineageEvent) ([]Fact, error) {
	switch ref.Kind {
	case "run":
		return e.fillRun(ctx, tx, domain.RunID(ref.Subject), ev)
	case "attempt":
		return e.fillAttempt(ctx, tx, domain.AttemptID(ref.Subject), ev)
	}
	return e.fillStatement(ctx, tx, domain.StatementID(ref.Subject), ev)
}

func (e *Emitter) fillRun(ctx context.Context, tx Tx, id domain.RunID, ev *lineageEvent) ([]Fact, error) {
	run, err := job.RunHead(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	ev.Job.Name = run.JobName
	e.describe(ev, "JOB", run.Message, "none")
	return tx.RunLineage(ctx, id, MaxOfRun)
}

func (e *Emitter) fillAttempt(ctx context.Context, tx Tx, id domain.AttemptID, ev *lineageEvent) ([]Fact, error) {
	a, run, err := attemptOf(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	ev.Job.Name = taskName(run, a.TaskKey)
	e.describe(ev, "TASK", a.Message, "sh")
	e.parent(ev, string(run.ID), run.JobName, nil)
	return factsOf(tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorRun, ID: string(id)}))
}

func (e *Emitter) fillStatement(ctx context.Context, tx Tx, id domain.StatementID, ev *lineageEvent) ([]Fact, error) {
	st, err := tx.EventStatement(ctx, id)
	if err != nil {
		return nil, err
	}
	ev.Job.Name = "sql"
	if st.CreatedBy.Kind == domain.ActorRun {
		a, run, err := attemptOf(ctx, tx, domain.AttemptID(st.CreatedBy.ID))
		if err != nil {
			return nil, err
		}
		ev.Job.Name = taskName(run, a.TaskKey) + ".sql"
		e.parent(ev, string(a.ID), taskName(run, a.TaskKey), &run)
	}
	e.describe(ev, "QUERY", st.Message, "SQL")
	sql := map[string]any{"query": st.Query}
	if st.Engine != "" {
		sql["dialect"] = st.Engine
	}
	e.facet(ev.Job.Facets, "sql", "1-1-0/SQLJobFacet.json", sql)
	return factsOf(tx.LineageOf(ctx, domain.Actor{Kind: domain.ActorStatement, ID: string(id)}))
}

func attemptOf(ctx context.Context, tx Tx, id domain.AttemptID) (job.Attempt, job.Run, error) {
	a, err := tx.Attempt(ctx, id)
	if err != nil {
		return a, job.Run{}, err
	}
	run, err := job.RunHead(ctx, tx, a.RunID)
	return a, run, err
}

func taskName(run job.Run, key string) string { return run.JobName + "." + cmp.Or(key, "command") }

func factsOf(l lake.Lineage, err error) ([]Fact, error) {
	var facts []Fact
	for _, all := range [][]lake.LineageEntry{l.Read, l.Written} {
		for _, entry := range all {
			facts = append(facts, Fact{LineageEntry: entry})
		}
	}
	return facts, err
}

// facet adds a facet with the properties that every facet has.
func (e *Emitter) facet(to eventFacets, name, schema string, content map[string]any) {
	content["_producer"], content["_schemaURL"] = e.URL, facetsURL+schema
	to[name] = content
}

func (e *Emitter) describe(ev *lineageEvent, jobType, message, language string) {
	e.facet(ev.Job.Facets, "jobType", "2-0-3/JobTypeJobFacet.json", map[string]any{"processingType": "BATCH", "integration": "MILLPOND", "jobType": jobType})
	if ev.EventType == "FAIL" && message != "" {
		e.facet(ev.Run.Facets, "errorMessage", "1-0-1/ErrorMessageRunFacet.json", map[string]any{"message": message, "programmingLanguage": language})
	}
}

// parent names the run that the event's run is part of. root is the run of a task, if the parent is
// a task's attempt.
func (e *Emitter) parent(ev *lineageEvent, id, name string, root *job.Run) {
	content := e.runAndJob(ev, id, name)
	if root != nil {
		content["root"] = e.runAndJob(ev, string(root.ID), root.JobName)
	}
	e.facet(ev.Run.Facets, "parent", "1-2-0/ParentRunFacet.json", content)
}

func (e *Emitter) runAndJob(ev *lineageEvent, id, name string) map[string]any {
	uuid, err := typeid.FromString(id)
	if err != nil {
		e.Report(errors.Join(errors.New("an id of ours is malformed: "+id), err))
	}
	return map[string]any{"run": eventRun{RunID: uuid.UUID()}, "job": eventJob{Namespace: ev.Job.Namespace, Name: name}}
}

func (e *Emitter) dataset(f Fact, outside map[domain.TableID]External) eventDataset {
	if x, ok := outside[f.TableID]; ok {
		return eventDataset{Namespace: x.Namespace, Name: x.Name}
	}
	d := eventDataset{Namespace: e.CatalogURL, Name: dotted(f.LineageEntry), Facets: eventFacets{}}
	if f.SnapshotID != 0 {
		e.facet(d.Facets, "version", "1-0-1/DatasetVersionDatasetFacet.json", map[string]any{"datasetVersion": strconv.FormatInt(f.SnapshotID, 10)})
	}
	return d
}
