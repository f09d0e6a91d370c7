package quota

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestAFullQuotaRefuses(t *testing.T) {
	require.Equal(t, "max_running_runs=10, current=10", domain.AsError(Quota{Name: MaxRunningRuns, Limit: 10, Current: 10}.Require()).Message)
	require.Equal(t, domain.CodeQuota, domain.AsError(Quota{Name: MaxRunningRuns, Limit: 10, Current: 11}.Require()).Code)
	require.NoError(t, Quota{Name: MaxRunningRuns, Limit: 10, Current: 9}.Require())
	require.Equal(t, domain.CodeQuota, domain.AsError(Quota{Name: MaxRunningRuns}.Require()).Code, "a limit of nothing allows nothing")
}
