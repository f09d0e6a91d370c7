package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/quota"
)

// A quota without a counter would never refuse. Servers count requests in memory.
func TestEveryQuotaIsCounted(t *testing.T) {
	without := map[quota.Name]bool{quota.MaxEndpoints: true /* there are none yet */, quota.MaxRequests: true}
	for _, d := range quota.Definitions {
		require.NotEqual(t, without[d.Name], counters[d.Name] != "", d.Name)
	}
}
