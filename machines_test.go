package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
)

func TestTheFirstWarehouseIsOfHalfTheHostAndWritesWithTrinoWhereItIs(t *testing.T) {
	cloud := provisiontest.NewSimulated(provisiontest.Hooks{})
	first := func() []string {
		size, engine := firstWarehouse(t.Context(), domain.Providers{domain.ProviderLocal: cloud})
		return []string{size, engine}
	}
	require.Equal(t, []string{"cpu.32", "duckdb"}, first())
	cloud.InstallTrino(true)
	require.Equal(t, []string{"cpu.32", "trino"}, first())
	size, engine := firstWarehouse(t.Context(), domain.Providers{})
	require.Equal(t, []string{"", ""}, []string{size, engine})
}

func TestTrinoStartsOnTheSmallestMachineThatMayHaveIt(t *testing.T) {
	c := agentCommand{Memory: local.TrinoMemory}
	require.GreaterOrEqual(t, c.trino().Memory, int64(trino.MinMemory))
}
