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
	state    MachineState // "" if unchanged
	conflict bool
}

// TestMachineLifeCycle covers every state × event.
func TestMachineLifeCycle(t *testing.T) {
	stays, conflict := move{}, move{conflict: true}
	to := func(s MachineState) move { return move{state: s} }
	table := map[MachineState]map[MachineEvent]move{
		MachineStopped: {
			EventStart: to(MachineStarting), EventStop: conflict,
			EventReady: stays, EventGone: stays, EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
		MachineStarting: {
			EventStart: conflict, EventStop: to(MachineStopping), EventReady: to(MachineRunning), EventGone: to(MachineStarting),
			EventReleased: stays, EventRefused: to(MachineFailed), EventLate: to(MachineFailed),
		},
		MachineRunning: {
			EventStart: conflict, EventStop: to(MachineStopping), EventReady: stays, EventGone: to(MachineStarting),
			EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
		MachineStopping: {
			EventStart: conflict, EventStop: conflict, EventReady: stays, EventGone: stays,
			EventReleased: to(MachineStopped), EventRefused: stays, EventLate: to(MachineFailed),
		},
		MachineFailed: { // after a start, before its release
			EventStart: conflict, EventStop: to(MachineStopping), EventReady: stays, EventGone: stays,
			EventReleased: stays, EventRefused: stays, EventLate: stays,
		},
	}
	require.Len(t, table, len(MachineStates))
	for _, state := range MachineStates {
		require.Len(t, table[state], len(MachineEvents), state)
		for _, event := range MachineEvents {
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
				if want.state == "" && !(state == MachineFailed && event == EventReleased) {
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
func machineIn(s MachineState) Machine {
	m := Make(KindCompute, "m", "cpu.1", DefaultProvider, domain.Actor{}, moment)
	m.State, m.Desired, m.Released, m.Incarnation = s, MachineRunning, false, 1
	switch s {
	case MachineStopped:
		m.Desired, m.Released, m.Incarnation = MachineStopped, true, 0
	case MachineStopping:
		m.Desired = MachineStopped
	case MachineRunning:
		m.Made, m.IdleSince = true, &moment
	}
	return m
}

func TestMachineStartsAnew(t *testing.T) {
	for _, s := range []MachineState{MachineStopped, MachineFailed} {
		m := machineIn(s)
		m.HeldAt, m.Restarts, m.Made, m.Released = &moment, 3, true, true
		before := m.Incarnation
		require.NoError(t, m.Apply(EventStart, "Started by ada.", moment))
		require.Equal(t, before+1, m.Incarnation)
		require.Equal(t, MachineRunning, m.Desired)
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
	m := machineIn(MachineRunning)
	for i := range maxRestarts {
		require.NoError(t, m.Apply(EventGone, "Its agent ended.", moment))
		require.Equal(t, MachineStarting, m.State)
		require.Equal(t, i+2, m.Incarnation)
		require.NoError(t, m.Apply(EventReady, "", moment))
	}
	short, long := m, m
	require.NoError(t, short.Apply(EventGone, "Its agent ended.", moment.Add(steadyRun-1)))
	require.Equal(t, MachineFailed, short.State)
	require.Equal(t, "It ended 4 times by itself. Its agent ended.", short.Message)
	require.NoError(t, long.Apply(EventGone, "Its agent ended.", moment.Add(steadyRun)))
	require.Equal(t, MachineStarting, long.State)
	require.Equal(t, 1, long.Restarts)
}

// A failed machine stays failed once nothing of it remains. If it should stop, it is stopped then.
func TestMachineThatFailed(t *testing.T) {
	m := machineIn(MachineStarting)
	require.NoError(t, m.Apply(EventLate, "too late", moment))
	require.False(t, m.Resting(), "something of it may be left")
	require.NoError(t, m.Apply(EventReleased, "", moment))
	require.Equal(t, MachineFailed, m.State)
	require.Equal(t, "too late", m.Message)
	require.True(t, m.Resting())
	require.Nil(t, m.DueAt)
	require.NoError(t, m.Apply(EventStop, "", moment), "it records the request")
	require.Equal(t, MachineStopped, m.State)

	m = machineIn(MachineStopping)
	require.NoError(t, m.Apply(EventLate, "too late", moment))
	require.Equal(t, MachineFailed, m.State)
	require.NoError(t, m.Apply(EventReleased, "", moment))
	require.Equal(t, MachineStopped, m.State)
	require.True(t, m.Resting())
}

func TestAutoStopAt(t *testing.T) {
	m := machineIn(MachineRunning)
	for choice, after := range map[AutoStop]time.Duration{AutoStop30m: 30 * time.Minute, AutoStop1h: time.Hour, AutoStop2h: 2 * time.Hour} {
		m.AutoStop = choice
		require.Equal(t, moment.Add(after), *m.AutoStopAt())
	}
	m.AutoStop = AutoStopNever
	require.Nil(t, m.AutoStopAt())
	m.AutoStop, m.IdleSince = AutoStop1h, nil
	require.Nil(t, m.AutoStopAt(), "something runs")
	for _, s := range MachineStates {
		if m = machineIn(s); s != MachineRunning {
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
		require.Contains(t, MachineStates, m.State)
		if !m.Resting() && m.State != MachineRunning {
			require.NotNil(t, m.DueAt, "%+v", m)
		}
		require.False(t, m.State == MachineStopped && !m.Released, "stopped, and something of it is left")
		key := fmt.Sprint(m.State, m.Desired, m.Released, m.Made, m.Restarts, depth)
		if depth == 0 || seen[key] {
			return
		}
		seen[key] = true
		for _, e := range MachineEvents {
			next := m
			_ = next.Apply(e, "why", moment)
			walk(next, depth-1)
		}
	}
	walk(machineIn(MachineStopped), 8)
	require.Greater(t, len(seen), 20)
}
