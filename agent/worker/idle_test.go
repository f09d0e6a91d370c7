package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// nextIdle waits for a heartbeat that is created from now on, and returns its idle time.
func (c *control) nextIdle() time.Duration {
	c.t.Helper()
	c.mu.Lock()
	from := c.beats
	c.mu.Unlock()
	var idle agent.Duration
	c.until("two heartbeats", waitLimit, func() bool { idle = c.idle; return c.beats >= from+2 }) // the first may have been created earlier
	return time.Duration(idle)
}

func TestAnAgentSaysForHowLongItIsIdle(t *testing.T) {
	c := newControl(t)
	c.beat = 50 * time.Millisecond
	o := c.options()
	begun := time.Now()
	k := c.child(o)
	c.session()
	c.mu.Lock()
	require.Positive(t, c.last.Idle)
	c.mu.Unlock()
	first := c.nextIdle()
	later := c.nextIdle()
	require.Greater(t, later, first)
	require.LessOrEqual(t, later, time.Since(begun))

	c.start(agent.Attempt{ID: "att_1", Command: "exec sleep 1000"})
	require.Zero(t, c.nextIdle())
	c.start(agent.Attempt{ID: "att_2", Command: "true"})
	c.exited("att_2")
	require.Zero(t, c.nextIdle(), "another one is still running")

	k.kill()
	c.cut()
	c.child(o)
	c.until("another hello", waitLimit, func() bool { return len(c.last.Attempts) == 1 })
	c.mu.Lock()
	require.Zero(t, c.last.Idle, "the attempt goes on, and was adopted")
	c.mu.Unlock()
	require.Zero(t, c.nextIdle())

	cancelled := time.Now()
	c.cancel("att_1")
	c.exited("att_1")
	idle := c.nextIdle()
	require.Positive(t, idle)
	require.LessOrEqual(t, idle, time.Since(cancelled))
}

// TestAnAttemptThatHasExitedIsNoWork: the control plane may accept its log much later.
func TestAnAttemptThatHasExitedIsNoWork(t *testing.T) {
	c := newControl(t)
	c.beat = 50 * time.Millisecond
	c.failing.Store(1 << 30)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: "echo it; sleep 0.2"})
	require.Zero(t, c.nextIdle())
	waitFor(t, func() bool { return c.nextIdle() > 0 })
	r := c.record("att_1")
	require.Nil(t, r.final())
	c.failing.Store(0)
	c.exited("att_1")
}

func TestAnAttemptThatIsBeingPreparedIsWork(t *testing.T) {
	w := newWorker(Options{})
	w.busy()
	require.Positive(t, w.idle())
	require.True(t, w.reserve("att_1"))
	require.Zero(t, w.idle())
}
