package quota

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestAFullQuotaRefuses(t *testing.T) {
	limit := func(n int64) *int64 { return &n }
	require.Equal(t, "max_running_runs=10, current=10", domain.AsError(Of(MaxRunningRuns, nil, 10).Require()).Message)
	require.Equal(t, domain.CodeQuota, domain.AsError(Of(MaxRunningRuns, limit(10), 11).Require()).Code)
	require.NoError(t, Of(MaxRunningRuns, limit(10), 9).Require())
	require.Equal(t, domain.CodeQuota, domain.AsError(Of(MaxRunningRuns, limit(0), 0).Require()).Code, "a limit of nothing allows nothing")
	require.NoError(t, Of(MaxRunningRuns, limit(10), 7).RequireFor(3))
	require.Error(t, Of(MaxRunningRuns, limit(10), 8).RequireFor(3))
}

// Each quota is defined once, and documented for operators.
func TestDefinitions(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	require.NoError(t, err)
	seen := map[Name]bool{}
	for _, d := range Definitions {
		require.False(t, seen[d.Name], d.Name)
		seen[d.Name] = true
		require.Contains(t, Units, d.Unit, d.Name)
		require.Positive(t, d.Default, d.Name)
		require.LessOrEqual(t, d.Default, d.Max, d.Name)
		row := fmt.Sprintf("| `%s` | %d | %s | %s |\n", d.Name, d.Default, d.Unit, d.Description)
		require.True(t, strings.Contains(string(page), row), "docs/operate.md lacks the row %s", row)
	}
}
