package lake

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// maxTries bounds how often a commit is tried whose pointer others have swapped meanwhile.
const maxTries = 20

// Commit changes a table, or makes one with assert-create. CommitFailed when what it requires does not hold, or it lost a race which it cannot be
// repeated for; AlreadyExists for assert-create of what is there; NoSuchWarehouse, NoSuchNamespace, NoSuchTable; CommitStateUnknown; CodeInvalid. A lost
// race is repeated here as long as the requirements hold. Without a key, and of whom no lineage is kept, it takes two round trips and one file written.
func (c *Catalog) Commit(ctx context.Context, s domain.Scope, ch Change, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	return c.onceLoaded(ctx, s, key, func(keep func(domain.Tx, domain.LakeTable) error) (Loaded, error) {
		o, err := c.look(ctx, s, ch)
		if err != nil {
			return Loaded{}, err
		}
		return retried(ctx, c, s, []Change{ch}, func(turns []*turn) (Loaded, error) {
			p, err := c.prepare(ctx, s, ch, o.during(turns[0]))
			o = nil
			if err != nil {
				return Loaded{}, err
			}
			l, err := c.finish(ctx, s, p, keep)
			turns[0].last = l.Table
			return l, err
		})
	})
}

// outlook is a request that was read, and the table as it was found for it. Either serves one try.
type outlook struct {
	request
	row domain.LakeTable
}

// during is the outlook of whoever has the turn: of the table as it was committed meanwhile, if it was. What is refused of that state was to be refused at some
// moment since the request came, so it need not be read anew.
func (o *outlook) during(t *turn) *outlook {
	if o != nil {
		o.row = t.newest(o.row)
	}
	return o
}

// look finds the table before its turn, and refuses what surely does not hold: it would only wait to be refused. It is nil where there is no table, and where it is
// for the turn to say what is wrong.
func (c *Catalog) look(ctx context.Context, s domain.Scope, ch Change) (*outlook, error) {
	r, err := ch.read()
	if err != nil {
		return nil, err
	}
	if r.asserts("assert-create") {
		return nil, nil
	}
	row, err := c.row(ctx, s, ch.Ref, domain.KindTable)
	if err != nil {
		return nil, err
	}
	if d := c.cache.get(row.MetadataLocation); d != nil {
		base, err := d.metadata()
		if err == nil {
			err = r.holds(base)
		}
		if err != nil {
			return nil, err
		}
	}
	return &outlook{r, row}, nil
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
		return retried(ctx, c, s, all, func([]*turn) (nothing, error) { return nothing{}, c.commitAll(ctx, s, all, keep) })
	})
	return err
}

// maxChanges bounds the tables of one transaction.
const maxChanges = 100

func (c *Catalog) commitAll(ctx context.Context, s domain.Scope, all []Change, keep func(domain.Tx, nothing) error) error {
	ready := make([]*prepared, len(all))
	for i, ch := range all {
		var err error
		if ready[i], err = c.prepare(ctx, s, ch, nil); err != nil {
			return err
		}
	}
	// Rows are locked in one order by all. Before them all places in the storage are, and so is the workspace to those who make tables (see swapAll).
	slices.SortFunc(ready, func(a, b *prepared) int { return strings.Compare(string(a.row.ID), string(b.row.ID)) })
	if keep == nil {
		return c.settle(ctx, s, ready, nil)
	}
	return c.settle(ctx, s, ready, func(tx domain.Tx) error { return keep(tx, nothing{}) })
}

// turn is what a change of the table waits its turn for.
func (ch Change) turn(s domain.Scope) string {
	r := ch.Ref
	return strings.Join([]string{string(s.Workspace()), domain.FoldName(r.Database), domain.FoldName(r.Schema), domain.FoldName(r.Name)}, "\x00")
}

// retried tries until the race is won, in turns with others of this process: those of the changes, in their order.
func retried[T any](ctx context.Context, c *Catalog, s domain.Scope, all []Change, try func([]*turn) (T, error)) (T, error) {
	var none T
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(all[a].turn(s), all[b].turn(s)) })
	mine := make([]*turn, len(all))
	for _, i := range order {
		t, done, err := c.turns.take(ctx, all[i].turn(s))
		if err != nil {
			return none, err
		}
		defer done()
		mine[i] = t
	}
	for n := 1; ; n++ {
		got, err := try(mine)
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

// prepare reads the table, unless the outlook has it, checks what the change requires, and makes the new metadata.
func (c *Catalog) prepare(ctx context.Context, s domain.Scope, ch Change, o *outlook) (*prepared, error) {
	f := c.fence(s)
	if o != nil {
		return c.prepareNext(ctx, s, f, o.row, o.request)
	}
	r, err := ch.read()
	if err != nil {
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

// check refuses what must not be in a request, whatever the table.
func (c *Catalog) check(f fence, r request) error {
	if err := r.timely(c.Clock.Now()); err != nil {
		return err
	}
	return r.fenced(f)
}

// prepareNext is a change of a table that is there.
func (c *Catalog) prepareNext(ctx context.Context, s domain.Scope, f fence, row domain.LakeTable, r request) (*prepared, error) {
	if err := c.check(f, r); err != nil {
		return nil, err
	}
	d, err := c.document(ctx, row.MetadataLocation)
	if err != nil {
		return nil, err
	}
	base, err := d.metadata()
	if err != nil {
		return nil, err
	}
	if err := r.holds(base); err != nil {
		return nil, err
	}
	if err := c.ownPaths(ctx, s, row.ID, r.properties()); err != nil {
		return nil, err
	}
	p := &prepared{place: place{fence: f}, old: row.MetadataLocation, action: domain.TableCommit, wrote: r.wrote()}
	location, err := f.elsewhere(r.location(), row.Location)
	if err != nil {
		return nil, err
	}
	meta, err := r.apply(f, base, row, location)
	if err != nil {
		return nil, err
	}
	if meta == nil {
		p.row, p.doc, p.noop = row, d, true
		return p, nil
	}
	if meta.TableUUID() != base.TableUUID() {
		return nil, domain.Invalid("updates", "A table's uuid cannot be changed.")
	}
	next := row
	next.Version++
	if p.moved = location != ""; p.moved {
		next.Location = location
	}
	next.UpdatedBy, next.UpdatedAt = s.Actor(), c.Clock.Now()
	if err := p.follow(next, d, meta, r); err != nil {
		return nil, err
	}
	p.unnamed = unnamed(f, base, meta, p.row)
	return p, nil
}

// elsewhere is the location that a request moves a table or a view to, and empty where it is none, or the one that it has, however that is written.
func (f fence) elsewhere(raw, now string) (string, error) {
	if raw == "" {
		return "", nil
	}
	if location, err := f.directory("location", raw); err != nil || location == now {
		return "", err
	}
	return f.chosen(raw)
}

// apply makes the metadata that follows base, at the location, which is empty for where the table is; nil when nothing changes. Where the table is says its row:
// its file may write that otherwise, and whoever can write to the storage may have changed it.
func (r request) apply(f fence, base table.Metadata, row domain.LakeTable, location string) (meta table.Metadata, err error) {
	if stands, err := f.directory("location", base.Location()); location == "" && (err != nil || stands != row.Location) {
		location = row.Location
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
		if location != "" && (location != row.Location || builder.HasChanges()) {
			if err := builder.SetLoc(location); err != nil {
				return err
			}
		}
		if !builder.HasChanges() {
			return nil
		}
		if !slices.ContainsFunc(r.seen, func(u seenUpdate) bool { return u.Snapshot != nil }) {
			builder.SetLastUpdatedMS()
		}
		meta, err = builder.Build()
		return err
	})
	return meta, err
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
	if err := c.check(c.fence(s), r); err != nil {
		return nil, err
	}
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
	p := &prepared{place: at, action: domain.TableCreate, wrote: r.wrote()}
	if len(p.wrote) == 0 {
		p.wrote = []int64{0}
	}
	return p, p.fill(at.row, meta)
}
