package lake_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// TestAWriterThatLostThreeTimesReservesTheTable among all replicas, until it has committed or its
// time is over.
func TestAWriterThatLostThreeTimesReservesTheTable(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	r.client("t").append(t, 1)
	r.client("t").append(t, 2)
	former := r.client("t").snapshotIDs(t)[0]
	replica := r.another(r.files)
	slow, fast := r.as(domain.ActorAPIKey, "slow", domain.RoleEditor), r.as(domain.ActorAPIKey, "fast", domain.RoleEditor)
	set := raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"a": r.clock.Now().String()}}})
	refused := func(branch string, snapshot int64) {
		t.Helper()
		_, err := r.catalog.Commit(t.Context(), slow, lake.Change{
			Ref: ref("public", "t"), Updates: set, Requirements: raw(t, []any{map[string]any{"type": "assert-ref-snapshot-id", "ref": branch, "snapshot-id": snapshot}}),
		}, lake.Key{})
		reason(t, lake.CommitFailed, err)
	}
	lose := func() {
		t.Helper()
		refused("main", former)
	}
	changes := 0
	commit := func(c *lake.Catalog, s domain.Scope, within time.Duration) error {
		changes++
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := c.Commit(ctx, s, lake.Change{
			Ref: ref("public", "t"), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"n": string(rune('a' + changes))}}}),
		}, lake.Key{})
		return err
	}
	const long, short = time.Minute, 300 * time.Millisecond
	for range 4 {
		refused("main", 1)
		refused("gone", former)
	}
	require.NoError(t, commit(replica, fast, long), "what could never hold has lost no race")
	lose()
	lose()
	require.NoError(t, commit(replica, fast, long), "two losses reserve nothing")
	lose()
	before := r.load("public", "t").Table.Version
	for _, c := range []*lake.Catalog{r.catalog, replica} {
		require.ErrorIs(t, commit(c, fast, short), context.DeadlineExceeded, "others wait")
	}
	require.Equal(t, before, r.load("public", "t").Table.Version)
	require.NoError(t, commit(replica, slow, long), "the writer with the reservation does not, on any replica")
	require.NoError(t, commit(r.catalog, fast, long), "its commit has ended the reservation")

	for range 3 {
		lose()
	}
	require.ErrorIs(t, commit(r.catalog, fast, short), context.DeadlineExceeded)
	r.clock.move(11 * time.Second)
	require.NoError(t, commit(r.catalog, fast, long), "an unused reservation ends")
	for range 4 {
		lose()
	}
	require.NoError(t, commit(r.catalog, fast, long), "and its writer gets no other for a minute")
	r.clock.move(time.Minute)
	lose()
	lose()
	require.NoError(t, commit(r.catalog, fast, long), "and begins again")
	lose()
	require.ErrorIs(t, commit(r.catalog, fast, short), context.DeadlineExceeded)
	require.Empty(t, r.reported)
}
