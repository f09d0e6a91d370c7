package sqltext

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
)

// Both engines recognize the same kinds of maintenance, and no others.
func TestKindsOfMaintenance(t *testing.T) {
	for query, kind := range map[string]string{
		"ALTER TABLE t EXECUTE optimize":                                                          "OPTIMIZE",
		"ALTER TABLE a.b.t EXECUTE optimize(file_size_threshold => '128MB')":                      "OPTIMIZE",
		`alter table "a ""b"""."c.d"."execute" execute "Optimize" ( file_size_threshold => '1B')`: "OPTIMIZE",
		"ALTER TABLE t EXECUTE expire_snapshots(retention_threshold => '7d')":                     "EXPIRE SNAPSHOTS",
		"/* */ ALTER TABLE t EXECUTE REMOVE_ORPHAN_FILES -- of it":                                "REMOVE ORPHAN FILES",
		"ALTER TABLE t EXECUTE rollback_to_snapshot(1)":                                           "ALTER TABLE",
		"ALTER TABLE t EXECUTE optimize_manifests":                                                "ALTER TABLE",
		"ALTER TABLE execute RENAME TO optimize":                                                  "ALTER TABLE",
		"ALTER TABLE t RENAME COLUMN execute TO optimize":                                         "ALTER TABLE",
		"ALTER TABLE t ADD COLUMN execute INT":                                                    "ALTER TABLE",
		"ALTER TABLE execute EXECUTE":                                                             "ALTER TABLE",
		"ALTER VIEW t EXECUTE optimize":                                                           "ALTER VIEW",
	} {
		c, err := Classify(query)
		require.NoError(t, err, query)
		require.Equal(t, kind, c.Kind, query)
		require.True(t, c.Write)
	}
	_, err := Classify("EXPLAIN ALTER TABLE t EXECUTE optimize")
	require.ErrorContains(t, err, "only reads can be explained")
}

func TestParametersOfMaintenance(t *testing.T) {
	s := &agent.Statement{ID: "stm_1", Database: "lake", Schema: "public", Catalog: agent.Catalog{Databases: []string{"lake", "Other"}}}
	for query, want := range map[string]spawned.Maintenance{
		"ALTER TABLE t EXECUTE optimize":                                                        {Operation: spawned.Optimize, Threshold: 100 << 20, Retention: 7 * day},
		"ALTER TABLE t EXECUTE optimize()":                                                      {Operation: spawned.Optimize, Threshold: 100 << 20, Retention: 7 * day},
		"ALTER TABLE t EXECUTE optimize(file_size_threshold => '1.5 kB')":                       {Operation: spawned.Optimize, Threshold: 1536, Retention: 7 * day},
		"ALTER TABLE t EXECUTE expire_snapshots":                                                {Operation: spawned.ExpireSnapshots, Threshold: 100 << 20, Retention: 7 * day},
		"ALTER TABLE t EXECUTE expire_snapshots(retain_last => 3, retention_threshold => '1d')": {Operation: spawned.ExpireSnapshots, Threshold: 100 << 20, Retention: day, RetainLast: 3},
		"ALTER TABLE t EXECUTE expire_snapshots(max_snapshots => 50, erase_after => '72h')":     {Operation: spawned.ExpireSnapshots, Threshold: 100 << 20, Retention: 7 * day, MaxSnapshots: 50, EraseAfter: 3 * day},
		"ALTER TABLE t EXECUTE remove_orphan_files(\"Retention_Threshold\" => '36h')":           {Operation: spawned.RemoveOrphanFiles, Threshold: 100 << 20, Retention: 36 * time.Hour},
	} {
		c, err := Classify(query)
		require.NoError(t, err, query)
		m, err := ParseMaintenance(s, c)
		require.NoError(t, err, query)
		want.Statement, want.Catalog, want.EraseAfter = "stm_1", s.Catalog, max(want.EraseAfter, day)
		want.Table = agent.StatementTable{Database: "lake", Schema: "public", Table: "t", Target: true}
		require.Equal(t, want, m, query)
	}
	c, err := Classify(`ALTER TABLE OTHER."a.b"."T" EXECUTE optimize`)
	require.NoError(t, err)
	m, err := ParseMaintenance(s, c)
	require.NoError(t, err)
	require.Equal(t, agent.StatementTable{Database: "Other", Schema: "a.b", Table: "T", Target: true}, m.Table)
}
