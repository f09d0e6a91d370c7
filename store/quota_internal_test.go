package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/quota"
)

// A quota without a counter would never refuse.
func TestEveryQuotaIsCounted(t *testing.T) {
	without := map[quota.Name]bool{quota.MaxEndpoints: true} // there are no endpoints yet
	for _, d := range quota.Definitions {
		require.NotEqual(t, without[d.Name], counters[d.Name] != "", d.Name)
	}
}
