package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/store"
)

const partitions = `SELECT count(*) FROM pg_inherits WHERE inhparent = 'log_chunks'::regclass`

// TestPartitionsOfTheComingDays exist a week ahead. Past ones are dropped when they are sealed.
func TestPartitionsOfTheComingDays(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	require.Equal(t, 9, count(t, db, partitions), "yesterday, today and seven days")
	require.Zero(t, count(t, db, `SELECT count(*) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'log_chunks'::regclass
		AND NOT c.relrowsecurity`))
	for range 3 {
		require.NoError(t, w.system.Housekeep(ctx, w.clock.Now()))
	}
	require.Equal(t, 9, count(t, db, partitions))
	require.Equal(t, map[domain.Code]int{"": 5}, atOnce(5, func(int) error { return w.system.Housekeep(context.Background(), w.clock.Now().AddDate(0, 0, 1)) }))
	require.Equal(t, 10, count(t, db, partitions))
	require.NoError(t, w.system.Housekeep(ctx, w.clock.Now().AddDate(0, 0, 30)))
	require.Equal(t, 9, count(t, db, partitions), "a month later nothing of this week is left")
}

// TestNoPartitionIsDroppedThatIsNeeded: not while an attempt of that day runs, and not before its
// log is sealed.
func TestNoPartitionIsDroppedThatIsNeeded(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	later := w.clock.Now().AddDate(0, 0, 5)
	w.connect("s1", 4)
	id, sealed := w.attempt(), w.attempt()
	writer := w.services.Logs.Writer(w.agent, "s1")
	w.write(writer, id, 0, []byte("a long run's first words\n"))
	w.write(writer, sealed, 0, []byte("a short one's\n"))
	require.NoError(t, w.exit(sealed, 0))
	w.seal()
	today := func() int { return count(t, db, `SELECT count(*) FROM log_chunks`) }
	require.NoError(t, w.system.Housekeep(ctx, later))
	require.Equal(t, 2, today(), "an attempt of the day runs on")
	w.write(writer, id, 25, []byte("and its last\n"))
	require.NoError(t, w.exit(id, 0))
	require.NoError(t, w.system.Housekeep(ctx, later))
	require.Equal(t, 3, today(), "its log is not sealed yet")
	w.seal()
	require.NoError(t, w.system.Housekeep(ctx, w.clock.Now().AddDate(0, 0, 1)))
	require.Equal(t, 3, today(), "sealed rows stay for some days")
	require.NoError(t, w.system.Housekeep(ctx, later))
	require.Zero(t, today())
	require.Equal(t, "a long run's first words\nand its last\n", string(w.whole(id, 0, 100)))
	require.Equal(t, "one's\n", string(w.whole(sealed, 8, 100)))
	pages := make(chan string, 5)
	w.follow(w, id, 0, pages)
	require.Equal(t, "a long run's first words\nand its last\n", <-pages)
}

// TestAPartitionInUse is dropped later. Nobody waits behind it for long, and the rest of the
// housekeeping continues.
func TestAPartitionInUse(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	later := w.clock.Now().AddDate(0, 0, 5)
	execute(t, db, `INSERT INTO idempotency_keys (workspace_id, actor, key, hash, created_at) VALUES ($1, 'a', 'k', '', now() - interval '2 days')`, w.admin.Workspace())
	in(t, s, w.admin, func(_ context.Context, tx *store.Tx) error {
		_, err := tx.LogChunks(ctx, "att_none", 0, 1) // and continues to read
		require.NoError(t, err)
		require.Error(t, w.system.Housekeep(ctx, later))
		return nil
	})
	require.Zero(t, count(t, db, `SELECT count(*) FROM idempotency_keys`))
	require.NoError(t, w.system.Housekeep(ctx, later))
	require.Equal(t, 10, count(t, db, partitions), "two days before and seven after")
}

// TestWhatHasOutlivedItsUse is removed on its day and not earlier.
func TestWhatHasOutlivedItsUse(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	start := w.clock.Now()
	expires := start.Add(time.Hour)
	for _, k := range []identity.NewAPIKey{{Name: "ends", ExpiresAt: &expires}, {Name: "stays"}} {
		_, _, err := w.services.APIKeys.Create(ctx, w.admin, k)
		require.NoError(t, err)
	}
	require.NoError(t, w.system.SaveReplica(ctx, "rep_1", "http://here", start))
	in(t, s, w.admin, func(ctx context.Context, tx *store.Tx) error {
		_, _, _, err := tx.ClaimKey(ctx, "a", "k", []byte("h"))
		return err
	})
	left := func(table string, after time.Duration) int {
		require.NoError(t, w.system.Housekeep(ctx, start.Add(after)))
		return count(t, db, `SELECT count(*) FROM `+table)
	}
	const day = 24 * time.Hour
	require.Equal(t, 1, left("replicas", 59*time.Minute))
	require.Equal(t, 0, left("replicas", 61*time.Minute))
	require.Equal(t, 1, left("idempotency_keys", day-time.Minute))
	require.Equal(t, 0, left("idempotency_keys", day+time.Minute))
	require.Equal(t, 2, left("api_keys", 30*day+59*time.Minute), "an expired key is listed for 30 days")
	require.Equal(t, 1, left("api_keys", 30*day+61*time.Minute))
	require.Equal(t, 1, left("sessions", auth.SessionLife+6*day))
	require.Equal(t, 0, left("sessions", auth.SessionLife+8*day))
	require.Equal(t, 1, left("signing_keys", 364*day))
}

func TestReplicasFindAnAgent(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	find := func() (string, error) {
		_, url, err := w.system.AgentReplica(ctx, w.agentID(), w.clock.Now())
		return url, err
	}
	require.Equal(t, domain.CodeUnavailable, code(second(find())))
	w.connect("s1", 1)
	require.Equal(t, domain.CodeUnavailable, code(second(find())), "its replica is not known")
	require.NoError(t, w.system.SaveReplica(ctx, "rep_1", "http://one", w.clock.Now()))
	require.NoError(t, w.system.SaveReplica(ctx, "rep_1", "http://two", w.clock.Now()))
	url, err := find()
	require.NoError(t, err)
	require.Equal(t, "http://two", url)
	w.clock.move(31 * time.Second)
	require.Equal(t, domain.CodeUnavailable, code(second(find())), "a replica that is silent")
	require.NoError(t, w.system.SaveReplica(ctx, "rep_1", "http://two", w.clock.Now()))
	require.NoError(t, second(find()))
	require.NoError(t, w.system.DeleteReplica(ctx, "rep_1"))
	require.Equal(t, domain.CodeUnavailable, code(second(find())))
}
