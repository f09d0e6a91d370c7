package domain

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what is taken by OpenLineage.
const (
	MaxLineageBody     = 1 << 20 // bytes of a request
	MaxLineageEvents   = 1_000   // in one request
	MaxLineageDatasets = 1_000   // inputs, and outputs, of one event
	maxExternalName    = 1_024   // bytes of a namespace or a name
	maxAhead           = 10 * time.Minute
)

// Prefixes of the ids of what is outside.
const (
	prefixDataset     = "ext_"
	prefixExternalJob = "xjob_"
)

// RunEvent is what is taken of an OpenLineage RunEvent (specification 2-0-2). Facets that are not here are left aside.
type RunEvent struct {
	EventType string `json:"eventType"`
	EventTime string `json:"eventTime"`
	Producer  string `json:"producer"`
	SchemaURL string `json:"schemaURL"`
	Run       *struct {
		RunID string `json:"runId"`
	} `json:"run"`
	Job     *RunEventName     `json:"job"`
	Inputs  []RunEventDataset `json:"inputs"`
	Outputs []RunEventDataset `json:"outputs"`

	at time.Time
}

// RunEventName is a namespace and a name in it.
type RunEventName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// RunEventDataset is an input or an output.
type RunEventDataset struct {
	RunEventName
	Facets struct {
		Version struct {
			DatasetVersion string `json:"datasetVersion"`
		} `json:"version"`
		Symlinks struct {
			Identifiers []RunEventName `json:"identifiers"`
		} `json:"symlinks"`
		ColumnLineage struct {
			Fields map[string]struct {
				InputFields []RunEventField `json:"inputFields"`
			} `json:"fields"`
			Dataset []RunEventField `json:"dataset"`
		} `json:"columnLineage"`
	} `json:"facets"`
}

// RunEventField is a column of a dataset.
type RunEventField struct {
	RunEventName
	Field string `json:"field"`
}

// ParseRunEvents reads one event, or an array of them. What is wrong is CodeInvalid with its place.
func ParseRunEvents(body []byte, now time.Time) ([]RunEvent, error) {
	if len(body) > MaxLineageBody {
		return nil, &Error{Code: CodeTooLarge, Field: "body", Message: sprintf("The events have %d bytes; send at most %d at once.", []any{len(body), MaxLineageBody})}
	}
	var events []RunEvent
	body = bytes.TrimSpace(body)
	several := len(body) > 0 && body[0] == '['
	if !several {
		body = slices.Concat([]byte{'['}, body, []byte{']'})
	}
	if err := json.Unmarshal(body, &events); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, Invalid(wrong.Field, "The value of %q cannot be of the type %s; see the RunEvent of OpenLineage 2-0-2.", wrong.Field, wrong.Value)
		}
		return nil, Invalid("body", "The body is no JSON: %s.", err)
	}
	if len(events) == 0 {
		return nil, Invalid("body", "There is no event; send one, or an array of them.")
	}
	if len(events) > MaxLineageEvents {
		return nil, Invalid("body", "There are %d events; send at most %d at once.", len(events), MaxLineageEvents)
	}
	for i := range events {
		where := ""
		if several {
			where = "[" + strconv.Itoa(i) + "]."
		}
		if err := events[i].complete(where, now); err != nil {
			return nil, err
		}
	}
	return events, nil
}

var (
	eventTypes = []string{"", "START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"}
	uuidShape  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// complete validates the event and reads its time.
func (e *RunEvent) complete(where string, now time.Time) (err error) {
	switch {
	case e.Run == nil && e.Job != nil:
		return Invalid(where+"run", "%srun is missing: only events of runs (RunEvent) are taken, none of jobs or datasets alone.", where)
	case e.Run == nil:
		return Invalid(where+"run", "%srun is missing; send RunEvents of OpenLineage.", where)
	case e.Job == nil:
		return Invalid(where+"job", "%sjob is missing; give its namespace and its name.", where)
	case !slices.Contains(eventTypes, e.EventType):
		return Invalid(where+"eventType", "%seventType is %q; use START, RUNNING, COMPLETE, FAIL, ABORT or OTHER.", where, e.EventType)
	case !uuidShape.MatchString(e.Run.RunID):
		return Invalid(where+"run.runId", "%srun.runId is %q, which is no UUID.", where, e.Run.RunID)
	case e.Producer == "" || e.SchemaURL == "":
		return Invalid(where+"producer", "%sproducer and schemaURL are required; give the address of what sends the event, and of the schema that it follows.", where)
	}
	if e.at, err = time.Parse(time.RFC3339Nano, e.EventTime); err != nil {
		return Invalid(where+"eventTime", "%seventTime is %q; write it as 2026-01-31T12:00:00.000Z.", where, e.EventTime)
	}
	if e.at.After(now.Add(maxAhead)) || e.at.Year() < 1970 {
		return Invalid(where+"eventTime", "%seventTime is %s, which is not a time of the past; look at the clock of its machine.", where, e.EventTime)
	}
	if e.at = e.at.UTC().Truncate(time.Microsecond); e.at.After(now) {
		e.at = now
	}
	if err := e.Job.valid(where + "job"); err != nil {
		return err
	}
	for name, all := range map[string][]RunEventDataset{"inputs": e.Inputs, "outputs": e.Outputs} {
		if len(all) > MaxLineageDatasets {
			return Invalid(where+name, "%s%s has %d datasets; give at most %d.", where, name, len(all), MaxLineageDatasets)
		}
		for i, d := range all {
			if err := d.valid(where + name + "[" + strconv.Itoa(i) + "]"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n RunEventName) valid(where string) error {
	if n.Namespace == "" || n.Name == "" {
		return Invalid(where, "%s has no namespace or no name; give both.", where)
	}
	if err := validText(where+".namespace", n.Namespace, maxExternalName); err != nil {
		return err
	}
	return validText(where+".name", n.Name, maxExternalName)
}

// external is what the name stands for when it is not ours.
func (n RunEventName) external(job bool) External {
	prefix := prefixDataset
	if job {
		prefix = prefixExternalJob
	}
	sum := sha256.Sum256([]byte(prefix + "\x00" + n.Namespace + "\x00" + n.Name))
	return External{ID: prefix + hex.EncodeToString(sum[:16]), Job: job, Namespace: n.Namespace, Name: n.Name}
}

// over says that the event ends its run without success: what it was to write was not written.
func (e *RunEvent) lost() bool { return e.EventType == "FAIL" || e.EventType == "ABORT" }

// columns are those that the event says are read of the input.
func (e *RunEvent) columns(input RunEventName) (columns []string) {
	take := func(fields []RunEventField) {
		for _, f := range fields {
			if f.RunEventName == input && f.Field != "" && !slices.Contains(columns, f.Field) {
				columns = append(columns, f.Field)
			}
		}
	}
	for _, out := range e.Outputs {
		for _, f := range out.Facets.ColumnLineage.Fields {
			take(f.InputFields)
		}
		take(out.Facets.ColumnLineage.Dataset)
	}
	slices.Sort(columns)
	return columns
}

// written are the columns that the event says are written of the output.
func (d RunEventDataset) written() (columns []string) {
	for name := range d.Facets.ColumnLineage.Fields {
		columns = append(columns, name)
	}
	slices.Sort(columns)
	return columns
}

// snapshot is that of an Iceberg table where the event has it; else 0.
func (d RunEventDataset) snapshot() int64 {
	id, _ := strconv.ParseInt(d.Facets.Version.DatasetVersion, 10, 64) // any other version is no snapshot
	return max(0, id)
}

// Report takes in events of OpenLineage. Those of a task's process are of its run; others are of a job outside. The same event again changes nothing.
func (l *Lineages) Report(ctx context.Context, s Scope, events []RunEvent) error {
	if err := authorize(ctx, l.Store, s, LineageReport); err != nil {
		return err
	}
	return l.Store.In(ctx, s, func(tx Tx) error {
		r := &lineageReport{ctx: ctx, tx: tx, scope: s, catalog: l.CatalogURL, known: map[RunEventName]LineageEntry{}, outside: map[string]External{}}
		for _, e := range events {
			if err := r.take(e); err != nil {
				return err
			}
		}
		all := make([]External, 0, len(r.outside))
		for _, e := range r.outside {
			all = append(all, e)
		}
		slices.SortFunc(all, func(a, b External) int { return strings.Compare(a.ID, b.ID) }) // one order of locks
		if err := tx.SaveExternals(ctx, all, l.Clock.Now()); err != nil {
			return err
		}
		return audited(ctx, tx, s, LineageReport, "job", events[0].Job.external(true).ID)
	})
}

// lineageReport takes in the events of one request.
type lineageReport struct {
	ctx     context.Context
	tx      Tx
	scope   Scope
	catalog string
	known   map[RunEventName]LineageEntry
	outside map[string]External
}

func (r *lineageReport) take(e RunEvent) error {
	fact := LineageFact{Source: e.Run.RunID, LineageEntry: LineageEntry{At: e.at, Actor: r.scope.actor}}
	if fact.Actor.Kind != ActorRun {
		job := e.Job.external(true)
		r.outside[job.ID] = job
		fact.Process = ProcessID(job.ID)
		fact.Actor = Actor{Kind: ActorExternal, ID: job.ID + "/" + strings.ToLower(e.Run.RunID), Name: e.Job.Name}
	}
	if e.lost() {
		if err := r.tx.RetractLineage(r.ctx, fact.Actor, fact.Source); err != nil {
			return err
		}
	}
	var facts []LineageFact
	add := func(d RunEventDataset, way LineageDirection, columns []string) error {
		entry, err := r.resolve(d)
		if err != nil {
			return err
		}
		f := fact
		f.TableID, f.Database, f.Schema, f.Name = entry.TableID, entry.Database, entry.Schema, entry.Name
		f.Direction, f.Columns, f.SnapshotID = way, columns, d.snapshot()
		facts = append(facts, f)
		return nil
	}
	for _, d := range e.Inputs {
		if err := add(d, LineageRead, e.columns(d.RunEventName)); err != nil {
			return err
		}
	}
	for _, d := range e.Outputs {
		if e.lost() {
			break
		}
		if err := add(d, LineageWritten, d.written()); err != nil {
			return err
		}
	}
	return r.tx.InsertLineageFacts(r.ctx, facts)
}

// resolve finds the table of ours that a dataset is, by its name, its other names or its location; else it is one outside.
func (r *lineageReport) resolve(d RunEventDataset) (LineageEntry, error) {
	if e, ok := r.known[d.RunEventName]; ok {
		return e, nil
	}
	e, err := r.find(d)
	if IsCode(err, CodeNotFound) {
		out := d.external(false)
		r.outside[out.ID] = out
		e, err = LineageEntry{TableID: TableID(out.ID), Schema: d.Namespace, Name: d.Name}, nil
	}
	if err == nil {
		r.known[d.RunEventName] = e
	}
	return e, err
}

func (r *lineageReport) find(d RunEventDataset) (LineageEntry, error) {
	missing := error(NotFound("table", d.Name))
	for _, n := range append([]RunEventName{d.RunEventName}, d.Facets.Symlinks.Identifiers...) {
		parts := r.parts(n)
		if len(parts) < 3 {
			continue
		}
		last := len(parts) - 1
		t, err := r.tx.FindLakeTable(r.ctx, parts[0], strings.Join(parts[1:last], "."), parts[last])
		if err == nil || !IsCode(err, CodeNotFound) {
			return entryOf(t), err
		}
	}
	location := location(d.RunEventName)
	if location == "" {
		return LineageEntry{}, missing
	}
	t, err := r.tx.TableAt(r.ctx, location)
	if err == nil && t.DroppedAt != nil {
		err = missing
	}
	return entryOf(t), err
}

func entryOf(t LakeTable) LineageEntry {
	return LineageEntry{TableID: t.ID, Database: t.Database, Schema: t.Schema, Name: t.Name}
}

// otherSystems are namespaces with names of three parts that are not ours, by how they begin.
var otherSystems = []string{
	"postgres", "mysql", "mssql", "sqlserver", "oracle", "snowflake", "redshift", "bigquery", "trino", "athena", "awsathena", "db2", "teradata", "kafka", "hive", "glue", "arn",
	"cassandra", "sqlite", "clickhouse", "databricks", "azurecosmos", "synapse", "dremio", "unitycatalog", "jdbc", "mongodb", "cockroach", "duckdb", "spanner", "vertica",
}

// parts are those of a name that can be a table's of ours: of three parts or more, and in no namespace of another system. In the namespace of our catalog the
// database may be left out, as Spark does.
func (r *lineageReport) parts(n RunEventName) []string {
	parts := strings.Split(n.Name, ".")
	ours := strings.TrimSuffix(n.Namespace, "/") == r.catalog
	if ours && len(parts) == 2 {
		return append([]string{DefaultDatabase}, parts...)
	}
	scheme, _, _ := strings.Cut(strings.ToLower(n.Namespace), ":")
	if !ours && slices.Contains(otherSystems, scheme) || slices.Contains(parts, "") {
		return nil
	}
	return parts
}

// location is where a dataset lies that is named by its place, as Spark names them; else empty.
func location(n RunEventName) string {
	namespace := strings.TrimSuffix(n.Namespace, "/")
	switch {
	case namespace == "file" || namespace == "file:":
		return "file://" + "/" + strings.Trim(n.Name, "/")
	case strings.Contains(namespace, "://"):
		return namespace + "/" + strings.Trim(n.Name, "/")
	}
	return ""
}
