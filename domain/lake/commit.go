package lake

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/millpond/millpond/domain"
)

// maxTries bounds how often a commit is tried whose pointer others have swapped meanwhile.
const maxTries = 20

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

// Commit changes a table, or makes one with assert-create. CommitFailed when what it requires does not hold, or it lost a race which it cannot be
// repeated for; AlreadyExists for assert-create of what is there; NoSuchWarehouse, NoSuchNamespace, NoSuchTable; CommitStateUnknown; CodeInvalid. A lost
// race is repeated here as long as the requirements hold. It takes five round trips, and one file written.
func (c *Catalog) Commit(ctx context.Context, s domain.Scope, ch Change, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(keep func(domain.Tx, domain.LakeTable) error) (Loaded, error) {
		return retried(ctx, c, s, []Change{ch}, func() (Loaded, error) {
			p, err := c.prepare(ctx, s, ch)
			if err != nil {
				return Loaded{}, err
			}
			return c.finish(ctx, s, p, keep)
		})
	})
}

// CommitAll changes several tables, all of them or none. Each Ref's database is the one given. Errors are those of Commit; a table may be named once.
func (c *Catalog) CommitAll(ctx context.Context, s domain.Scope, database string, all []Change, key Key) error {
	if err := c.mayWrite(ctx, s); err != nil {
		return err
	}
	if len(all) > maxChanges {
		return domain.Invalid("table-changes", "The transaction changes %d tables; use at most %d.", len(all), maxChanges)
	}
	all = slices.Clone(all)
	named := map[string]bool{}
	for i := range all {
		all[i].Ref.Database = database
		if name := all[i].turn(s); named[name] {
			return domain.Invalid("table-changes", "The transaction names the table %q twice; put its changes together.", all[i].Ref.Name)
		} else {
			named[name] = true
		}
	}
	_, err := once(ctx, c, s, key, func(keep func(domain.Tx, nothing) error) (nothing, error) {
		return retried(ctx, c, s, all, func() (nothing, error) { return nothing{}, c.commitAll(ctx, s, all, keep) })
	})
	return err
}

// maxChanges bounds the tables of one transaction.
const maxChanges = 100

func (c *Catalog) commitAll(ctx context.Context, s domain.Scope, all []Change, keep func(domain.Tx, nothing) error) error {
	ready := make([]*prepared, len(all))
	for i, ch := range all {
		var err error
		if ready[i], err = c.prepare(ctx, s, ch); err != nil {
			return err
		}
	}
	// Rows are locked in one order by all, and places of new tables before them.
	slices.SortFunc(ready, func(a, b *prepared) int { return strings.Compare(string(a.row.ID), string(b.row.ID)) })
	return c.settle(ctx, s, ready, func(tx domain.Tx) error { return keep(tx, nothing{}) })
}

// turn is what a change of the table waits its turn for.
func (ch Change) turn(s domain.Scope) string {
	r := ch.Ref
	return strings.Join([]string{string(s.Workspace()), domain.FoldName(r.Database), domain.FoldName(r.Schema), domain.FoldName(r.Name)}, "\x00")
}

// retried tries until the race is won, in turns with others of this process.
func retried[T any](ctx context.Context, c *Catalog, s domain.Scope, all []Change, try func() (T, error)) (T, error) {
	var none T
	names := make([]string, len(all))
	for i, ch := range all {
		names[i] = ch.turn(s)
	}
	slices.Sort(names)
	for _, name := range names {
		done, err := c.turns.take(ctx, name)
		if err != nil {
			return none, err
		}
		defer done()
	}
	for n := 1; ; n++ {
		got, err := try()
		if !errors.Is(err, errLost) {
			return got, err
		}
		if n == maxTries {
			return none, failed(CommitFailed, "The table was changed by others each of the %d times that the commit was tried; try again.", maxTries)
		}
		if err := pause(ctx, n); err != nil {
			return none, err
		}
	}
}

// pause waits a moment that grows with the tries, and that is another one for everybody.
func pause(ctx context.Context, n int) error {
	timer := time.NewTimer(rand.N(time.Duration(min(n, 10)) * 5 * time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare reads the table, checks what the change requires, and makes the new metadata.
func (c *Catalog) prepare(ctx context.Context, s domain.Scope, ch Change) (*prepared, error) {
	r, err := ch.read()
	if err != nil {
		return nil, err
	}
	f := c.fence(s)
	if err := r.fenced(f); err != nil {
		return nil, err
	}
	row, err := c.row(ctx, s, ch.Ref, domain.KindTable)
	creates := r.asserts("assert-create")
	switch {
	case err == nil && creates:
		return nil, exists(ch.Ref.Name)
	case ReasonOf(err) == NoSuchTable && creates:
		return c.prepareNew(ctx, s, ch, r)
	case err != nil:
		return nil, err
	}
	return c.prepareNext(ctx, s, f, row, r)
}

// prepareNext is a change of a table that is there.
func (c *Catalog) prepareNext(ctx context.Context, s domain.Scope, f fence, row domain.LakeTable, r request) (*prepared, error) {
	d, err := c.document(ctx, row.MetadataLocation)
	if err != nil {
		return nil, err
	}
	base, err := d.metadata()
	if err != nil {
		return nil, err
	}
	for _, q := range r.requirements {
		if err := q.Validate(base); err != nil {
			return nil, failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	if err := r.current(base); err != nil {
		return nil, err
	}
	if err := c.ownPaths(ctx, s, row.ID, r.properties()); err != nil {
		return nil, err
	}
	p := &prepared{place: place{fence: f}, old: row.MetadataLocation, action: domain.TableCommit}
	meta, changed, err := r.apply(f, base, row)
	if err != nil {
		return nil, err
	}
	if !changed {
		p.row, p.doc, p.noop = row, d, true
		return p, nil
	}
	if meta.TableUUID() != base.TableUUID() {
		return nil, domain.Invalid("updates", "A table's uuid cannot be changed.")
	}
	next := row
	next.Version++
	next.Location = meta.Location()
	next.UpdatedBy, next.UpdatedAt = s.Actor(), c.Clock.Now()
	p.moved = next.Location != row.Location
	if err := p.follow(next, d, meta, r); err != nil {
		return nil, err
	}
	p.wrote = p.row.Snapshot != nil && (row.Snapshot == nil || p.row.Snapshot.ID != row.Snapshot.ID)
	p.unnamed = unnamed(f, base, meta, p.row)
	return p, nil
}

// apply makes the metadata that follows base.
func (r request) apply(f fence, base table.Metadata, row domain.LakeTable) (meta table.Metadata, changed bool, err error) {
	location := ""
	if raw := r.location(); raw != "" && strings.TrimRight(raw, "/") != row.Location {
		if location, err = f.chosen(raw); err != nil {
			return nil, false, err
		}
	}
	err = invalid("updates", func() error {
		builder, err := table.MetadataBuilderFromBase(base, row.MetadataLocation)
		if err != nil {
			return err
		}
		for i, u := range r.updates {
			if r.seen[i].Action == table.UpdateSetLocation {
				continue
			}
			if err := u.Apply(builder); err != nil {
				return err
			}
		}
		if location != "" && location != row.Location {
			if err := builder.SetLoc(location); err != nil {
				return err
			}
		}
		if changed = builder.HasChanges(); !changed {
			return nil
		}
		if !slices.ContainsFunc(r.seen, func(u seenUpdate) bool { return u.Snapshot != nil }) {
			builder.SetLastUpdatedMS()
		}
		meta, err = builder.Build()
		return err
	})
	return meta, changed, err
}

// unnamed are the metadata files that the new metadata no longer names and the table's properties say are to go then: those of its own.
func unnamed(f fence, base, next table.Metadata, row domain.LakeTable) (files []string) {
	if !next.Properties().GetBool(table.MetadataDeleteAfterCommitEnabledKey, table.MetadataDeleteAfterCommitEnabledDefault) || row.Registered {
		return nil
	}
	named := map[string]bool{}
	for e := range next.PreviousFiles() {
		named[e.MetadataFile] = true
	}
	for e := range base.PreviousFiles() {
		file, err := f.canonical("metadata-log", e.MetadataFile)
		if !named[e.MetadataFile] && err == nil && inside(file, row.Location) && strings.HasSuffix(file, ".metadata.json") {
			files = append(files, file)
		}
	}
	return files
}

// prepareNew is a table that a commit makes, from nothing.
func (c *Catalog) prepareNew(ctx context.Context, s domain.Scope, ch Change, r request) (*prepared, error) {
	for _, q := range r.requirements {
		if err := q.Validate(nil); err != nil {
			return nil, failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	at, err := c.newPlace(ctx, s, ch.Ref, domain.KindTable, r.location())
	if err != nil {
		return nil, err
	}
	if err := c.ownPaths(ctx, s, at.row.ID, r.properties()); err != nil {
		return nil, err
	}
	var meta table.Metadata
	err = invalid("updates", func() error {
		meta, err = r.create(at.row.Location)
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &prepared{place: at, action: domain.TableCreate, wrote: true}
	return p, p.fill(at.row, meta)
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
