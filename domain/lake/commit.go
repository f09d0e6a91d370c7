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

// maxTries bounds the tries of a commit that keeps losing the race for the pointer.
const maxTries = 20

// Commit changes a table, or creates one with assert-create. CommitFailed when a requirement does
// not hold or a lost race cannot be repeated; AlreadyExists when assert-create finds a table;
// NoSuchWarehouse, NoSuchNamespace, NoSuchTable; CommitStateUnknown; CodeInvalid. A lost race is
// repeated here while the requirements hold. A commit without key and lineage takes two round trips
// and writes one file.
func (c *Catalog) Commit(ctx context.Context, s domain.Scope, ch Change, key Key) (Loaded, error) {
	if err := c.mayWrite(ctx, s); err != nil {
		return Loaded{}, err
	}
	l, err := c.onceLoaded(ctx, s, key, func(record func(Tx, Table) error) (Loaded, error) {
		o, err := c.look(ctx, s, ch)
		if err != nil {
			return Loaded{}, err
		}
		return retried(ctx, c, s, []Change{ch}, func(locks []*tableLock) (Loaded, error) {
			p, err := c.prepare(ctx, s, ch, o.refresh(locks[0]))
			o = nil
			if err != nil {
				return Loaded{}, err
			}
			l, err := c.finish(ctx, s, p, record)
			locks[0].last = l.Table
			return l, err
		})
	})
	c.lostRace(ctx, s, []Change{ch}, err)
	return l, err
}

// preparedRead is a parsed request with the table's row. It serves one try.
type preparedRead struct {
	request
	row Table
}

// refresh replaces the row by the one that the lock's previous holder committed. A requirement that
// fails on that state has failed since the request arrived, so the request need not be parsed
// again.
func (o *preparedRead) refresh(l *tableLock) *preparedRead {
	if o != nil {
		o.row = l.newest(o.row)
	}
	return o
}

// look reads the request and the table before the table lock is taken. So a commit that cannot
// succeed does not wait. It returns nil for assert-create, which is checked under the lock.
func (c *Catalog) look(ctx context.Context, s domain.Scope, ch Change) (*preparedRead, error) {
	r, err := ch.read()
	if err != nil {
		return nil, err
	}
	if r.asserts("assert-create") {
		return nil, nil
	}
	row, err := c.row(ctx, s, ch.Ref, KindTable)
	if err != nil {
		return nil, err
	}
	if d := c.cache.get(stateOf(row)); d != nil {
		base, err := d.metadata()
		if err == nil {
			err = r.holds(base)
		}
		if err == nil { // saves reading them under the lock
			err = c.checkManifests(ctx, s, base, r.added())
		}
		if err != nil {
			return nil, err
		}
	}
	return &preparedRead{r, row}, nil
}

// CommitAll changes several tables in one transaction. It sets each Ref's Database to database. A
// table may be named once. Errors are those of Commit.
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
		if name := all[i].lockName(s); named[name] {
			return domain.Invalid("table-changes", "The transaction names the table %q twice; put its changes together.", all[i].Ref.Name)
		} else {
			named[name] = true
		}
	}
	_, err := once(ctx, c, s, key, func(record func(Tx, nothing) error) (nothing, error) {
		return retried(ctx, c, s, all, func([]*tableLock) (nothing, error) { return nothing{}, c.commitAll(ctx, s, all, record) })
	})
	c.lostRace(ctx, s, all, err)
	return err
}

// maxChanges bounds the tables of one transaction.
const maxChanges = 100

func (c *Catalog) commitAll(ctx context.Context, s domain.Scope, all []Change, record func(Tx, nothing) error) error {
	ready := make([]*prepared, len(all))
	for i, ch := range all {
		var err error
		if ready[i], err = c.prepare(ctx, s, ch, nil); err != nil {
			return err
		}
	}
	// All transactions lock rows in the same order. Locations are locked before rows, and so is the
	// workspace when tables are created (see swapAll).
	slices.SortFunc(ready, func(a, b *prepared) int { return strings.Compare(string(a.row.ID), string(b.row.ID)) })
	if record == nil {
		return c.finalize(ctx, s, ready, nil)
	}
	return c.finalize(ctx, s, ready, func(tx Tx) error { return record(tx, nothing{}) })
}

// lockName names the lock of the changed table within this process.
func (ch Change) lockName(s domain.Scope) string {
	r := ch.Ref
	return strings.Join([]string{string(s.Workspace()), FoldName(r.Database), FoldName(r.Schema), FoldName(r.Name)}, "\x00")
}

// retried tries until the race is won. During a try it holds the locks of the changed tables, in
// their order.
func retried[T any](ctx context.Context, c *Catalog, s domain.Scope, all []Change, try func([]*tableLock) (T, error)) (T, error) {
	var none T
	mine, done, err := c.lockTables(ctx, s, all)
	if err != nil {
		return none, err
	}
	defer func() { done() }()
	until := time.Now().Add(reservedTime)
	for n := 1; ; n++ {
		got, err := try(mine)
		if !errors.Is(err, errLost) {
			return got, err
		}
		if n == maxTries {
			return none, failed(CommitFailed, "The table was changed by others each of the %d times that the commit was tried; try again.", maxTries).because(errOvertaken)
		}
		done()
		done = func() {}
		if err := c.awaitReservation(ctx, s, all, until); err != nil {
			return none, err
		}
		if err := pause(ctx, n); err != nil {
			return none, err
		}
		if mine, done, err = c.lockTables(ctx, s, all); err != nil {
			done = func() {}
			return none, err
		}
	}
}

// lockTables waits for the tables' locks within this process, in one order for all callers.
func (c *Catalog) lockTables(ctx context.Context, s domain.Scope, all []Change) (mine []*tableLock, done func(), err error) {
	var releases []func()
	done = func() {
		for _, release := range slices.Backward(releases) {
			release()
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(all[a].lockName(s), all[b].lockName(s)) })
	mine = make([]*tableLock, len(all))
	for _, i := range order {
		t, release, err := c.locks.lock(ctx, all[i].lockName(s))
		if err != nil {
			done()
			return nil, nil, err
		}
		releases = append(releases, release)
		mine[i] = t
	}
	return mine, done, nil
}

// pause waits a random time that grows with the number of tries.
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

// prepare reads the table unless o has it, checks the requirements, and builds the new metadata.
func (c *Catalog) prepare(ctx context.Context, s domain.Scope, ch Change, o *preparedRead) (*prepared, error) {
	f := c.fence(s)
	if o != nil {
		return c.prepareNext(ctx, s, f, o.row, o.request)
	}
	r, err := ch.read()
	if err != nil {
		return nil, err
	}
	row, err := c.row(ctx, s, ch.Ref, KindTable)
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

// check refuses content that no request may have, whatever the table.
func (c *Catalog) check(f fence, r request) error {
	if err := r.timely(c.Clock.Now()); err != nil {
		return err
	}
	return r.fenced(f)
}

// prepareNext prepares a change of an existing table.
func (c *Catalog) prepareNext(ctx context.Context, s domain.Scope, f fence, row Table, r request) (*prepared, error) {
	if err := c.check(f, r); err != nil {
		return nil, err
	}
	d, err := c.document(ctx, stateOf(row))
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
	p := &prepared{target: target{fence: f}, old: stateOf(row), action: domain.TableCommit, wrote: r.wrote(), erase: r.erase}
	location, err := f.elsewhere(r.location(), row.Location)
	if err != nil {
		return nil, err
	}
	if err := c.checkManifests(ctx, s, base, r.added()); err != nil {
		return nil, err
	}
	dirs, err := f.choices(location, r.properties())
	if err != nil {
		return nil, err
	}
	if err := c.vacant(ctx, s, row.ID, dirs); err != nil {
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

// elsewhere returns the canonical location to which a request moves a table or view. It is empty if
// raw is empty or another spelling of the current location.
func (f fence) elsewhere(raw, now string) (string, error) {
	if raw == "" {
		return "", nil
	}
	if location, err := f.directory("location", raw); err != nil || location == now {
		return "", err
	}
	return f.chosen(raw)
}

// apply builds the metadata that follows base, or nil when nothing changes. An empty location means
// the current one, which the row defines. The file may spell it differently, or a writer to the
// storage may have changed it.
func (r request) apply(f fence, base table.Metadata, row Table, location string) (meta table.Metadata, err error) {
	if stands, err := f.directory("location", base.Location()); location == "" && (err != nil || stands != row.Location) {
		location = row.Location
	}
	err = invalid("updates", func() error {
		builder, err := table.MetadataBuilderFromBase(base, row.MetadataLocation)
		if err != nil {
			return err
		}
		for _, i := range r.changeOrder() {
			if err := r.updates[i].Apply(builder); err != nil {
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

// unnamed returns the table's own metadata files that next no longer names, if its properties ask
// to delete them.
func unnamed(f fence, base, next table.Metadata, row Table) (files []string) {
	if !next.Properties().GetBool(table.MetadataDeleteAfterCommitEnabledKey, true) || row.Registered {
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

// prepareNew prepares a table that a commit creates. If its directories were not staged, the owner
// of their files is unknown, and the table is marked registered.
func (c *Catalog) prepareNew(ctx context.Context, s domain.Scope, ch Change, r request) (*prepared, error) {
	if err := c.check(c.fence(s), r); err != nil {
		return nil, err
	}
	for _, q := range r.requirements {
		if err := q.Validate(nil); err != nil {
			return nil, failed(CommitFailed, "The commit requires what does not hold: %s.", err).because(err)
		}
	}
	at, err := c.newTarget(ctx, s, ch.Ref, KindTable, r.location())
	if err != nil {
		return nil, err
	}
	dirs, err := at.fence.choices(at.row.Location, r.properties())
	if err != nil {
		return nil, err
	}
	dirs = at.chosenOf(dirs)
	if _, err := c.foreign(ctx, s, dirs, at.row.ID); err != nil {
		return nil, err
	}
	staged, err := c.staged(ctx, s, dirs)
	if err != nil {
		return nil, err
	}
	at.row.Registered, at.staged = !staged, dirs
	if err := c.checkManifests(ctx, s, nil, r.added()); err != nil {
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
	p := &prepared{target: at, action: domain.TableCreate, wrote: r.wrote()}
	return p, p.fill(at.row, meta)
}
