package lake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

func (r *rig) row(id domain.TableID) lake.Table {
	r.t.Helper()
	row, err := r.catalog.TableByID(r.t.Context(), r.scope, id)
	require.NoError(r.t, err)
	return row
}

func (r *rig) dropped() []domain.TableID {
	r.t.Helper()
	all, err := r.catalog.Tables(r.t.Context(), r.scope, lake.TableFilter{Database: r.db.ID, Dropped: true}, domain.Page{})
	require.NoError(r.t, err)
	ids := []domain.TableID{}
	for _, t := range all.Items {
		ids = append(ids, t.ID)
	}
	return ids
}

func (r *rig) detach(name string) {
	r.t.Helper()
	require.NoError(r.t, r.catalog.Drop(r.t.Context(), r.scope, ref("public", name), lake.KindTable, false, lake.Key{}))
}

// TestDetached: a table dropped without purge is listed with its bytes until somebody purges it.
// The purge waits.
func TestDetached(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	made := r.create("public", "t")
	r.client("t").append(t, 1, 2)
	_, err := r.catalog.PurgeDropped(ctx, r.scope, made.Table.ID)
	code(t, domain.CodeConflict, err)
	r.detach("t")
	r.clock.move(100 * lake.UndropTime)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Equal(t, []domain.TableID{made.Table.ID}, r.dropped())
	row := r.row(made.Table.ID)
	require.True(t, row.Detached())
	require.Positive(t, *row.DataBytes)
	code(t, domain.CodeConflict, r.databases.Delete(ctx, r.scope, r.db.ID))
	row, err = r.catalog.PurgeDropped(ctx, r.scope, row.ID)
	require.NoError(t, err)
	require.False(t, row.Detached())
	_, err = r.catalog.PurgeDropped(ctx, r.scope, row.ID)
	code(t, domain.CodeConflict, err)
	require.NoError(t, r.catalog.Purge(ctx))
	require.NotEmpty(t, r.onDisk(), "replicas' clocks differ")
	_, err = r.register("u", row.MetadataLocation)
	code(t, domain.CodeConflict, err)
	r.clock.move(2 * time.Hour)
	require.NoError(t, r.catalog.Purge(ctx))
	require.Empty(t, r.onDisk())
	require.Empty(t, r.dropped())
}

// TestPurgeOfDetachedWaitsForUndrop: a table can be restored for its whole restore time, even after
// a purge request.
func TestPurgeOfDetachedWaitsForUndrop(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	r.detach("t")
	r.clock.move(time.Hour)
	row, err := r.catalog.PurgeDropped(t.Context(), r.scope, made.Table.ID)
	require.NoError(t, err)
	require.Equal(t, lake.UndropTime, row.PurgeAfter.Sub(*row.DroppedAt))
	r.clock.move(lake.UndropTime - 2*time.Hour)
	require.NoError(t, r.catalog.Purge(t.Context()))
	_, err = r.catalog.Undrop(t.Context(), r.scope, made.Table.ID)
	require.NoError(t, err)
}

// TestRegisterCancelsAPurge that has not begun. The registered table owns the directories from then
// on.
func TestRegisterCancelsAPurge(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.create("public", "t")
	r.client("t").append(t, 1, 2)
	file := r.load("public", "t").MetadataLocation
	r.drop("t")
	r.clock.move(lake.UndropTime - time.Hour)
	_, err := r.register("again", file)
	require.NoError(t, err)
	require.Empty(t, r.dropped())
	r.clock.move(2 * lake.UndropTime)
	require.NoError(t, r.catalog.Purge(ctx))
	require.ElementsMatch(t, []int64{1, 2}, r.client("again").ids(t))
}

// TestViewsLeaveNothing: a view has only the catalog's own files, which are removed after the
// restore time.
func TestViewsLeaveNothing(t *testing.T) {
	r := newRig(t)
	_, err := r.catalog.CreateView(t.Context(), r.scope, "lake", "public", lake.NewView{Name: "v", Schema: []byte(twoColumns), Version: []byte(oneVersion)}, lake.Key{})
	require.NoError(t, err)
	require.NoError(t, r.catalog.Drop(t.Context(), r.scope, ref("public", "v"), lake.KindView, false, lake.Key{}))
	r.clock.move(lake.UndropTime + 2*time.Hour)
	require.NoError(t, r.catalog.Purge(t.Context()))
	require.Empty(t, r.onDisk())
	require.Empty(t, r.dropped())
}
