package lake_test

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

// TestIdempotencyAtOnce: of many concurrent requests with one key, one is done and all return its
// answer. That holds for changes that cannot be made twice.
func TestIdempotencyAtOnce(t *testing.T) {
	r := newRig(t)
	made := r.create("public", "t")
	replicas := []*lake.Catalog{r.catalog, r.another(r.files)}
	answered := func(t *testing.T, do func(*lake.Catalog) (string, error)) {
		var mu sync.Mutex
		answers := map[string]int{}
		together(8, func(i int) {
			answer, err := do(replicas[i%2])
			if err != nil {
				t.Errorf("%v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[answer]++
		})
		require.Len(t, answers, 1)
	}
	commit := func(key string, requirements, updates []any) func(*lake.Catalog) (string, error) {
		return func(c *lake.Catalog) (string, error) {
			l, err := c.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Requirements: raw(t, requirements), Updates: raw(t, updates)}, lake.Key{Key: key, Hash: []byte("h")})
			return l.MetadataLocation, err
		}
	}
	t.Run("commit", func(t *testing.T) {
		answered(t, commit("one", nil, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"k": "v"}}}))
		require.Equal(t, 1, r.load("public", "t").Table.Version)
		require.Len(t, r.onDisk(), 2)
	})
	t.Run("commit that asserts", func(t *testing.T) {
		three := json.RawMessage(`{"type":"struct","schema-id":1,"fields":[{"id":1,"name":"id","required":true,"type":"long"},{"id":2,"name":"what","required":false,"type":"string"},
			{"id":3,"name":"more","required":false,"type":"string"}]}`)
		answered(t, commit("two", []any{map[string]any{"type": "assert-current-schema-id", "current-schema-id": 0}, map[string]any{"type": "assert-table-uuid", "uuid": made.Table.UUID}}, []any{
			map[string]any{"action": "add-schema", "schema": three, "last-column-id": 3}, map[string]any{"action": "set-current-schema", "schema-id": -1},
		}))
		require.Equal(t, 2, r.load("public", "t").Table.Version)
		require.Len(t, r.onDisk(), 3)
	})
	t.Run("create", func(t *testing.T) {
		answered(t, func(c *lake.Catalog) (string, error) {
			l, err := c.Create(t.Context(), r.scope, "lake", "public", lake.NewTable{Name: "u", Schema: json.RawMessage(twoColumns)}, lake.Key{Key: "three", Hash: []byte("h")})
			return l.MetadataLocation, err
		})
		require.Len(t, r.onDisk(), 4)
	})
	t.Run("drop", func(t *testing.T) {
		answered(t, func(c *lake.Catalog) (string, error) {
			return "", c.Drop(t.Context(), r.scope, ref("public", "u"), lake.KindTable, true, lake.Key{Key: "four", Hash: []byte("h")})
		})
	})
	require.Empty(t, r.reported)
}

// TestRefusalUnderAKey is the key's answer, since the client acts on it. No request under the key
// succeeds later.
func TestRefusalUnderAKey(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	commit := func(key string) error {
		_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{
			Ref: ref("public", "t"), Requirements: raw(t, []any{map[string]any{"type": "assert-default-spec-id", "default-spec-id": 1}}),
			Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"k": "v"}}}),
		}, lake.Key{Key: key, Hash: []byte("h")})
		return err
	}
	reason(t, lake.CommitFailed, commit("a"))
	_, err := r.catalog.Commit(t.Context(), r.scope, lake.Change{Ref: ref("public", "t"), Updates: raw(t, []any{
		map[string]any{"action": "add-spec", "spec": map[string]any{"spec-id": 1, "fields": []any{map[string]any{"source-id": 1, "field-id": 1000, "name": "id", "transform": "identity"}}}},
		map[string]any{"action": "set-default-spec", "spec-id": -1},
	})}, lake.Key{})
	require.NoError(t, err)
	reason(t, lake.CommitFailed, commit("a"))
	require.NoError(t, commit("b"))
}

// TestReplayOfAStateThatIsGone returns a later state: the commit has happened.
func TestReplayOfAStateThatIsGone(t *testing.T) {
	r := newRig(t)
	r.create("public", "t")
	for _, setting := range [][2]string{{"write.metadata.previous-versions-max", "1"}, {"write.metadata.delete-after-commit.enabled", "true"}} {
		_, err := r.set("t", setting[0], setting[1])
		require.NoError(t, err)
	}
	keyed := func(c *lake.Catalog) (lake.Loaded, error) {
		return c.Commit(t.Context(), r.scope, lake.Change{
			Ref: ref("public", "t"), Updates: raw(t, []any{map[string]any{"action": "set-properties", "updates": map[string]string{"keyed": "yes"}}}),
		}, lake.Key{Key: "k", Hash: []byte("h")})
	}
	first, err := keyed(r.catalog)
	require.NoError(t, err)
	for _, value := range []string{"1", "2", "3"} {
		_, err = r.set("t", "k", value)
		require.NoError(t, err)
	}
	require.NoFileExists(t, r.path(first.MetadataLocation))
	again, err := keyed(r.another(r.files))
	require.NoError(t, err)
	now := r.load("public", "t")
	require.Equal(t, now.MetadataLocation, again.MetadataLocation)
	require.JSONEq(t, string(now.Metadata), string(again.Metadata))
	require.NoError(t, os.Remove(r.path(now.MetadataLocation)))
	_, err = keyed(r.another(r.files))
	reason(t, lake.CommitStateUnknown, err)
}
