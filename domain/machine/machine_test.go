package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// move is the expected result of an event.
type move struct {
	state    State // "" if unchanged
	conflict bool
}

// TestMachineLifeCycle covers every state × event.
func TestMachineLifeCycle(t *testing.T) {
	stays, conflict := move{}, move{conflict: true}
	to := func(s State) move { return move{state: s} }
	table := map[State]map[Event]move{
		Stopped: {
			EventStart: to(Starting), EventStop: conflict,
			EventReady: stays, EventGone: stays, EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
		Starting: {
			EventStart: conflict, EventStop: to(Stopping), EventReady: to(Running), EventGone: to(Starting),
			EventReleased: stays, EventRefused: to(Failed), EventLate: to(Failed),
		},
		Running: {
			EventStart: conflict, EventStop: to(Stopping), EventReady: stays, EventGone: to(Starting),
			EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
		Stopping: {
			EventStart: conflict, EventStop: conflict, EventReady: stays, EventGone: stays,
			EventReleased: to(Stopped), EventRefused: stays, EventLate: to(Failed),
		},
		Failed: { // after a start, before its release
			EventStart: conflict, EventStop: to(Stopping), EventReady: stays, EventGone: stays,
			EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
	}
	require.Len(t, table, len(States))
	for _, state := range States {
		require.Len(t, table[state], len(Events), state)
		for _, event := range Events {
			t.Run(fmt.Sprintf("%s %s", state, event), func(t *testing.T) {
				before := machineIn(state)
				m := before
				err := m.Apply(event, "why", moment.Add(time.Minute))
				want := table[state][event]
				if want.conflict {
					require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
					require.Equal(t, before, m)
					return
				}
				require.NoError(t, err)
				if want.state == "" && !(state == Failed && event == EventReleased) {
					require.Equal(t, before, m)
					return
				}
				if want.state != "" {
					require.Equal(t, want.state, m.State)
					require.Equal(t, moment.Add(time.Minute), m.StateSince)
					require.NotNil(t, m.DueAt, "the reconciler looks at it")
				}
			})
		}
	}
}

var moment = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// machineIn returns a machine that reached the state in the usual way.
func machineIn(s State) Machine {
	m := New(KindCompute, "m", "cpu.1", DefaultProvider, domain.Actor{}, moment)
	m.State, m.Desired, m.Released, m.Incarnation = s, Running, false, 1
	switch s {
	case Stopped:
		m.Desired, m.Released, m.Incarnation = Stopped, true, 0
	case Stopping:
		m.Desired = Stopped
	case Running:
		m.Made, m.IdleSince = true, &moment
	}
	return m
}

func TestMachineStartsAnew(t *testing.T) {
	for _, s := range []State{Stopped, Failed} {
		m := machineIn(s)
		m.HeldAt, m.Restarts, m.Made, m.Released = &moment, 3, true, true
		before := m.Incarnation
		require.NoError(t, m.Apply(EventStart, "Started by ada.", moment))
		require.Equal(t, before+1, m.Incarnation)
		require.Equal(t, Running, m.Desired)
		require.Equal(t, "Started by ada.", m.Message)
		require.Nil(t, m.HeldAt)
		require.Zero(t, m.Restarts)
		require.False(t, m.Made)
		require.False(t, m.Released, "something of it may be there from now on")
	}
}

// A machine that ends by itself restarts three times and fails then. After a steady run it has all
// three again.
func TestMachineThatGoesByItself(t *testing.T) {
	m := machineIn(Running)
	for i := range maxRestarts {
		require.NoError(t, m.Apply(EventGone, "Its agent ended.", moment))
		require.Equal(t, Starting, m.State)
		require.Equal(t, i+2, m.Incarnation)
		require.NoError(t, m.Apply(EventReady, "", moment))
	}
	short, long := m, m
	require.NoError(t, short.Apply(EventGone, "Its agent ended.", moment.Add(steadyRun-1)))
	require.Equal(t, Failed, short.State)
	require.Equal(t, "It ended 4 times by itself. Its agent ended.", short.Message)
	require.NoError(t, long.Apply(EventGone, "Its agent ended.", moment.Add(steadyRun)))
	require.Equal(t, Starting, long.State)
	require.Equal(t, 1, long.Restarts)
}

// A failed machine stays failed once nothing of it remains. If it should stop, it is stopped then.
func TestMachineThatFailed(t *testing.T) {
	m := machineIn(Starting)
	require.NoError(t, m.Apply(EventLate, "too late", moment))
	require.False(t, m.Resting(), "something of it may be left")
	require.NoError(t, m.Apply(EventReleased, "", moment))
	require.Equal(t, Failed, m.State)
	require.Equal(t, "too late", m.Message)
	require.True(t, m.Resting())
	require.Nil(t, m.DueAt)
	require.NoError(t, m.Apply(EventStop, "", moment), "it records the request")
	require.Equal(t, Stopped, m.State)

	m = machineIn(Stopping)
	require.NoError(t, m.Apply(EventLate, "too late", moment))
	require.Equal(t, Failed, m.State)
	require.NoError(t, m.Apply(EventReleased, "", moment))
	require.Equal(t, Stopped, m.State)
	require.True(t, m.Resting())
}

func TestAutoStopAt(t *testing.T) {
	m := machineIn(Running)
	for choice, after := range map[AutoStop]time.Duration{AutoStop30m: 30 * time.Minute, AutoStop1h: time.Hour, AutoStop2h: 2 * time.Hour} {
		m.AutoStop = choice
		require.Equal(t, moment.Add(after), *m.AutoStopAt())
	}
	m.AutoStop = AutoStopNever
	require.Nil(t, m.AutoStopAt())
	m.AutoStop, m.IdleSince = AutoStop1h, nil
	require.Nil(t, m.AutoStopAt(), "something runs")
	for _, s := range States {
		if m = machineIn(s); s != Running {
			m.IdleSince = &moment
			require.Nil(t, m.AutoStopAt(), s)
		}
	}
}

func TestParseAutoStop(t *testing.T) {
	for given, want := range map[string]AutoStop{"": AutoStop1h, "30m": AutoStop30m, "1h": AutoStop1h, "2h": AutoStop2h, "never": AutoStopNever} {
		got, err := ParseAutoStop(given)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, given := range []string{"3h", "60m", "Never", " 1h", "0"} {
		_, err := ParseAutoStop(given)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), given)
	}
}

// No order of events leads to an unknown state, or to a resting machine with work left.
func TestMachineEventsInAnyOrder(t *testing.T) {
	var walk func(m Machine, depth int)
	seen := map[string]bool{}
	walk = func(m Machine, depth int) {
		require.Contains(t, States, m.State)
		if !m.Resting() && m.State != Running {
			require.NotNil(t, m.DueAt, "%+v", m)
		}
		require.False(t, m.State == Stopped && !m.Released, "stopped, and something of it is left")
		key := fmt.Sprint(m.State, m.Desired, m.Released, m.Made, m.Restarts, depth)
		if depth == 0 || seen[key] {
			return
		}
		seen[key] = true
		for _, e := range Events {
			next := m
			_ = next.Apply(e, "why", moment)
			walk(next, depth-1)
		}
	}
	walk(machineIn(Stopped), 8)
	require.Greater(t, len(seen), 20)
}
