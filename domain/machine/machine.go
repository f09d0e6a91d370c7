// Package machine has the machines of a workspace, compute instances and warehouses: their life
// cycle, their providers and their agents.
package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// Kind is what a machine is for.
type Kind string

// The kinds of machines: two nouns with one life cycle.
const (
	KindCompute   Kind = "compute"   // runs tasks
	KindWarehouse Kind = "warehouse" // runs SQL and nothing else
)

// KindOf returns the kind of a machine, from its id.
func KindOf(id domain.MachineID) Kind {
	if strings.HasPrefix(string(id), domain.PrefixWarehouse+"_") {
		return KindWarehouse
	}
	return KindCompute
}

// Noun returns the machine's name in messages.
func (k Kind) Noun() string {
	if k == KindWarehouse {
		return "warehouse"
	}
	return "compute instance"
}

// size returns the name of its flavor in messages.
func (k Kind) size() string {
	if k == KindWarehouse {
		return "size"
	}
	return "flavor"
}

// fixed lists the fields that change only while the machine is stopped.
func (k Kind) fixed() string {
	if k == KindWarehouse {
		return "size, image, slots and write engine"
	}
	return "flavor, image and slots"
}

func (k Kind) Prefix() string {
	if k == KindWarehouse {
		return domain.PrefixWarehouse
	}
	return domain.PrefixCompute
}

// State is the last observed state of a machine.
type State string

// The states of a machine. Running means that its agent is connected and ready.
const (
	Stopped  State = "stopped"
	Starting State = "starting"
	Running  State = "running"
	Stopping State = "stopping"
	Failed   State = "failed" // Message says why; it can be started again
)

// States lists the states of a machine.
var States = []State{Stopped, Starting, Running, Stopping, Failed}

// AutoStop is how long a machine may be idle before it is stopped.
type AutoStop string

// The choices, from the specification.
const (
	AutoStop30m   AutoStop = "30m"
	AutoStop1h    AutoStop = "1h" // the default
	AutoStop2h    AutoStop = "2h"
	AutoStopNever AutoStop = "never"
)

// ParseAutoStop parses an auto-stop setting; empty stands for 1h.
func ParseAutoStop(s string) (AutoStop, error) {
	switch a := AutoStop(s); a {
	case "":
		return AutoStop1h, nil
	case AutoStop30m, AutoStop1h, AutoStop2h, AutoStopNever:
		return a, nil
	}
	return "", domain.Invalid("auto_stop", "auto_stop is %q; it must be 30m, 1h, 2h or never.", s)
}

// after returns the duration; ok is false for never.
func (a AutoStop) after() (d time.Duration, ok bool) {
	d, err := time.ParseDuration(string(a))
	return d, err == nil
}

// Machine is a compute instance or a warehouse: its desired state and its observed state.
type Machine struct {
	ID          domain.MachineID
	Kind        Kind
	Name        string // unique within its kind
	Flavor      string // a warehouse's size
	Provider    ProviderKind
	Region      string
	Image       string // as requested; empty stands for the provider's default
	ImageRef    string // immutable; empty until the first start
	AutoStop    AutoStop
	Slots       int        // tasks at once; 0 stands for four for each core
	WriteEngine string     // warehouses only: duckdb or trino
	Nodes       int        // warehouses: Trino's coordinator and workers; otherwise 1
	TrinoStart  TrinoStart // warehouses only
	// Engines is the last report of its agent, empty before the first start. EnginesNow shows it.
	Engines []Engine
	AgentID domain.AgentID
	// Host is the server's host that runs it, if the provider is a server's own machine; empty
	// before.
	Host       string
	CreatedBy  domain.Actor
	CreatedAt  time.Time
	LastUsedAt *time.Time // when work last began or ended

	Desired     State // stopped or running, as last requested
	State       State
	Message     string        // why it failed, or what it is doing
	StateSince  time.Time     // of State
	Incarnation int           // counts its starts, including restarts
	Restarts    int           // number of restarts after unexpected ends since the last start
	Made        bool          // the provider has made this incarnation
	Released    bool          // the provider holds nothing of it any more
	IdleSince   *time.Time    // set while it runs idle
	HeldAt      *time.Time    // when a person stopped it: older runs do not start it
	DueAt       *time.Time    // when the reconciler must check it; nil at rest
	Changed     domain.Change // set when read
}

// LastChange implements domain.Changing.
func (m Machine) LastChange() (domain.Change, string) { return m.Changed, string(m.ID) }

// AutoStopAt returns when the idle machine stops; nil while it is busy, or if it never stops by
// itself.
func (m Machine) AutoStopAt() *time.Time {
	after, ok := m.AutoStop.after()
	if m.State != Running || m.IdleSince == nil || !ok {
		return nil
	}
	at := m.IdleSince.Add(after)
	return &at
}

// Resting reports whether the machine is stopped or failed, and nothing of it remains.
func (m *Machine) Resting() bool {
	return m.Released && (m.State == Stopped || m.State == Failed)
}

// Event is something that happens to a machine.
type Event string

// The events.
const (
	EventStart    Event = "start"    // a person or a waiting task requests it
	EventStop     Event = "stop"     // a person stopped it, or it was idle for too long
	EventReady    Event = "ready"    // its agent is connected
	EventGone     Event = "gone"     // it ended by itself, or its agent is silent
	EventReleased Event = "released" // the provider holds nothing of it any more
	EventRefused  Event = "refused"  // the provider will not make it
	EventLate     Event = "late"     // its deadline has passed
)

// Events lists the events.
var Events = []Event{EventStart, EventStop, EventReady, EventGone, EventReleased, EventRefused, EventLate}

// A machine that ends by itself restarts at most maxRestarts times. After steadyRun the count
// begins again.
const (
	maxRestarts = 3
	steadyRun   = 10 * time.Minute
)

// Apply applies an event to the machine's state. It returns CodeConflict for a start or a stop that
// the state does not allow. Other events without a meaning in the state change nothing. The message
// explains the event to people.
func (m *Machine) Apply(e Event, message string, now time.Time) error {
	switch e {
	case EventStart:
		return m.start(message, now)
	case EventStop:
		return m.stop(message, now)
	case EventReady:
		if m.State == Starting {
			m.enter(Running, "", now)
			m.IdleSince = &now
		}
	case EventGone:
		m.gone(message, now)
	case EventReleased:
		m.released(now)
	case EventRefused:
		if m.State == Starting {
			m.enter(Failed, message, now)
		}
	case EventLate:
		if m.State == Starting || m.State == Stopping {
			m.enter(Failed, message, now)
		}
	}
	return nil
}

func (m *Machine) start(message string, now time.Time) error {
	switch {
	case m.Resting():
		m.Desired, m.Restarts, m.HeldAt = Running, 0, nil
		m.make(message, now)
		return nil
	case m.State == Stopping:
		return domain.Errorf(domain.CodeConflict, "The %s %s is stopping; start it when it is stopped.", m.Kind.Noun(), m.Name)
	case m.State == Failed:
		return domain.Errorf(domain.CodeConflict, "The %s %s has failed, and its remains are being removed; start it when that is done.", m.Kind.Noun(), m.Name)
	}
	return domain.Errorf(domain.CodeConflict, "The %s %s is %s already.", m.Kind.Noun(), m.Name, m.State)
}

// make begins a new incarnation.
func (m *Machine) make(message string, now time.Time) {
	m.Incarnation++
	m.enter(Starting, message, now)
	m.Made, m.Released = false, false
}

func (m *Machine) stop(message string, now time.Time) error {
	switch {
	case m.State == Starting, m.State == Running, m.State == Failed && !m.Released:
		m.Desired = Stopped
		m.enter(Stopping, message, now)
		return nil
	case m.State == Failed:
		m.Desired = Stopped
		m.enter(Stopped, "", now)
		return nil
	}
	return domain.Errorf(domain.CodeConflict, "The %s %s is %s already.", m.Kind.Noun(), m.Name, m.State)
}

// gone restarts the machine, up to maxRestarts times.
func (m *Machine) gone(message string, now time.Time) {
	if m.State != Starting && m.State != Running {
		return
	}
	if m.State == Running && now.Sub(m.StateSince) >= steadyRun {
		m.Restarts = 0
	}
	if m.Restarts >= maxRestarts {
		m.enter(Failed, fmt.Sprintf("It ended %d times by itself. %s", m.Restarts+1, message), now)
		return
	}
	m.Restarts++
	m.make(message, now)
}

func (m *Machine) released(now time.Time) {
	switch {
	case m.State == Stopping:
		m.Released = true
		m.enter(Stopped, m.Message, now)
	case m.State == Failed && m.Desired == Stopped:
		m.Released = true
		m.enter(Stopped, "", now)
	case m.State == Failed:
		m.Released, m.DueAt = true, nil
	}
}

// enter sets the machine's state and makes the reconciler check it immediately.
func (m *Machine) enter(s State, message string, now time.Time) {
	m.State, m.Message, m.StateSince = s, message, now
	m.IdleSince, m.DueAt = nil, &now
}

// Blocked returns the message of tasks that wait for a machine that a person has stopped.
func (m *Machine) Blocked() string {
	return fmt.Sprintf("Waits for the compute instance %s, which was stopped. Start it, or cancel the run.", m.Name)
}
