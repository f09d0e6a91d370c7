package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

func TestAProcessRunsAndItsLogArrives(t *testing.T) {
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "echo hello; echo world >&2; exit 3"})
	s := c.exited("att_1")
	require.Equal(t, 3, *s.ExitCode)
	require.Empty(t, s.Reason)
	require.Equal(t, int64(12), s.LogEnd)
	require.NotNil(t, s.StartedAt)
	require.False(t, s.FinishedAt.Before(*s.StartedAt))
	require.Equal(t, "hello\nworld\n", string(c.record("att_1").head))
}
