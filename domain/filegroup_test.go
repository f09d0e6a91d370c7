package domain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestAWorkspacesGroupStays pins numbers that are in use on disks.
func TestAWorkspacesGroupStays(t *testing.T) {
	require.Equal(t, uint32(0x7eaee879), domain.WorkspaceID("ws_1").FileGroup())
	seen := map[uint32]bool{}
	for _, w := range []domain.WorkspaceID{"", "ws_1", "ws_2", "ws_01k9zq6k3hf1tqkq3yqg3v8x2m"} {
		group := w.FileGroup()
		require.GreaterOrEqual(t, group, uint32(domain.FirstFileGroup))
		require.LessOrEqual(t, group, uint32(domain.LastFileGroup))
		require.False(t, seen[group])
		seen[group] = true
	}
}
