package store_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

var errMine = errors.New("mine")

// openTransactions counts the tenant role's open transactions in this test's database.
const openTransactions = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
	AND state LIKE 'idle in transaction%'`

func TestInCommitsAndRollsBack(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	insert := func(tx *store.Tx, key string) error {
		_, _, _, err := tx.ClaimKey(ctx, "test", key, []byte("hash"))
		return err
	}
	claimed := func(key string) (there bool) {
		in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) error {
			fresh, _, _, err := tx.ClaimKey(ctx, "test", key, []byte("hash"))
			there = !fresh
			return err
		})
		return there
	}
	require.NoError(t, w.store.In(ctx, w.admin, func(tx *store.Tx) error { return insert(tx, "kept") }))
	require.True(t, claimed("kept"))
	err := w.store.In(ctx, w.admin, func(tx *store.Tx) error { return errors.Join(insert(tx, "undone"), errMine) })
	require.ErrorIs(t, err, errMine)
	require.False(t, claimed("undone"))

	require.Panics(t, func() {
		_ = w.store.In(ctx, w.admin, func(tx *store.Tx) error { _ = insert(tx, "panic"); panic("a bug") })
	})
	require.False(t, claimed("panic"))
}

// TestAFailureThatIsPassedOverDoesNotCommit: PostgreSQL answers COMMIT after a failed statement
// with a rollback and no error.
func TestAFailureThatIsPassedOverDoesNotCommit(t *testing.T) {
	w := newTenant(t, open(t), "one")
	for name, notify := range map[string]func(*store.Tx){"with": func(tx *store.Tx) { tx.Notify("x") }, "without": func(*store.Tx) {}} {
		err := w.store.In(t.Context(), w.admin, func(tx *store.Tx) error {
			notify(tx)
			_, _, _, err := tx.ClaimKey(t.Context(), "a\x00b", "k", nil)
			require.Error(t, err)
			return nil
		})
		require.Error(t, err, "%s notifications", name)
	}
}

func TestACancelledRequestLeavesNothingOpen(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	j := w.job(job.Spec{Command: "true"})
	read := func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.LockJob(ctx, j.ID)
		return err
	}
	for moment, do := range map[string]func(context.Context, func()) error{
		"before": func(ctx context.Context, cancel func()) error {
			cancel()
			return s.In(ctx, w.admin, func(tx *store.Tx) error { return read(ctx, tx) })
		},
		"between": func(ctx context.Context, cancel func()) error {
			return s.In(ctx, w.admin, func(tx *store.Tx) error {
				require.NoError(t, read(ctx, tx))
				cancel()
				return read(ctx, tx)
			})
		},
		"before the commit": func(ctx context.Context, cancel func()) error {
			return s.In(ctx, w.admin, func(tx *store.Tx) error {
				err := read(ctx, tx)
				cancel()
				return err
			})
		},
		"in a statement": func(ctx context.Context, cancel func()) error {
			held, release := make(chan struct{}), make(chan struct{})
			var holder sync.WaitGroup
			holder.Go(func() {
				_ = s.In(context.Background(), w.admin, func(tx *store.Tx) error {
					err := read(context.Background(), tx)
					close(held)
					<-release
					return err
				})
			})
			<-held
			var waits sync.WaitGroup
			waits.Go(func() {
				untilSomebodyWaits(t, db)
				cancel()
			})
			err := s.In(ctx, w.admin, func(tx *store.Tx) error { return read(ctx, tx) })
			close(release)
			holder.Wait()
			waits.Wait()
			return err
		},
	} {
		t.Run(moment, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := do(ctx, cancel); moment != "before the commit" || err != nil { // a commit may be faster than the cancellation
				require.ErrorIs(t, err, context.Canceled)
			}
			require.Eventually(t, func() bool { return count(t, db, openTransactions) == 0 }, time.Minute, 10*time.Millisecond)
			for range 30 { // on any connection of the pool
				in(t, s, w.admin, read)
			}
		})
	}
}

func untilSomebodyWaits(t *testing.T, db *sql.DB) {
	assert.Eventually(t, func() bool {
		var n int
		err := db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n > 0
	}, time.Minute, 5*time.Millisecond)
}

// TestAConnectionThatIsKilled in the middle of a transaction is a retryable error, and is not used
// again.
func TestAConnectionThatIsKilled(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	kill := func() {
		execute(t, db, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND query NOT LIKE 'LISTEN%'`)
	}
	err := s.In(t.Context(), w.admin, func(tx *store.Tx) error {
		if _, _, _, err := tx.ClaimKey(t.Context(), "test", "k", []byte("h")); err != nil {
			return err
		}
		kill()
		_, err := tx.Workspace(t.Context())
		return err
	})
	require.Equal(t, domain.CodeUnavailable, code(err), "%v", err)
	err = s.In(t.Context(), w.admin, func(*store.Tx) error { kill(); return nil })
	require.Equal(t, domain.CodeUnavailable, code(err), "in the commit: %v", err)
	for range 30 {
		in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Workspace(ctx)
			return err
		})
	}
	require.Zero(t, count(t, db, `SELECT count(*) FROM idempotency_keys`))
	require.Zero(t, count(t, db, openTransactions))
}

// TestADatabaseThatRestarts is unavailable meanwhile, and then answers every request: connections
// that broke while idle cause no error.
func TestADatabaseThatRestarts(t *testing.T) {
	for name, restart := range map[string]func(testing.TB){"Restart": storetest.Restart, "Kill": storetest.Kill} {
		t.Run(name, func(t *testing.T) {
			w := newTenant(t, open(t), "one")
			ctx := t.Context()
			w.fill(24)
			err := w.store.In(ctx, w.admin, func(tx *store.Tx) error {
				restart(t)
				_, err := tx.Workspace(ctx)
				return err
			})
			require.Equal(t, domain.CodeUnavailable, code(err), "%v", err)
			for range 60 {
				_, err := w.services.Workspaces.Get(ctx, w.admin)
				require.NoError(t, err)
			}
			_, err = w.auth.Login(ctx, auth.Login{Email: "one@example.com", Password: password})
			require.NoError(t, err)
		})
	}
}

// fill opens n connections of the pool and leaves them idle.
func (w *tenant) fill(n int) {
	var all, ready sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			_ = w.store.In(context.Background(), w.admin, func(*store.Tx) error {
				ready.Done()
				ready.Wait()
				return nil
			})
		})
	}
	all.Wait()
}

// TestDeadlocksAreTriedAgain: two transactions that take two locks in opposite orders both succeed.
func TestDeadlocksAreTriedAgain(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	a, b := w.job(job.Spec{Command: "a"}).ID, w.job(job.Spec{Command: "b"}).ID
	var met sync.WaitGroup
	met.Add(2)
	tries := make(chan int, 10)
	lock := func(first, second domain.JobID) error {
		try := 0
		return w.store.In(ctx, w.admin, func(tx *store.Tx) error {
			try++
			tries <- try
			if _, err := tx.LockJob(ctx, first); err != nil {
				return err
			}
			if try == 1 {
				met.Done()
				met.Wait()
			}
			_, err := tx.LockJob(ctx, second)
			return err
		})
	}
	errs := make(chan error, 2)
	go func() { errs <- lock(a, b) }()
	go func() { errs <- lock(b, a) }()
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.GreaterOrEqual(t, len(tries), 3, "one of the two was run again")
}

func TestNULBytesAreTheCallersMistake(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	for name, err := range map[string]error{
		"an id":           second(w.services.Jobs.Get(ctx, w.admin, "job_\x00")),
		"not UTF-8":       second(w.services.Jobs.Get(ctx, w.admin, "job_\xff")),
		"ids":             second(w.services.Jobs.ByID(ctx, w.admin, []domain.JobID{"\x00"})),
		"a filter":        second(w.services.Runs.List(ctx, w.admin, job.RunFilter{JobID: "\x00"}, domain.Page{})),
		"a search":        second(w.services.Jobs.List(ctx, w.admin, job.Filter{Search: "\x00"}, domain.Page{})),
		"a key":           second(w.services.Jobs.Create(ctx, w.admin, job.NewJob{Name: "x"}, domain.Idempotency{Key: "\x00"})),
		"a command":       second(w.services.Jobs.Create(ctx, w.admin, job.NewJob{Name: "x", Spec: job.Spec{Command: "\x00"}}, domain.Idempotency{})),
		"a member's name": second(w.services.Quotas.Update(ctx, w.admin, "max\x00", new(int64(1)))),
	} {
		require.Contains(t, []domain.Code{domain.CodeInvalid, domain.CodeNotFound}, code(err), "%s: %v", name, err)
	}
	_, err := w.auth.Bearer(ctx, "svc_sk_\x00")
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	_, err = w.auth.Bearer(ctx, "\x00\xff")
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	_, err = w.auth.Login(ctx, auth.Login{Email: "a\x00@b", Password: "\x00"})
	require.Equal(t, domain.CodeInvalid, code(err))
}

func second[T any](_ T, err error) error { return err }
