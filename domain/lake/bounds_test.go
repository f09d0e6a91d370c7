package lake_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// slowFiles is a storage that counts opened manifests. While slow, it never delivers them.
type slowFiles struct {
	lake.Files
	stuck  bool
	opened atomic.Int64
}

// Open implements lake.Files.
func (f *slowFiles) Open(ctx context.Context, uri string) (lake.File, error) {
	f.opened.Add(1)
	if f.stuck && strings.HasSuffix(uri, ".avro") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.Files.Open(ctx, uri)
}

// TestLookingIntoFilesIsBounded in time, files and partitions. Each error says what to do.
func TestLookingIntoFilesIsBounded(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	l, err := r.catalog.Create(ctx, r.scope, "lake", "public", lake.NewTable{
		Name: "t", Schema: json.RawMessage(twoColumns), PartitionSpec: json.RawMessage(`{"spec-id":0,"fields":[{"source-id":1,"field-id":1000,"transform":"identity","name":"id"}]}`),
	}, lake.Key{})
	require.NoError(t, err)
	r.client("t").append(t, 1, 2, 3)
	files := &slowFiles{Files: r.files}
	both := func(why string, want domain.Code, say string, set func(*lake.Catalog)) {
		catalog := r.another(files)
		set(catalog)
		_, err := catalog.Partitions(ctx, r.scope, l.Table.ID, domain.Page{})
		code(t, want, err)
		require.ErrorContains(t, err, say, why)
		_, err = catalog.DataFiles(ctx, r.scope, l.Table.ID, lake.FilesFilter{}, domain.Page{})
		if say != "partition it by less" {
			code(t, want, err)
			require.ErrorContains(t, err, say, why)
		}
	}
	both("files", domain.CodeInvalid, "compact its data files", func(c *lake.Catalog) { c.Bound(time.Minute, 2, 100) })
	both("partitions", domain.CodeInvalid, "partition it by less", func(c *lake.Catalog) { c.Bound(time.Minute, 100, 2) })
	files.stuck = true
	both("time", domain.CodeUnavailable, "could not be read within", func(c *lake.Catalog) { c.Bound(50*time.Millisecond, 100, 100) })
	files.stuck = false

	// Later pages read no manifest again until the table changes.
	catalog := r.another(files)
	page := func(cursor string) domain.List[lake.Partition] {
		t.Helper()
		list, err := catalog.Partitions(ctx, r.scope, l.Table.ID, domain.Page{Limit: 1, Cursor: cursor})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		return list
	}
	first := page("")
	opened := files.opened.Load()
	second := page(first.Next)
	require.Equal(t, "id=2", second.Items[0].Partition)
	require.Equal(t, opened, files.opened.Load())
	r.client("t").append(t, 0)
	require.Equal(t, "id=0", page("").Items[0].Partition)
	require.Greater(t, files.opened.Load(), opened)
}
