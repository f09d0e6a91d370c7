package domain

import (
	"fmt"
	"strings"
	"time"
)

// MachineKind is what a machine is for.
type MachineKind string

// The kinds of machines: two nouns with one life cycle.
const (
	KindCompute   MachineKind = "compute"   // runs tasks
	KindWarehouse MachineKind = "warehouse" // runs SQL and nothing else
)

// Kind is the kind of the machine with the id.
func (id MachineID) Kind() MachineKind {
	if strings.HasPrefix(string(id), prefixWarehouse+"_") {
		return KindWarehouse
	}
	return KindCompute
}

// noun is what people call it.
func (k MachineKind) noun() string {
	if k == KindWarehouse {
		return "warehouse"
	}
	return "compute instance"
}

// size is what people call its flavor.
func (k MachineKind) size() string {
	if k == KindWarehouse {
		return "size"
	}
	return "flavor"
}

// fixed is what of it changes only while it is stopped.
func (k MachineKind) fixed() string {
	if k == KindWarehouse {
		return "size, image, slots and write engine"
	}
	return "flavor, image and slots"
}

func (k MachineKind) prefix() string {
	if k == KindWarehouse {
		return prefixWarehouse
	}
	return prefixCompute
}

// MachineState is how far a machine is, as it was seen last.
type MachineState string

// The states of a machine. Running means that its agent is connected and ready.
const (
	MachineStopped  MachineState = "stopped"
	MachineStarting MachineState = "starting"
	MachineRunning  MachineState = "running"
	MachineStopping MachineState = "stopping"
	MachineFailed   MachineState = "failed" // Message says why; it can be started again
)

// MachineStates lists the states of a machine.
var MachineStates = []MachineState{MachineStopped, MachineStarting, MachineRunning, MachineStopping, MachineFailed}

// AutoStop is how long a machine may have nothing to do before it is stopped.
type AutoStop string

// The choices, from the specification.
const (
	AutoStop30m   AutoStop = "30m"
	AutoStop1h    AutoStop = "1h" // the default
	AutoStop2h    AutoStop = "2h"
	AutoStopNever AutoStop = "never"
)

// ParseAutoStop reads a choice; empty stands for the default.
func ParseAutoStop(s string) (AutoStop, error) {
	switch a := AutoStop(s); a {
	case "":
		return AutoStop1h, nil
	case AutoStop30m, AutoStop1h, AutoStop2h, AutoStopNever:
		return a, nil
	}
	return "", Invalid("auto_stop", "auto_stop is %q; it must be 30m, 1h, 2h or never.", s)
}

// after is the duration; ok is false for never.
func (a AutoStop) after() (d time.Duration, ok bool) {
	d, err := time.ParseDuration(string(a))
	return d, err == nil
}

// Machine is a compute instance or a warehouse: what is wanted of it, and how it stands.
type Machine struct {
	ID          MachineID
	Kind        MachineKind
	Name        string // unique among those of its kind
	Flavor      string // of a warehouse: its size
	Provider    ProviderKind
	Region      string
	Image       string // as it was asked for; empty stands for the provider's default
	ImageRef    string // immutable; empty until the first start
	AutoStop    AutoStop
	Slots       int        // tasks at once; 0 stands for four for each core
	WriteEngine string     // of a warehouse: duckdb or trino
	Nodes       int        // of a warehouse: Trino's coordinator and its workers; 1 of any other machine
	TrinoStart  TrinoStart // of a warehouse
	Engines     []Engine   // as its agent told last, which EnginesNow shows; none before the first start
	AgentID     AgentID
	Host        string // that has it, where the provider is a server's own machine; empty before
	CreatedBy   Actor
	CreatedAt   time.Time
	LastUsedAt  *time.Time // when work last began or ended

	Desired     MachineState // stopped or running: what was asked for last
	State       MachineState
	Message     string     // why it is failed, or what it is about
	StateSince  time.Time  // of State
	Incarnation int        // counts what was made for it
	Restarts    int        // since it was started, of machines that went by themselves
	Made        bool       // the provider has made this incarnation
	Released    bool       // the provider has nothing of it any more
	IdleSince   *time.Time // while it runs and has nothing to do
	HeldAt      *time.Time // when a person stopped it: older runs do not start it again
	DueAt       *time.Time // when the reconciler is to look again; nil at rest
}

// AutoStopAt is when the machine stops if nothing comes; nil while something runs, or where it never does.
func (m Machine) AutoStopAt() *time.Time {
	after, ok := m.AutoStop.after()
	if m.State != MachineRunning || m.IdleSince == nil || !ok {
		return nil
	}
	at := m.IdleSince.Add(after)
	return &at
}

// resting says that the machine is stopped or failed and nothing of it is left.
func (m *Machine) resting() bool {
	return m.Released && (m.State == MachineStopped || m.State == MachineFailed)
}

// MachineEvent is something that happens to a machine.
type MachineEvent string

// The events.
const (
	EventStart    MachineEvent = "start"    // somebody wants it, or a task that waits
	EventStop     MachineEvent = "stop"     // somebody wants it no more, or it was idle for long enough
	EventReady    MachineEvent = "ready"    // its agent is connected
	EventGone     MachineEvent = "gone"     // what was made has ended by itself, or is not heard of any more
	EventReleased MachineEvent = "released" // the provider has nothing of it any more
	EventRefused  MachineEvent = "refused"  // the provider will not make it
	EventLate     MachineEvent = "late"     // its deadline has passed
)

// MachineEvents lists the events.
var MachineEvents = []MachineEvent{EventStart, EventStop, EventReady, EventGone, EventReleased, EventRefused, EventLate}

// Restarts of a machine that goes by itself: so many, unless it ran for a while in between.
const (
	maxRestarts = 3
	steadyRun   = 10 * time.Minute
)

// Apply moves the machine on after an event. Asking for the state that it is in or on its way to is CodeConflict; an event that means nothing in the
// machine's state changes nothing. The message says more about the event, for people.
func (m *Machine) Apply(e MachineEvent, message string, now time.Time) error {
	switch e {
	case EventStart:
		return m.start(message, now)
	case EventStop:
		return m.stop(message, now)
	case EventReady:
		if m.State == MachineStarting {
			m.enter(MachineRunning, "", now)
			m.IdleSince = &now
		}
	case EventGone:
		m.gone(message, now)
	case EventReleased:
		m.released(now)
	case EventRefused:
		if m.State == MachineStarting {
			m.enter(MachineFailed, message, now)
		}
	case EventLate:
		if m.State == MachineStarting || m.State == MachineStopping {
			m.enter(MachineFailed, message, now)
		}
	}
	return nil
}

func (m *Machine) start(message string, now time.Time) error {
	switch {
	case m.resting():
		m.Desired, m.Restarts, m.HeldAt = MachineRunning, 0, nil
		m.make(message, now)
		return nil
	case m.State == MachineStopping:
		return Errorf(CodeConflict, "The %s %s is stopping; start it when it is stopped.", m.Kind.noun(), m.Name)
	case m.State == MachineFailed:
		return Errorf(CodeConflict, "The %s %s has failed, and what is left of it is being ended; start it when that is done.", m.Kind.noun(), m.Name)
	}
	return Errorf(CodeConflict, "The %s %s is %s already.", m.Kind.noun(), m.Name, m.State)
}

// make begins another incarnation.
func (m *Machine) make(message string, now time.Time) {
	m.Incarnation++
	m.enter(MachineStarting, message, now)
	m.Made, m.Released = false, false
}

func (m *Machine) stop(message string, now time.Time) error {
	switch {
	case m.State == MachineStarting, m.State == MachineRunning, m.State == MachineFailed && !m.Released:
		m.Desired = MachineStopped
		m.enter(MachineStopping, message, now)
		return nil
	case m.State == MachineFailed:
		m.Desired = MachineStopped
		m.enter(MachineStopped, "", now)
		return nil
	}
	return Errorf(CodeConflict, "The %s %s is %s already.", m.Kind.noun(), m.Name, m.State)
}

// gone makes the machine again, a few times.
func (m *Machine) gone(message string, now time.Time) {
	if m.State != MachineStarting && m.State != MachineRunning {
		return
	}
	if m.State == MachineRunning && now.Sub(m.StateSince) >= steadyRun {
		m.Restarts = 0
	}
	if m.Restarts >= maxRestarts {
		m.enter(MachineFailed, fmt.Sprintf("It ended %d times by itself. %s", m.Restarts+1, message), now)
		return
	}
	m.Restarts++
	m.make(message, now)
}

func (m *Machine) released(now time.Time) {
	switch {
	case m.State == MachineStopping:
		m.Released = true
		m.enter(MachineStopped, m.Message, now)
	case m.State == MachineFailed && m.Desired == MachineStopped:
		m.Released = true
		m.enter(MachineStopped, "", now)
	case m.State == MachineFailed:
		m.Released, m.DueAt = true, nil
	}
}

// enter makes it the machine's state. The reconciler looks at it at once.
func (m *Machine) enter(s MachineState, message string, now time.Time) {
	m.State, m.Message, m.StateSince = s, message, now
	m.IdleSince, m.DueAt = nil, &now
}
