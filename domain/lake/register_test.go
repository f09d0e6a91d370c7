package lake_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/lake"
)

func (r *rig) register(name, file string) (lake.Loaded, error) {
	return r.catalog.Register(r.t.Context(), r.scope, "lake", "public", lake.Registration{Name: name, MetadataLocation: file}, lake.KindTable, lake.Key{})
}

// TestRegisterReadsTheFile: a rewritten metadata file is registered with its present content, on
// every replica. Clients do not get it as unchanged.
func TestRegisterReadsTheFile(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	seed := r.create("public", "seed")
	file := r.prefix() + "old/t/metadata/00007-x.metadata.json"
	write := func(comment string) {
		var m map[string]any
		require.NoError(t, json.Unmarshal(seed.Metadata, &m))
		m["location"], m["properties"] = r.prefix()+"old/t", map[string]string{"comment": comment}
		require.NoError(t, os.MkdirAll(r.path(r.prefix()+"old/t/metadata"), 0o700))
		require.NoError(t, os.WriteFile(r.path(file), raw(t, m), 0o600))
	}
	others := []*lake.Catalog{r.catalog, r.another(r.files)}
	loaded := func(want string) (tag string) {
		for _, c := range others {
			l, err := c.Load(ctx, r.scope, ref("public", "t"), lake.KindTable, lake.LoadOptions{Unchanged: func(at string) bool { tag = at; return false }})
			require.NoError(t, err)
			require.Contains(t, string(l.Metadata), want)
		}
		return tag
	}
	write("first")
	_, err := r.register("t", file)
	require.NoError(t, err)
	before := loaded("first")
	r.drop("t")
	write("second")
	l, err := r.register("t", file)
	require.NoError(t, err)
	require.Contains(t, string(l.Metadata), "second")
	require.NotEqual(t, before, loaded("second"))
	write("third")
	l, err = r.catalog.Register(ctx, r.scope, "lake", "public", lake.Registration{Name: "t", MetadataLocation: file, Overwrite: true}, lake.KindTable, lake.Key{})
	require.NoError(t, err)
	require.Contains(t, string(l.Metadata), "third")
	loaded("third")
}
