package domain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFullQuotaRefuses(t *testing.T) {
	require.Equal(t, "max_running_runs=10, current=10", AsError(Quota{Name: MaxRunningRuns, Limit: 10, Current: 10}.require()).Message)
	require.Equal(t, CodeQuota, AsError(Quota{Name: MaxRunningRuns, Limit: 10, Current: 11}.require()).Code)
	require.NoError(t, Quota{Name: MaxRunningRuns, Limit: 10, Current: 9}.require())
	require.Equal(t, CodeQuota, AsError(Quota{Name: MaxRunningRuns}.require()).Code, "a limit of nothing allows nothing")
}
