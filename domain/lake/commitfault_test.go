package lake_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/store"
)

// faulty is a storage that fails on request.
type faulty struct {
	lake.Files
	write  atomic.Pointer[error]
	remove atomic.Pointer[error]
}

func (f *faulty) Write(ctx context.Context, uri string, data []byte) error {
	if err := f.write.Load(); err != nil {
		return *err
	}
	return f.Files.Write(ctx, uri, data)
}

func (f *faulty) Delete(ctx context.Context, uri string) error {
	if err := f.remove.Load(); err != nil {
		return *err
	}
	return f.Files.Delete(ctx, uri)
}

// TestStorageThatFails changes nothing.
func TestStorageThatFails(t *testing.T) {
	r := newRig(t)
	f := &faulty{Files: r.files}
	r.catalog = r.another(f)
	before := r.create("public", "t")
	full := errors.New("the disk is full")
	f.write.Store(&full)
	_, err := r.set("t", "a", "b")
	require.ErrorIs(t, err, full)
	_, err = r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns)}, lake.Key{Key: "k"})
	require.ErrorIs(t, err, full)
	f.write.Store(nil)
	require.Equal(t, before.MetadataLocation, r.load("public", "t").MetadataLocation)
	_, err = r.catalog.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns)}, lake.Key{Key: "k"})
	require.NoError(t, err, "what failed on our side is not kept under the key")
	require.NoError(t, os.Remove(r.path(before.MetadataLocation)))
	_, err = r.another(r.files).Load(t.Context(), r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{})
	reason(t, lake.NoSuchFile, err)
}

// breaking is a store whose commits report no result, whether they succeed or fail.
type breaking struct {
	domain.Store[lake.Tx]
	mode atomic.Int32
}

const (
	modeFine   = iota
	modeDone   // the transaction is committed
	modeUndone // it is not
	modeAway   // it is committed, and then the database stops answering
)

var errAway = domain.Errorf(domain.CodeUnavailable, "The database does not answer.")

func (b *breaking) In(ctx context.Context, s domain.Scope, fn func(lake.Tx) error) error {
	wrote := false
	mode := b.mode.Load()
	err := b.Store.In(ctx, s, func(tx lake.Tx) error {
		if mode == modeAway+1 {
			return errAway
		}
		w := &watched{Tx: tx}
		err := fn(w)
		wrote = w.wrote
		if err == nil && wrote && mode == modeUndone {
			return errAway
		}
		return err
	})
	if wrote && mode == modeAway {
		b.mode.Store(modeAway + 1)
	}
	if err == nil && wrote && mode != modeFine {
		return errAway
	}
	return err
}

// watched observes pointer swaps.
type watched struct {
	lake.Tx
	wrote bool
}

func (w *watched) SwapLakeTable(ctx context.Context, t lake.Table, old string) (bool, error) {
	w.wrote = true
	return w.Tx.SwapLakeTable(ctx, t, old)
}

// TestDatabaseGoneAtCommit: the outcome is determined if possible. If not, the error says so, and
// the new metadata file stays.
func TestDatabaseGoneAtCommit(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	b := &breaking{Store: store.For[lake.Tx](r.store)}
	broken := lake.New(lake.Options{Store: b, System: r.store.System(), Files: r.files, Clock: r.clock})
	set := func(value string) error {
		_, err := broken.Commit(t.Context(), r.scope, lake.Change{
			Ref: ref("public", "t"), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"a": value}}}),
		}, lake.Key{})
		return err
	}
	b.mode.Store(modeDone)
	require.NoError(t, set("1"))
	require.Equal(t, 1, r.load("public", "t").Table.Version)
	b.mode.Store(modeUndone)
	err := set("2")
	code(t, domain.CodeUnavailable, err)
	require.Empty(t, lake.ReasonOf(err), "it is known that nothing happened")
	require.Len(t, r.onDisk(), 2)
	reserve := func(of domain.Actor) {
		for range 3 {
			require.NoError(t, r.store.In(t.Context(), r.scope, func(tx *store.Tx) error {
				return tx.NoteLostRace(t.Context(), r.load("public", "t").Table.ID, of, r.clock.Now(), r.clock.Now().Add(10*time.Second))
			}))
		}
	}
	reservations := func() (n int) {
		require.NoError(t, r.sql.QueryRow(`SELECT count(*) FROM lake_turns WHERE until IS NOT NULL`).Scan(&n))
		return n
	}
	reserve(domain.Actor{Kind: domain.ActorAPIKey, ID: "another"})
	r.clock.move(11 * time.Second)
	err = set("2")
	code(t, domain.CodeUnavailable, err)
	require.Empty(t, lake.ReasonOf(err), "the reservation expired after the last commit")
	require.Len(t, r.onDisk(), 2)
	b.mode.Store(modeFine)
	other := r.as(domain.ActorAPIKey, "other", domain.RoleEditor)
	_, err = r.catalog.Commit(t.Context(), other, lake.Change{
		Ref: ref("public", "t"), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"b": "1"}}}),
	}, lake.Key{})
	require.NoError(t, err)
	reserve(r.scope.Actor())
	b.mode.Store(modeUndone)
	before := reservations()
	err = set("2")
	code(t, domain.CodeUnavailable, err)
	require.Empty(t, lake.ReasonOf(err), "the caller has the reservation, and another writer has committed last")
	require.Equal(t, before, reservations(), "no reservation has ended")
	require.Len(t, r.onDisk(), 3)
	b.mode.Store(modeAway)
	reason(t, lake.CommitStateUnknown, set("3"))
	require.Contains(t, string(r.load("public", "t").Metadata), `"a":"3"`)
	require.Len(t, r.onDisk(), 4)
}

// TestCallerGone: a commit in progress finishes.
func TestCallerGone(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	ctx, cancel := context.WithCancel(t.Context())
	f := &leaving{Files: r.files, leave: cancel}
	_, err := r.another(f).Commit(ctx, r.scope, lake.Change{
		Ref: ref("public", "t"), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"a": "b"}}}),
	}, lake.Key{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, 1, r.load("public", "t").Table.Version)
}

type leaving struct {
	lake.Files
	leave func()
}

func (l *leaving) Write(ctx context.Context, uri string, data []byte) error {
	l.leave()
	return l.Files.Write(ctx, uri, data)
}
