package domain

import (
	"context"
	"slices"
	"time"
)

// MachineTx reads and writes machines, their agents' ways in, and how much of them is used.
type MachineTx interface {
	Machine(ctx context.Context, id MachineID) (Machine, error)
	// LockMachine returns the machine and its agent, both locked until the end of the transaction.
	LockMachine(ctx context.Context, id MachineID) (Machine, Agent, error)
	MachineByName(ctx context.Context, kind MachineKind, name string) (Machine, error)
	// Machines are oldest first.
	Machines(ctx context.Context, kind MachineKind, after MachineID, limit int) ([]Machine, error)
	MachinesByID(ctx context.Context, ids []MachineID) ([]Machine, error)
	// InsertMachine adds the machine with its agent. It refuses a name that is taken with CodeConflict.
	InsertMachine(ctx context.Context, m Machine, agent Agent) error
	UpdateMachine(ctx context.Context, m Machine) error
	// DeleteMachine keeps the agent: attempts tell where they ran.
	DeleteMachine(ctx context.Context, id MachineID) error
	// SetBootstrap makes the token with the hash the one that the agent may come with.
	SetBootstrap(ctx context.Context, agent AgentID, hash []byte, expires time.Time) error
	// TakeBootstrap uses the token up; false says that there is none such any more.
	TakeBootstrap(ctx context.Context, agent AgentID, hash []byte, now time.Time) (bool, error)
	SetEngines(ctx context.Context, agent AgentID, engines []Engine) error
	// WaitingRuns have a queued task that is to run on the machine.
	WaitingRuns(ctx context.Context, id MachineID) ([]RunID, error)
	// Prices are those of the provider's flavors in the region at the time given, by flavor.
	Prices(ctx context.Context, p ProviderKind, region string, at time.Time) (map[string]Price, error)
	SaveMetrics(ctx context.Context, id MachineID, m MachineMetrics) error
	// Metrics are those after since and not after until, oldest first.
	Metrics(ctx context.Context, id MachineID, since, until time.Time) ([]MachineMetrics, error)
}

// Machines keeps the machines of one kind: it says what is wanted of them. The Reconciler makes it so.
type Machines struct {
	Kind      MachineKind
	Store     Store
	Topics    Topics
	Clock     Clock
	Providers Providers
	Host      string // of this server's own machines
}

// Providers are those that this server has, by their kind.
type Providers map[ProviderKind]Provider

// of returns the provider of the settings.
func (p Providers) of(kind ProviderKind) (Provider, error) {
	if found := p[kind]; found != nil {
		return found, nil
	}
	return nil, Errorf(CodeUnavailable, "This server has no provider %q; start it with --local-machines, or register another provider.", kind)
}

// verb is what is done to a machine; with its kind it is an Action.
type verb string

const (
	verbRead   verb = "read"
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbStart  verb = "start"
	verbStop   verb = "stop"
	verbDelete verb = "delete"
)

func (m *Machines) may(v verb) Action { return m.Kind.action(v) }

func (k MachineKind) action(v verb) Action { return Action(string(k) + "." + string(v)) }

// find returns the machine, if it is of this kind.
func (m *Machines) find(ctx context.Context, tx Tx, id MachineID) (Machine, error) {
	found, err := tx.Machine(ctx, id)
	if err != nil || found.Kind != m.Kind {
		return Machine{}, m.missing(id, err)
	}
	return found, nil
}

func (m *Machines) lock(ctx context.Context, tx Tx, id MachineID) (Machine, error) {
	found, _, err := tx.LockMachine(ctx, id)
	if err != nil || found.Kind != m.Kind {
		return Machine{}, m.missing(id, err)
	}
	return found, nil
}

func (m *Machines) missing(id MachineID, err error) error {
	if err == nil || IsCode(err, CodeNotFound) {
		return NotFound(m.Kind.noun(), id)
	}
	return err
}

// Get returns one machine.
func (m *Machines) Get(ctx context.Context, s Scope, id MachineID) (found Machine, err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return Machine{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = m.find(ctx, tx, id)
		return err
	})
	return found, err
}

// List returns machines, oldest first.
func (m *Machines) List(ctx context.Context, s Scope, p Page) (List[Machine], error) {
	if err := authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return List[Machine]{}, err
	}
	list := string(m.Kind)
	after, limit, err := p.after(list)
	if err != nil {
		return List[Machine]{}, err
	}
	var rows []Machine
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Machines(ctx, m.Kind, MachineID(after), limit+1)
		return err
	})
	return page(list, rows, limit, func(m Machine) string { return string(m.ID) }), err
}

// ByID returns those of the machines that are in the workspace, of this kind.
func (m *Machines) ByID(ctx context.Context, s Scope, ids []MachineID) (machines []Machine, err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		machines, err = tx.MachinesByID(ctx, ids)
		return err
	})
	return slices.DeleteFunc(machines, func(f Machine) bool { return f.Kind != m.Kind }), err
}

// Watch wakes the channel whenever a machine of the workspace may have changed.
func (m *Machines) Watch(ctx context.Context, s Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, nil, err
	}
	wake, stop = m.Topics.Subscribe(MachinesTopic(s.workspace))
	return wake, stop, nil
}

// Start starts a stopped machine, or one that has failed.
func (m *Machines) Start(ctx context.Context, s Scope, id MachineID, key Idempotency) (machine Machine, err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbStart)); err != nil {
		return Machine{}, err
	}
	full := m.fits(ctx, s, id)
	err = m.Store.In(ctx, s, func(tx Tx) error {
		_, err := once(ctx, tx, s, key, m.may(verbStart), id, func() (MachineID, error) {
			if full != nil {
				return "", full
			}
			machine, err := m.lock(ctx, tx, id)
			if err != nil {
				return "", err
			}
			return id, startMachine(ctx, tx, s, &machine, "Started by "+s.actor.who()+".", m.Clock.Now())
		})
		if err != nil {
			return err
		}
		machine, err = m.find(ctx, tx, id)
		return err
	})
	return machine, err
}

// startMachine starts a locked machine.
func startMachine(ctx context.Context, tx Tx, s Scope, m *Machine, why string, now time.Time) error {
	if err := m.Apply(EventStart, why, now); err != nil {
		return err
	}
	return saveMachine(ctx, tx, s, *m, verbStart)
}

// saveMachine writes the machine, wakes who waits for it, and audits.
func saveMachine(ctx context.Context, tx Tx, s Scope, m Machine, v verb) error {
	if err := tx.UpdateMachine(ctx, m); err != nil {
		return err
	}
	tx.Notify(MachinesTopic(s.workspace), ReconcileTopic)
	return audited(ctx, tx, s, m.Kind.action(v), string(m.Kind), m.ID)
}

// Stop stops a machine. What runs on it is cancelled first.
func (m *Machines) Stop(ctx context.Context, s Scope, id MachineID) (machine Machine, err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbStop)); err != nil {
		return Machine{}, err
	}
	now := m.Clock.Now()
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if err := machine.Apply(EventStop, "Stopped by "+s.actor.who()+".", now); err != nil {
			return err
		}
		machine.HeldAt = &now
		return saveMachine(ctx, tx, s, machine, verbStop)
	})
	return machine, err
}

// Delete removes a machine of which nothing is left running. Tasks that wait for it fail.
func (m *Machines) Delete(ctx context.Context, s Scope, id MachineID) error {
	if err := authorize(ctx, m.Store, s, m.may(verbDelete)); err != nil {
		return err
	}
	var machine Machine
	err := m.Store.In(ctx, s, func(tx Tx) (err error) {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if !machine.resting() {
			return machine.busy()
		}
		if err := tx.DeleteMachine(ctx, id); err != nil {
			return err
		}
		tx.Notify(MachinesTopic(s.workspace), ReconcileTopic, DispatchTopic)
		return audited(ctx, tx, s, m.may(verbDelete), string(m.Kind), id)
	})
	if provider := m.Providers[machine.Provider]; err == nil && provider != nil {
		_ = provider.Remove(ctx, MachineRef{Workspace: s.workspace, Machine: id, Incarnation: machine.Incarnation}) // else Reconciler.Sweep does
	}
	return err
}

// busy says why the machine cannot be deleted.
func (m *Machine) busy() error {
	what := "stop it first, and delete it when it is stopped"
	switch m.State {
	case MachineStopping:
		what = "delete it when it is stopped"
	case MachineFailed:
		what = "what is left of it is being ended; delete it when that is done"
	}
	return Errorf(CodeConflict, "The %s %s is %s: %s.", m.Kind.noun(), m.Name, m.State, what)
}

// Log is the end of what the machine's agent has logged, limit bytes at most. A machine that never started has an empty one.
func (m *Machines) Log(ctx context.Context, s Scope, id MachineID, limit int) ([]byte, error) {
	machine, err := m.Get(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > MaxMachineLog {
		return nil, Invalid("bytes", "bytes is %d; it must be from 1 to %d.", limit, MaxMachineLog)
	}
	if machine.Host != "" && machine.Host != m.Host {
		return nil, Errorf(CodeUnavailable, "The log of %s lies on the host that it runs on, and this server is on another; ask the server there.", machine.Name)
	}
	if machine.Incarnation == 0 {
		return nil, nil
	}
	provider, err := m.Providers.of(machine.Provider)
	if err != nil {
		return nil, err
	}
	return provider.Log(ctx, MachineRef{Workspace: s.workspace, Machine: id, Incarnation: machine.Incarnation}, limit)
}

// MaxMachineLog is how many bytes of a machine's log are shown at most.
const MaxMachineLog = 1 << 20
