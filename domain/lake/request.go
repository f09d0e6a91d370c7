package lake

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// request is a parsed Change. Each try parses it again, since the metadata may keep references to
// what was applied.
type request struct {
	requirements table.Requirements
	updates      table.Updates
	seen         []seenUpdate // the catalog's own view of each update
	erase        *Erasure
}

// seenUpdate is an update as it was parsed. Checks use this form, not the client's text.
type seenUpdate struct {
	Action        string            `json:"action"`
	Location      string            `json:"location"`
	Updates       map[string]string `json:"updates"`
	FormatVersion int               `json:"format-version"`
	Snapshot      *seenSnapshot     `json:"snapshot"`
	RefName       string            `json:"ref-name"`
	SnapshotID    int64             `json:"snapshot-id"`  // of a branch or a tag
	SnapshotIDs   []int64           `json:"snapshot-ids"` // to remove
	RawStatistics struct {
		Path string `json:"statistics-path"`
	} `json:"statistics"`
	RawPartitionStatistics struct {
		Path string `json:"statistics-path"`
	} `json:"partition-statistics"`
}

type seenSnapshot struct {
	ID             int64    `json:"snapshot-id"`
	ManifestList   string   `json:"manifest-list"`
	Manifests      []string `json:"manifests"`
	SequenceNumber int64    `json:"sequence-number"`
	TimestampMs    int64    `json:"timestamp-ms"`
	ParentID       *int64   `json:"parent-snapshot-id"`
	FirstRowID     *int64   `json:"first-row-id"`
	AddedRows      *int64   `json:"added-rows"`
}

func (ch Change) read() (r request, err error) {
	if r.erase = ch.Erase; r.erase.validate() != nil {
		return r, r.erase.validate()
	}
	err = invalid("requirements", func() error {
		if given(ch.Requirements) {
			return json.Unmarshal(ch.Requirements, &r.requirements)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	err = invalid("updates", func() error {
		if !given(ch.Updates) {
			return nil
		}
		if err := json.Unmarshal(ch.Updates, &r.updates); err != nil {
			return err
		}
		understood, err := json.Marshal(r.updates)
		if err != nil {
			return err
		}
		return json.Unmarshal(understood, &r.seen)
	})
	return r, err
}

func (r request) asserts(requirement string) bool {
	return slices.ContainsFunc(r.requirements, func(q table.Requirement) bool { return q.GetType() == requirement })
}

// fenced checks every path in the updates. The location is made canonical by the caller.
func (r request) fenced(f fence) error {
	for _, u := range r.seen {
		if err := f.checkProperties(u.Updates); err != nil {
			return err
		}
		if u.Snapshot != nil {
			if err := f.checkSnapshot(table.Snapshot{ManifestList: u.Snapshot.ManifestList, ManifestLocations: u.Snapshot.Manifests}); err != nil {
				return err
			}
		}
		for _, path := range []string{u.RawStatistics.Path, u.RawPartitionStatistics.Path} {
			if path == "" {
				continue
			}
			if _, err := f.canonical("statistics-path", path); err != nil {
				return err
			}
		}
	}
	return nil
}

// added returns the snapshots that the updates add.
func (r request) added() (all []addedSnapshot) {
	for _, u := range r.seen {
		if u.Snapshot != nil {
			all = append(all, addedSnapshot{u.Snapshot.ManifestList, u.Snapshot.Manifests, u.Snapshot.ParentID})
		}
	}
	return all
}

// properties returns the properties that the updates set.
func (r request) properties() map[string]string {
	all := map[string]string{}
	for _, u := range r.seen {
		maps.Copy(all, u.Updates)
	}
	return all
}

// location is the last location that the updates set, or "".
func (r request) location() (location string) {
	for _, u := range r.seen {
		if u.Action == table.UpdateSetLocation {
			location = u.Location
		}
	}
	return location
}

// wrote returns the snapshots that the updates add, or point branches and tags at. It is 0 alone
// for any other change, such as a change of the schema.
func (r request) wrote() (snapshots []int64) {
	for _, u := range r.seen {
		var id int64
		switch {
		case u.Snapshot != nil:
			id = u.Snapshot.ID
		case u.Action == table.UpdateSetSnapshotRef:
			id = u.SnapshotID
		default:
			continue
		}
		if !slices.Contains(snapshots, id) {
			snapshots = append(snapshots, id)
		}
	}
	if len(snapshots) == 0 {
		return []int64{0}
	}
	return snapshots
}

// maxAhead bounds how far a snapshot's time may be ahead of this server. Later commits must not be
// older.
const maxAhead = 10 * time.Minute

// timely refuses snapshots with a time in the future.
func (r request) timely(now time.Time) error {
	for _, u := range r.seen {
		if u.Snapshot != nil && u.Snapshot.TimestampMs > now.Add(maxAhead).UnixMilli() {
			return domain.Invalid("timestamp-ms", "The snapshot's time is %s, and here it is %s; set the clock of the machine that writes, and write again.",
				time.UnixMilli(u.Snapshot.TimestampMs).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// maxClockSkew is how much older than the table's last change a snapshot may be; iceberg-go refuses
// more.
const maxClockSkew = int64(time.Minute / time.Millisecond)

// current refuses, with CommitFailed, snapshots that were made for an earlier state of the table.
func (r request) current(base table.Metadata) error {
	sequence, row, updated := base.LastSequenceNumber(), base.NextRowID(), base.LastUpdatedMillis()
	for _, u := range r.seen {
		if u.Snapshot == nil {
			continue
		}
		s := u.Snapshot
		switch {
		case base.Version() >= 2 && s.SequenceNumber <= sequence:
			return failed(CommitFailed, "The snapshot has the sequence number %d, and the table is at %d: it was changed meanwhile; read it again, and try again.", s.SequenceNumber, sequence).because(errOvertaken)
		case base.Version() >= 3 && s.FirstRowID != nil && *s.FirstRowID < row:
			return failed(CommitFailed, "The snapshot's first row id is %d, and the table is at %d: it was changed meanwhile; read it again, and try again.", *s.FirstRowID, row).because(errOvertaken)
		case s.TimestampMs < updated-maxClockSkew:
			return failed(CommitFailed, "The snapshot is more than a minute older than the table's last change; see that the clocks are right, read the table again, and try again.")
		}
		sequence, updated = s.SequenceNumber, max(updated, s.TimestampMs)
		if s.FirstRowID != nil && s.AddedRows != nil {
			row = *s.FirstRowID + *s.AddedRows
		}
	}
	return nil
}

// holds returns CommitFailed if a requirement does not hold.
func (r request) holds(base table.Metadata) error {
	for _, q := range r.requirements {
		if err := q.Validate(base); err != nil {
			if overtaken(q, base) {
				err = errors.Join(err, errOvertaken)
			}
			return failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	if err := r.unreferenced(base); err != nil {
		return err
	}
	return r.current(base)
}

// overtaken reports whether a failed requirement names a snapshot that its branch has left behind.
// Other requirements may never have held.
func overtaken(q table.Requirement, base table.Metadata) bool {
	var seen struct {
		Type       string `json:"type"`
		Ref        string `json:"ref"`
		SnapshotID *int64 `json:"snapshot-id"`
	}
	raw, err := json.Marshal(q)
	if err != nil || json.Unmarshal(raw, &seen) != nil || seen.Type != "assert-ref-snapshot-id" || seen.SnapshotID == nil {
		return false
	}
	for name := range base.Refs() {
		if name == seen.Ref {
			return base.SnapshotByID(*seen.SnapshotID) != nil
		}
	}
	return false
}

// unreferenced refuses, with CommitFailed, to remove a snapshot that a branch or tag names after
// all updates. The ref may be newer than the client's decision.
func (r request) unreferenced(base table.Metadata) error {
	if !r.removes() {
		return nil
	}
	named := map[string]int64{}
	for name, ref := range base.Refs() {
		named[name] = ref.SnapshotID
	}
	for _, u := range r.seen {
		switch u.Action {
		case table.UpdateSetSnapshotRef:
			named[u.RefName] = u.SnapshotID
		case table.UpdateRemoveSnapshotRef:
			delete(named, u.RefName)
		}
	}
	for name, id := range named {
		if slices.ContainsFunc(r.seen, func(u seenUpdate) bool {
			return u.Action == table.UpdateRemoveSnapshots && slices.Contains(u.SnapshotIDs, id)
		}) {
			return failed(CommitFailed, "The snapshot %d is to be removed, and the branch or tag %q names it: read the table again, and decide again what to remove.", id, name)
		}
	}
	return nil
}

// creationSteps are the first updates of a new table, each after those that it needs. DuckDB sends
// them in another order.
var creationSteps = []string{
	table.UpdateAssignUUID, table.UpdateUpgradeFormatVersion, table.UpdateAddSchema, table.UpdateSetCurrentSchema, table.UpdateAddSpec, table.UpdateSetDefaultSpec,
	table.UpdateAddSortOrder, table.UpdateSetDefaultSortOrder,
}

// creationOrder is the order in which the updates of a new table are applied.
func (r request) creationOrder() []int {
	step := func(i int) int {
		if at := slices.Index(creationSteps, r.seen[i].Action); at >= 0 {
			return at
		}
		return len(creationSteps)
	}
	order := make([]int, len(r.updates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return step(a) - step(b) })
	return order
}

// changeOrder is the order in which the updates of a table are applied, without its location.
// Snapshots are removed last: refs to them are gone by then, or the request was refused.
func (r request) changeOrder() (order []int) {
	var last []int
	for i, u := range r.seen {
		switch u.Action {
		case table.UpdateSetLocation:
		case table.UpdateRemoveSnapshots:
			last = append(last, i)
		default:
			order = append(order, i)
		}
	}
	return append(order, last...)
}

// create builds the metadata of a new table at the location, and ignores locations in the updates.
func (r request) create(location string) (table.Metadata, error) {
	version := table.DefaultFormatVersion
	for _, u := range r.seen {
		if u.Action == table.UpdateUpgradeFormatVersion {
			version = u.FormatVersion
		}
	}
	builder, err := table.NewMetadataBuilder(version)
	if err != nil {
		return nil, err
	}
	named := false
	for _, i := range r.creationOrder() {
		named = named || r.seen[i].Action == table.UpdateAssignUUID
		if r.seen[i].Action == table.UpdateSetLocation {
			continue
		}
		if err := r.updates[i].Apply(builder); err != nil {
			return nil, err
		}
	}
	if !named {
		if err := builder.SetUUID(uuid.New()); err != nil {
			return nil, err
		}
	}
	if err := builder.SetLoc(location); err != nil {
		return nil, err
	}
	return builder.Build()
}
