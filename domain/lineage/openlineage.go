package lineage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Bounds of OpenLineage requests.
const (
	MaxBody         = 1 << 20 // bytes of a request
	MaxEvents       = 1_000   // in one request
	MaxDatasets     = 1_000   // inputs, and outputs, of one event
	MaxSymlinks     = 10      // of one dataset
	maxExternalName = 1_024   // bytes of a namespace or a name
	maxAhead        = 10 * time.Minute
)

// RunEvent is the used part of an OpenLineage RunEvent (specification 2-0-2). Other facets are
// ignored.
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

// ParseRunEvents parses one event, or an array of them. It returns CodeInvalid with the position of
// an error.
func ParseRunEvents(body []byte, now time.Time) ([]RunEvent, error) {
	if len(body) > MaxBody {
		return nil, &domain.Error{Code: domain.CodeTooLarge, Field: "body", Message: domain.Sprintf("The events have %d bytes; send at most %d at once.", []any{len(body), MaxBody})}
	}
	var events []RunEvent
	body = bytes.TrimSpace(body)
	several := len(body) > 0 && body[0] == '['
	if !several {
		body = slices.Concat([]byte{'['}, body, []byte{']'})
	}
	if err := json.Unmarshal(body, &events); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, domain.Invalid(wrong.Field, "The value of %q cannot be of the type %s; see the RunEvent of OpenLineage 2-0-2.", wrong.Field, wrong.Value)
		}
		return nil, domain.Invalid("body", "The body is not JSON: %s.", err)
	}
	if len(events) == 0 {
		return nil, domain.Invalid("body", "There is no event; send one, or an array of them.")
	}
	if len(events) > MaxEvents {
		return nil, domain.Invalid("body", "There are %d events; send at most %d at once.", len(events), MaxEvents)
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

// complete validates the event and parses its time.
func (e *RunEvent) complete(where string, now time.Time) (err error) {
	switch {
	case e.Run == nil && e.Job != nil:
		return domain.Invalid(where+"run", "%srun is missing: only run events (RunEvent) are accepted, no job or dataset events.", where)
	case e.Run == nil:
		return domain.Invalid(where+"run", "%srun is missing; send RunEvents of OpenLineage.", where)
	case e.Job == nil:
		return domain.Invalid(where+"job", "%sjob is missing; give its namespace and its name.", where)
	case !slices.Contains(eventTypes, e.EventType):
		return domain.Invalid(where+"eventType", "%seventType is %q; use START, RUNNING, COMPLETE, FAIL, ABORT or OTHER.", where, e.EventType)
	case !uuidShape.MatchString(e.Run.RunID):
		return domain.Invalid(where+"run.runId", "%srun.runId is %q, which is not a UUID.", where, e.Run.RunID)
	case e.Producer == "" || e.SchemaURL == "":
		return domain.Invalid(where+"producer", "%sproducer and schemaURL are required; give the address of what sends the event, and of the schema that it follows.", where)
	}
	if e.at, err = time.Parse(time.RFC3339Nano, e.EventTime); err != nil {
		return domain.Invalid(where+"eventTime", "%seventTime is %q; write it as 2026-01-31T12:00:00.000Z.", where, e.EventTime)
	}
	if e.at.After(now.Add(maxAhead)) || e.at.Year() < 1970 {
		return domain.Invalid(where+"eventTime", "%seventTime is %s, which is in the future or before 1970; check the clock of its machine.", where, e.EventTime)
	}
	if e.at = e.at.UTC().Truncate(time.Microsecond); e.at.After(now) {
		e.at = now
	}
	if err := e.Job.valid(where + "job"); err != nil {
		return err
	}
	for name, all := range map[string][]RunEventDataset{"inputs": e.Inputs, "outputs": e.Outputs} {
		if len(all) > MaxDatasets {
			return domain.Invalid(where+name, "%s%s has %d datasets; give at most %d.", where, name, len(all), MaxDatasets)
		}
		for i, d := range all {
			at := where + name + "[" + strconv.Itoa(i) + "]"
			if err := d.valid(at); err != nil {
				return err
			}
			if n := len(d.Facets.Symlinks.Identifiers); n > MaxSymlinks {
				return domain.Invalid(at+".facets.symlinks", "%s has %d symlinks; give at most %d.", at, n, MaxSymlinks)
			}
		}
	}
	return nil
}

func (n RunEventName) valid(where string) error {
	if n.Namespace == "" || n.Name == "" {
		return domain.Invalid(where, "%s has no namespace or no name; give both.", where)
	}
	if err := domain.ValidText(where+".namespace", n.Namespace, maxExternalName); err != nil {
		return err
	}
	return domain.ValidText(where+".name", n.Name, maxExternalName)
}

// external returns the external dataset or job of this name.
func (n RunEventName) external(job bool) External {
	prefix := domain.PrefixDataset
	if job {
		prefix = domain.PrefixExternalJob
	}
	sum := sha256.Sum256([]byte(prefix + "\x00" + n.Namespace + "\x00" + n.Name))
	return External{ID: prefix + hex.EncodeToString(sum[:16]), Job: job, Namespace: n.Namespace, Name: n.Name}
}

// lost reports whether the event ends its run without success. Its outputs were then not written.
func (e *RunEvent) lost() bool { return e.EventType == "FAIL" || e.EventType == "ABORT" }

// columns returns the columns of the input that were read, by the event's column lineage.
func (e *RunEvent) columns(input RunEventName) (columns []string) {
	add := func(fields []RunEventField) {
		for _, f := range fields {
			if f.RunEventName == input && f.Field != "" && !slices.Contains(columns, f.Field) {
				columns = append(columns, f.Field)
			}
		}
	}
	for _, out := range e.Outputs {
		for _, f := range out.Facets.ColumnLineage.Fields {
			add(f.InputFields)
		}
		add(out.Facets.ColumnLineage.Dataset)
	}
	slices.Sort(columns)
	return columns
}

// written returns the columns of the output that were written, by its column lineage.
func (d RunEventDataset) written() (columns []string) {
	for name := range d.Facets.ColumnLineage.Fields {
		columns = append(columns, name)
	}
	slices.Sort(columns)
	return columns
}

// snapshot returns the Iceberg snapshot of the dataset; 0 if the event has none.
func (d RunEventDataset) snapshot() int64 {
	id, _ := strconv.ParseInt(d.Facets.Version.DatasetVersion, 10, 64) // other versions are not snapshots
	return max(0, id)
}

// Report stores OpenLineage events. Events from a task's process belong to its run, others to an
// external job. Repeating an event has no effect.
func (l *Lineages) Report(ctx context.Context, s domain.Scope, events []RunEvent) error {
	if err := domain.Authorize(ctx, l.Store, s, domain.LineageReport); err != nil {
		return err
	}
	return l.Store.In(ctx, s, func(tx Tx) error {
		r := &lineageReport{scope: s, catalog: l.CatalogURL, outside: map[string]External{}, at: map[factKey]int{}, lost: map[Source]bool{}}
		if err := r.find(ctx, tx, events); err != nil {
			return err
		}
		for _, e := range events {
			r.addEvent(e)
		}
		if err := tx.RetractLineage(ctx, slices.Collect(maps.Keys(r.lost))); err != nil {
			return err
		}
		if err := tx.InsertLineageFacts(ctx, r.precise()); err != nil {
			return err
		}
		all := slices.SortedFunc(maps.Values(r.outside), func(a, b External) int { return strings.Compare(a.ID, b.ID) }) // in a fixed order, which prevents deadlocks
		if err := tx.SaveExternals(ctx, all, l.Clock.Now()); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.LineageReport, "job", events[0].Job.external(true).ID)
	})
}

// lineageReport collects the facts from the events of one request.
type lineageReport struct {
	scope   domain.Scope
	catalog string
	// named holds our tables by tableKey, once by the database's name and once by its id.
	named   map[string]lake.LineageEntry
	placed  map[string]lake.Table // by location
	outside map[string]External
	facts   []Fact
	at      map[factKey]int // index in facts
	lost    map[Source]bool
}

// factKey identifies a fact. Repeated reports of it are merged.
type factKey struct {
	Actor     domain.Actor
	Direction lake.LineageDirection
	Table     domain.TableID
	Snapshot  int64
}

// find looks up all tables that the events may refer to, in two queries.
func (r *lineageReport) find(ctx context.Context, tx Tx, events []RunEvent) error {
	names, places := map[lake.TableName]bool{}, map[string]bool{}
	for _, e := range events {
		for _, d := range slices.Concat(e.Inputs, e.Outputs) {
			for _, n := range r.names(d) {
				names[n] = true
			}
			if at := location(d.RunEventName); at != "" {
				places[at] = true
			}
		}
	}
	found, err := tx.LakeTablesNamed(ctx, slices.Collect(maps.Keys(names)))
	if err != nil {
		return err
	}
	r.named = make(map[string]lake.LineageEntry, len(found))
	for _, t := range found {
		r.named[TableKey(t.Database, t.Schema, t.Name)] = entryOf(t)
		r.named[TableKey(string(t.DatabaseID), t.Schema, t.Name)] = entryOf(t)
	}
	r.placed, err = tx.LakeTablesAt(ctx, slices.Collect(maps.Keys(places)))
	return err
}

func (r *lineageReport) addEvent(e RunEvent) {
	fact := Fact{Source: strings.ToLower(e.Run.RunID), LineageEntry: lake.LineageEntry{At: e.at, Actor: r.scope.Actor()}}
	if fact.Actor.Kind != domain.ActorRun {
		job := e.Job.external(true)
		r.outside[job.ID] = job
		fact.Process = ProcessID(job.ID)
		fact.Actor = domain.Actor{Kind: ActorExternal, ID: job.ID + "/" + fact.Source, Name: e.Job.Name}
	}
	if e.lost() {
		r.lost[Source{fact.Actor, fact.Source}] = true
	}
	add := func(d RunEventDataset, way lake.LineageDirection, columns []string) {
		f := fact
		entry := r.resolve(d)
		f.TableID, f.Database, f.Schema, f.Name = entry.TableID, entry.Database, entry.Schema, entry.Name
		f.Direction, f.Columns, f.SnapshotID = way, columns, d.snapshot()
		r.add(f)
	}
	for _, d := range e.Inputs {
		add(d, lake.LineageRead, e.columns(d.RunEventName))
	}
	for _, d := range e.Outputs {
		add(d, lake.LineageWritten, d.written())
	}
}

// add adds a fact, or merges it into an earlier one. The store skips outputs of lost runs.
func (r *lineageReport) add(f Fact) {
	key := factKey{f.Actor, f.Direction, f.TableID, f.SnapshotID}
	at, known := r.at[key]
	if !known {
		r.at[key] = len(r.facts)
		r.facts = append(r.facts, f)
		return
	}
	if r.facts[at].Columns == nil {
		r.facts[at].Columns = f.Columns
	}
}

// precise returns the facts without those that repeat another fact but lack its snapshot.
func (r *lineageReport) precise() []Fact {
	with := map[factKey]int{}
	for i, f := range r.facts {
		if f.SnapshotID != 0 {
			with[factKey{f.Actor, f.Direction, f.TableID, 0}] = i
		}
	}
	for _, f := range r.facts {
		if at, better := with[factKey{f.Actor, f.Direction, f.TableID, f.SnapshotID}]; better && r.facts[at].Columns == nil {
			r.facts[at].Columns = f.Columns
		}
	}
	return slices.DeleteFunc(r.facts, func(f Fact) bool {
		_, better := with[factKey{f.Actor, f.Direction, f.TableID, f.SnapshotID}]
		return better
	})
}

// resolve finds our table for a dataset, by its name, its symlinks or its location. If there is
// none, it returns an external dataset.
func (r *lineageReport) resolve(d RunEventDataset) lake.LineageEntry {
	for _, n := range r.names(d) {
		if e, ours := r.named[TableKey(n.Database, n.Schema, n.Name)]; ours {
			return e
		}
	}
	if t, ours := r.placed[location(d.RunEventName)]; ours {
		return entryOf(t)
	}
	out := d.external(false)
	r.outside[out.ID] = out
	return lake.LineageEntry{TableID: domain.TableID(out.ID), Schema: d.Namespace, Name: d.Name}
}

// names returns those names of the dataset, including its symlinks, that may be names of our
// tables.
func (r *lineageReport) names(d RunEventDataset) (names []lake.TableName) {
	for _, n := range append([]RunEventName{d.RunEventName}, d.Facets.Symlinks.Identifiers...) {
		if n.valid("") != nil {
			continue
		}
		if parts := r.parts(n); len(parts) >= 3 {
			last := len(parts) - 1
			names = append(names, lake.TableName{Database: parts[0], Schema: strings.Join(parts[1:last], "."), Name: parts[last]})
		}
	}
	return names
}

func entryOf(t lake.Table) lake.LineageEntry {
	return lake.LineageEntry{TableID: t.ID, Database: t.Database, Schema: t.Schema, Name: t.Name}
}

// otherSystems are the schemes of other systems' namespaces that have names of three parts.
var otherSystems = []string{
	"postgres", "mysql", "mssql", "sqlserver", "oracle", "snowflake", "redshift", "bigquery", "trino", "athena", "awsathena", "db2", "teradata", "kafka", "hive", "glue", "arn",
	"cassandra", "sqlite", "clickhouse", "databricks", "azurecosmos", "synapse", "dremio", "unitycatalog", "jdbc", "mongodb", "cockroach", "duckdb", "spanner", "vertica",
}

// parts splits a name that may be a name of our table: it has three parts or more, and its
// namespace is no other system's. In our catalog's namespace the database may be missing, as in
// Spark's events.
func (r *lineageReport) parts(n RunEventName) []string {
	parts := strings.Split(n.Name, ".")
	ours := strings.TrimSuffix(n.Namespace, "/") == r.catalog
	if ours && len(parts) == 2 {
		return append([]string{lake.DefaultDatabase}, parts...)
	}
	scheme, _, _ := strings.Cut(strings.ToLower(n.Namespace), ":")
	if !ours && slices.Contains(otherSystems, scheme) || slices.Contains(parts, "") {
		return nil
	}
	return parts
}

// location returns the URI of a dataset that is named by its location, as in Spark's events; else
// empty.
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

// TableKey identifies a table by its names, as SQL compares them.
func TableKey(database, schema, name string) string {
	return lake.FoldName(database + "." + schema + "." + name)
}
