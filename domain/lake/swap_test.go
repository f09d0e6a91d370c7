package lake_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
)

// direct is a store that counts calls, and can lose the answers of swaps.
type direct struct {
	*store.Store
	transactions, finds, swaps atomic.Int32
	lose                       atomic.Bool // the answers of swaps
	late                       atomic.Bool // do not swap, and store the swap in swap
	swap                       func(context.Context) (bool, error)
}

var errTorn = errors.New("local error: tls: bad record MAC")

func (d *direct) In(ctx context.Context, s domain.Scope, fn func(*store.Tx) error) error {
	d.transactions.Add(1)
	return d.Store.In(ctx, s, fn)
}

func (d *direct) FindLakeTable(ctx context.Context, s domain.Scope, database, schema, name string) (lake.Table, error) {
	d.finds.Add(1)
	return d.Store.FindLakeTable(ctx, s, database, schema, name)
}

func (d *direct) SwapLakeTable(ctx context.Context, s domain.Scope, t lake.Table, old string, e domain.AuditEvent) (bool, error) {
	d.swaps.Add(1)
	if d.late.Load() {
		d.swap = func(ctx context.Context) (bool, error) { return d.Store.SwapLakeTable(ctx, s, t, old, e) }
		return false, errTorn
	}
	done, err := d.Store.SwapLakeTable(ctx, s, t, old, e)
	if d.lose.Load() {
		return false, errTorn
	}
	return done, err
}

func (r *rig) direct() (*direct, *lake.Catalog) {
	d := &direct{Store: r.store}
	return d, lake.New(lake.Options{Store: store.For[lake.Tx](d), Quick: d, System: r.store.System(), Files: r.files, Clock: r.clock})
}

func setting(t *testing.T, name, key, value string) lake.Change {
	return lake.Change{Ref: ref("public", name), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{key: value}}})}
}

// TestCommitIsTwoQuestions: the row, and the swap with its audit row. If the swap's answer is lost,
// the outcome is determined.
func TestCommitIsTwoQuestions(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	d, c := r.direct()
	_, err := c.Commit(t.Context(), r.scope, setting(t, "t", "a", "1"), lake.Key{})
	require.NoError(t, err)
	require.Equal(t, [3]int32{0, 1, 1}, [3]int32{d.transactions.Load(), d.finds.Load(), d.swaps.Load()})
	d.lose.Store(true)
	l, err := c.Commit(t.Context(), r.scope, setting(t, "t", "a", "2"), lake.Key{})
	require.NoError(t, err)
	require.Equal(t, l.MetadataLocation, r.load("public", "t").MetadataLocation)
	require.FileExists(t, r.path(l.MetadataLocation))
}

// TestSwapThatComesTooLate: verify reports that a swap with a lost answer did not happen. The late
// swap then fails.
func TestSwapThatComesTooLate(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	d, c := r.direct()
	d.late.Store(true)
	_, err := c.Commit(t.Context(), r.scope, setting(t, "t", "a", "1"), lake.Key{})
	require.ErrorIs(t, err, errTorn)
	require.Empty(t, lake.ReasonOf(err))
	require.Len(t, r.onDisk(), 1, "its file is gone")
	done, err := d.swap(t.Context())
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, made.MetadataLocation, r.load("public", "t").MetadataLocation)
	_, err = r.set("t", "a", "2")
	require.NoError(t, err)
}

// torn is a store that commits transactions with a swap, and then returns an unknown error.
type torn struct{ domain.Store[lake.Tx] }

func (s torn) In(ctx context.Context, scope domain.Scope, fn func(lake.Tx) error) error {
	w := new(watched)
	err := s.Store.In(ctx, scope, func(tx lake.Tx) error {
		w.Tx, w.wrote = tx, false
		return fn(w)
	})
	if err == nil && w.wrote {
		return errTorn
	}
	return err
}

// TestUnknownErrorAtCommit is no refusal: the metadata file stays.
func TestUnknownErrorAtCommit(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	c := lake.New(lake.Options{Store: torn{store.For[lake.Tx](r.store)}, System: r.store.System(), Files: r.files, Clock: r.clock})
	l, err := c.Commit(t.Context(), r.scope, setting(t, "t", "a", "1"), lake.Key{})
	require.NoError(t, err)
	require.Equal(t, l.MetadataLocation, r.load("public", "t").MetadataLocation)
	require.FileExists(t, r.path(l.MetadataLocation))
}

// blocked is a storage whose writes wait for the test.
type blocked struct {
	lake.Files
	writing chan struct{}
	free    chan struct{}
}

func (b *blocked) Write(ctx context.Context, uri string, data []byte) error {
	b.writing <- struct{}{}
	<-b.free
	return b.Files.Write(ctx, uri, data)
}

// TestLoserDoesNotWait: a commit whose requirements do not hold fails at once, even while the table
// is locked.
func TestLoserDoesNotWait(t *testing.T) {
	r := newRig(t)
	h := &blocked{Files: r.files, writing: make(chan struct{}), free: make(chan struct{})}
	r.create("public", "t")
	r.catalog = r.another(h)
	r.load("public", "t") // into memory
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := r.set("t", "a", "1"); err != nil {
			t.Errorf("%v", err)
		}
	})
	<-h.writing
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	loser := setting(t, "t", "a", "2")
	loser.Requirements = raw(t, []any{map[string]any{"type": "assert-current-schema-id", "current-schema-id": 7}})
	_, err := r.catalog.Commit(ctx, r.scope, loser, lake.Key{})
	reason(t, lake.CommitFailed, err)
	close(h.free)
	group.Wait()
}

// TestLocksKnowTheTable: the lock's next holder continues from the last commit, without a query.
func TestLocksKnowTheTable(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	d := &direct{Store: r.store}
	h := &blocked{Files: r.files, writing: make(chan struct{}), free: make(chan struct{})}
	c := lake.New(lake.Options{Store: store.For[lake.Tx](d), Quick: d, System: r.store.System(), Files: h, Clock: r.clock})
	var group sync.WaitGroup
	commit := func(key string) {
		group.Go(func() {
			if _, err := c.Commit(t.Context(), r.scope, setting(t, "t", key, "v"), lake.Key{}); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
	commit("a")
	<-h.writing
	commit("b")
	commit("c")
	for c.Waiting(r.scope, ref("public", "t")) < 3 {
		runtime.Gosched()
	}
	h.free <- struct{}{}
	for range 2 {
		<-h.writing
		h.free <- struct{}{}
	}
	group.Wait()
	require.Equal(t, int32(3), d.finds.Load())
	require.Equal(t, int32(3), d.swaps.Load())
	require.Equal(t, 3, r.load("public", "t").Table.Version)
}

// ordered records the order in which locks are taken.
type ordered struct {
	domain.Store[lake.Tx]
	steps []string
}

func (o *ordered) In(ctx context.Context, s domain.Scope, fn func(lake.Tx) error) error {
	return o.Store.In(ctx, s, func(tx lake.Tx) error { return fn(orderedTx{tx, o}) })
}

type orderedTx struct {
	lake.Tx
	of *ordered
}

func (t orderedTx) LockLocations(ctx context.Context) error {
	t.of.steps = append(t.of.steps, "locations")
	return t.Tx.LockLocations(ctx)
}

func (t orderedTx) SwapLakeTable(ctx context.Context, l lake.Table, old string) (bool, error) {
	t.of.steps = append(t.of.steps, "swap")
	return t.Tx.SwapLakeTable(ctx, l, old)
}

func (t orderedTx) InsertLakeTable(ctx context.Context, l lake.Table, chosen bool) (lake.Inserted, error) {
	t.of.steps = append(t.of.steps, "insert")
	return t.Tx.InsertLakeTable(ctx, l, chosen)
}

// TestPlacesAreLockedFirst: creating or moving a table locks the locations before any row, which
// avoids deadlocks.
func TestPlacesAreLockedFirst(t *testing.T) {
	r := newRig(t)
	r.create("public", "a")
	staged, err := r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "t", Schema: json.RawMessage(twoColumns), Stage: true}, lake.Key{})
	require.NoError(t, err)
	o := &ordered{Store: store.For[lake.Tx](r.store)}
	c := lake.New(lake.Options{Store: o, System: r.store.System(), Files: r.files, Clock: r.clock})
	require.NoError(t, c.CommitAll(t.Context(), r.scope, "lake", []lake.Change{setting(t, "a", "k", "v"), stagedCommit(t, staged)}, lake.Key{}))
	require.Equal(t, "locations", o.steps[0])
	require.ElementsMatch(t, []string{"swap", "insert"}, o.steps[1:])
	o.steps = nil
	moved := lake.Change{Ref: ref("public", "a"), Updates: raw(t, []any{map[string]any{"action": "set-location", "location": r.files.Prefix(r.scope.Workspace()) + "moved/there"}})}
	_, err = c.Commit(t.Context(), r.scope, moved, lake.Key{})
	require.NoError(t, err)
	require.Equal(t, []string{"locations", "swap"}, o.steps)
}

// slow is a store whose naming transaction waits first.
type slow struct {
	domain.Store[lake.Tx]
	before func()
}

func (s slow) In(ctx context.Context, scope domain.Scope, fn func(lake.Tx) error) error {
	return s.Store.In(ctx, scope, func(tx lake.Tx) error { return fn(slowTx{tx, s.before}) })
}

type slowTx struct {
	lake.Tx
	before func()
}

func (t slowTx) RenameLakeTable(ctx context.Context, id domain.TableID, database domain.DatabaseID, schema, name string) (lake.Inserted, error) {
	t.before()
	return t.Tx.RenameLakeTable(ctx, id, database, schema, name)
}

func (t slowTx) UndropLakeTable(ctx context.Context, id domain.TableID) (lake.Inserted, error) {
	t.before()
	return t.Tx.UndropLakeTable(ctx, id)
}

// TestNameIsTakenMeanwhile by a transaction that ends only after the name was looked up.
func TestNameIsTakenMeanwhile(t *testing.T) {
	r := newRig(t)
	id := r.create("public", "u").Table.ID
	require.NoError(t, r.catalog.Drop(t.Context(), r.scope, ref("public", "u"), lake.KindTable, false, lake.Key{}))
	r.create("public", "t")
	other := r.create("public", "x").Table
	for what, rename := range map[string]func(*lake.Catalog) error{
		"rename": func(c *lake.Catalog) error {
			return c.Rename(t.Context(), r.scope, lake.KindTable, ref("public", "t"), ref("public", "u"), lake.Key{})
		},
		"undrop": func(c *lake.Catalog) error {
			_, err := c.Undrop(t.Context(), r.scope, id)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			taken, late := make(chan struct{}), make(chan error, 1)
			var group sync.WaitGroup
			c := lake.New(lake.Options{Store: slow{store.For[lake.Tx](r.store), func() { close(taken); <-late }}, System: r.store.System(), Files: r.files, Clock: r.clock})
			failed := make(chan error, 1)
			group.Go(func() { failed <- rename(c) })
			<-taken
			require.NoError(t, r.store.In(t.Context(), r.scope, func(tx *store.Tx) error {
				_, err := tx.RenameLakeTable(t.Context(), other.ID, other.DatabaseID, "public", "u")
				late <- nil
				require.Eventually(t, r.waits, time.Minute, time.Millisecond)
				return err
			}))
			group.Wait()
			reason(t, lake.AlreadyExists, <-failed)
			require.NoError(t, r.catalog.Rename(t.Context(), r.scope, lake.KindTable, ref("public", "u"), ref("public", "x"), lake.Key{}))
		})
	}
}

// waits reports whether a transaction waits for another one.
func (r *rig) waits() bool {
	n := 0
	err := r.sql.QueryRow(`SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`).Scan(&n)
	require.NoError(r.t, err)
	return n > 0
}
