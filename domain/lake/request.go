package lake

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// request is a Change that was read. It is read anew for every try, since what is applied may be kept by what it was applied to.
type request struct {
	requirements table.Requirements
	updates      table.Updates
	seen         []seenUpdate // of each update what the catalog itself looks at
}

// seenUpdate is an update as it was understood, which is what is fenced: not as it was written.
type seenUpdate struct {
	Action        string            `json:"action"`
	Location      string            `json:"location"`
	Updates       map[string]string `json:"updates"`
	FormatVersion int               `json:"format-version"`
	Snapshot      *seenSnapshot     `json:"snapshot"`
	SnapshotID    int64             `json:"snapshot-id"` // of a branch or a tag
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
	FirstRowID     *int64   `json:"first-row-id"`
	AddedRows      *int64   `json:"added-rows"`
}

func (ch Change) read() (r request, err error) {
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

// properties are those that the updates set.
func (r request) properties() map[string]string {
	all := map[string]string{}
	for _, u := range r.seen {
		maps.Copy(all, u.Updates)
	}
	return all
}

// location is the last one that the updates set, or empty.
func (r request) location() (location string) {
	for _, u := range r.seen {
		if u.Action == table.UpdateSetLocation {
			location = u.Location
		}
	}
	return location
}

// wrote are the snapshots that the updates add, and those that they lead branches and tags to, on main or not.
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
	return snapshots
}

// maxAhead is how far ahead of this server a snapshot's time may be: the commits after it must not be older.
const maxAhead = 10 * time.Minute

// timely refuses snapshots of a time that is to come.
func (r request) timely(now time.Time) error {
	for _, u := range r.seen {
		if u.Snapshot != nil && u.Snapshot.TimestampMs > now.Add(maxAhead).UnixMilli() {
			return domain.Invalid("timestamp-ms", "The snapshot's time is %s, and here it is %s; set the clock of the machine that writes, and write again.",
				time.UnixMilli(u.Snapshot.TimestampMs).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// maxClockSkew is how much older than the table's last change a snapshot may be; iceberg-go refuses more.
const maxClockSkew = int64(time.Minute / time.Millisecond)

// current refuses, with CommitFailed, snapshots that were made for a state which the table has left behind.
func (r request) current(base table.Metadata) error {
	sequence, row, updated := base.LastSequenceNumber(), base.NextRowID(), base.LastUpdatedMillis()
	for _, u := range r.seen {
		if u.Snapshot == nil {
			continue
		}
		s := u.Snapshot
		switch {
		case base.Version() >= 2 && s.SequenceNumber <= sequence:
			return failed(CommitFailed, "The snapshot has the sequence number %d, and the table is at %d: it was changed meanwhile; read it again, and try again.", s.SequenceNumber, sequence)
		case base.Version() >= 3 && s.FirstRowID != nil && *s.FirstRowID < row:
			return failed(CommitFailed, "The snapshot's first row id is %d, and the table is at %d: it was changed meanwhile; read it again, and try again.", *s.FirstRowID, row)
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

// holds says that what the request requires is so.
func (r request) holds(base table.Metadata) error {
	for _, q := range r.requirements {
		if err := q.Validate(base); err != nil {
			return failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	return r.current(base)
}

// creationSteps are what a new table has before all else, each of them what those after it stand on. DuckDB sends them in another order.
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

// create makes the metadata of a new table. The location is the one given, whatever the updates say.
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
