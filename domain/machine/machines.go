package machine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// machineTx reads and writes machines, the bootstrap tokens of their agents, and their metrics.
type machineTx interface {
	Machine(ctx context.Context, id domain.MachineID) (Machine, error)
	// LockMachine returns the machine and its agent, both locked until the end of the transaction.
	LockMachine(ctx context.Context, id domain.MachineID) (Machine, Agent, error)
	MachineByName(ctx context.Context, kind Kind, name string) (Machine, error)
	// Machines returns machines, oldest first.
	Machines(ctx context.Context, kind Kind, after domain.MachineID, limit int) ([]Machine, error)
	// HurryHeld makes held statements due that wait for a time. It locks the workspace's maintenance.
	HurryHeld(ctx context.Context, now time.Time) error
	// ChangedMachines returns a page of changed machines, and whether there may be more. In the first
	// round it returns all.
	ChangedMachines(ctx context.Context, kind Kind, p domain.Position) ([]Machine, bool, error)
	MachinesByID(ctx context.Context, ids []domain.MachineID) ([]Machine, error)
	// InsertMachine adds the machine with its agent. It returns CodeConflict if the name is in use.
	InsertMachine(ctx context.Context, m Machine, agent Agent) error
	UpdateMachine(ctx context.Context, m Machine) error
	// DeleteMachine keeps the agent, which attempts refer to.
	DeleteMachine(ctx context.Context, id domain.MachineID) error
	// SetBootstrap sets the hash of the agent's bootstrap token.
	SetBootstrap(ctx context.Context, agent domain.AgentID, hash []byte, expires time.Time) error
	// TakeBootstrap consumes the token; false if it is no longer valid.
	TakeBootstrap(ctx context.Context, agent domain.AgentID, hash []byte, now time.Time) (bool, error)
	// SetEngines sets the engines of the agent's machine.
	SetEngines(ctx context.Context, agent domain.AgentID, engines []Engine) error
	// Busy returns the machine's work.
	Busy(ctx context.Context, id domain.MachineID) (Busy, error)
	// Prices returns the prices of the provider's flavors in the region at the time, by flavor.
	Prices(ctx context.Context, p ProviderKind, region string, at time.Time) (map[string]Price, error)
	SaveMetrics(ctx context.Context, id domain.MachineID, m Metrics) error
	// Metrics returns the metrics after since, up to and including until, oldest first.
	Metrics(ctx context.Context, id domain.MachineID, since, until time.Time) ([]Metrics, error)
}

// Machines manages the machines of one kind: it records their desired state. Reconciler carries it
// out.
type Machines struct {
	Kind      Kind
	Store     domain.Store[Tx]
	Topics    domain.Topics
	Clock     domain.Clock
	Providers Providers
	Host      string // the host of this server's own machines
}

// Providers are the providers of this server, by kind.
type Providers map[ProviderKind]Provider

// of returns the provider of the settings.
func (p Providers) of(kind ProviderKind) (Provider, error) {
	if found := p[kind]; found != nil {
		return found, nil
	}
	return nil, domain.Errorf(domain.CodeUnavailable, "This server has no provider %q; start it with --local-machines, or register another provider.", kind)
}

// verb is an operation on a machine; with its kind it forms an Action.
type verb string

const (
	verbRead   verb = "read"
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbStart  verb = "start"
	verbStop   verb = "stop"
	verbDelete verb = "delete"
)

func (m *Machines) may(v verb) domain.Action { return m.Kind.action(v) }

func (k Kind) action(v verb) domain.Action { return domain.Action(string(k) + "." + string(v)) }

// find returns the machine, if it is of this kind.
func (m *Machines) find(ctx context.Context, tx Tx, id domain.MachineID) (Machine, error) {
	found, err := tx.Machine(ctx, id)
	if err != nil || found.Kind != m.Kind {
		return Machine{}, m.missing(id, err)
	}
	return found, nil
}

func (m *Machines) lock(ctx context.Context, tx Tx, id domain.MachineID) (Machine, error) {
	found, _, err := tx.LockMachine(ctx, id)
	if err != nil || found.Kind != m.Kind {
		return Machine{}, m.missing(id, err)
	}
	return found, nil
}

func (m *Machines) missing(id domain.MachineID, err error) error {
	if err == nil || domain.IsCode(err, domain.CodeNotFound) {
		return domain.NotFound(m.Kind.Noun(), id)
	}
	return err
}

// Get returns one machine.
func (m *Machines) Get(ctx context.Context, s domain.Scope, id domain.MachineID) (found Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return Machine{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		found, err = m.find(ctx, tx, id)
		return err
	})
	return found, err
}

// List returns machines, oldest first.
func (m *Machines) List(ctx context.Context, s domain.Scope, p domain.Page) (domain.List[Machine], error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return domain.List[Machine]{}, err
	}
	list := string(m.Kind)
	after, limit, err := p.After(list)
	if err != nil {
		return domain.List[Machine]{}, err
	}
	var rows []Machine
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Machines(ctx, m.Kind, domain.MachineID(after), limit+1)
		return err
	})
	return domain.PageOf(list, rows, limit, func(m Machine) string { return string(m.ID) }), err
}

// ByID returns those machines with the given ids that are in the workspace and of this kind.
func (m *Machines) ByID(ctx context.Context, s domain.Scope, ids []domain.MachineID) (machines []Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		machines, err = tx.MachinesByID(ctx, ids)
		return err
	})
	return slices.DeleteFunc(machines, func(f Machine) bool { return f.Kind != m.Kind }), err
}

// ChangedSince returns machines that changed since the position: all in the first round.
func (m *Machines) ChangedSince(ctx context.Context, s domain.Scope, p domain.Position) (domain.Changes[Machine], error) {
	read := func(tx Tx, ctx context.Context, p domain.Position) ([]Machine, bool, error) {
		return tx.ChangedMachines(ctx, m.Kind, p)
	}
	return domain.ChangedSince(ctx, m.Store, s, m.may(verbRead), p, read)
}

// Follow returns a follower of the machines, which returns all of them first. Deletions are not
// reported.
func (m *Machines) Follow(s domain.Scope) *domain.Follower[Machine] {
	read := func(ctx context.Context, p domain.Position) (domain.Changes[Machine], error) {
		return m.ChangedSince(ctx, s, p)
	}
	return domain.Follow(m.Clock.Now(), read, nil, nil)
}

// Watch wakes the channel whenever a machine of the workspace may have changed.
func (m *Machines) Watch(ctx context.Context, s domain.Scope) (wake <-chan struct{}, stop func(), err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, nil, err
	}
	wake, stop = m.Topics.Subscribe(domain.MachinesTopic(s.Workspace()))
	return wake, stop, nil
}

// Start starts a stopped or failed machine.
func (m *Machines) Start(ctx context.Context, s domain.Scope, id domain.MachineID, key domain.Idempotency) (machine Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbStart)); err != nil {
		return Machine{}, err
	}
	full := m.fits(ctx, s, id)
	err = m.Store.In(ctx, s, func(tx Tx) error {
		_, err := domain.Once(ctx, tx, s, key, m.may(verbStart), id, func() (domain.MachineID, error) {
			if full != nil {
				return "", full
			}
			machine, err := m.lock(ctx, tx, id)
			if err != nil {
				return "", err
			}
			return id, Start(ctx, tx, s, &machine, "Started by "+s.Actor().Who()+".", m.Clock.Now())
		})
		if err != nil {
			return err
		}
		machine, err = m.find(ctx, tx, id)
		return err
	})
	return machine, err
}

// Start starts a locked machine.
func Start(ctx context.Context, tx Tx, s domain.Scope, m *Machine, why string, now time.Time) error {
	if err := m.Apply(EventStart, why, now); err != nil {
		return err
	}
	return saveMachine(ctx, tx, s, *m, verbStart)
}

// saveMachine writes the machine, notifies its watchers, and audits the change.
func saveMachine(ctx context.Context, tx Tx, s domain.Scope, m Machine, v verb) error {
	if err := tx.UpdateMachine(ctx, m); err != nil {
		return err
	}
	tx.Notify(domain.MachinesTopic(s.Workspace()), domain.ReconcileTopic)
	return domain.Audited(ctx, tx, s, m.Kind.action(v), string(m.Kind), m.ID)
}

// Stop stops a machine. It cancels running work first.
func (m *Machines) Stop(ctx context.Context, s domain.Scope, id domain.MachineID) (machine Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbStop)); err != nil {
		return Machine{}, err
	}
	now := m.Clock.Now()
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if err := machine.Apply(EventStop, "Stopped by "+s.Actor().Who()+".", now); err != nil {
			return err
		}
		machine.HeldAt = &now
		return saveMachine(ctx, tx, s, machine, verbStop)
	})
	return machine, err
}

// Delete removes a stopped or failed machine. Tasks that wait for it fail.
func (m *Machines) Delete(ctx context.Context, s domain.Scope, id domain.MachineID) error {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbDelete)); err != nil {
		return err
	}
	var machine Machine
	err := m.Store.In(ctx, s, func(tx Tx) (err error) {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if !machine.Resting() {
			return machine.busy()
		}
		if err := tx.DeleteMachine(ctx, id); err != nil {
			return err
		}
		tx.Notify(domain.MachinesTopic(s.Workspace()), domain.ReconcileTopic, domain.DispatchTopic)
		return domain.Audited(ctx, tx, s, m.may(verbDelete), string(m.Kind), id)
	})
	if provider := m.Providers[machine.Provider]; err == nil && provider != nil {
		_ = provider.Remove(ctx, Ref{Workspace: s.Workspace(), Machine: id, Incarnation: machine.Incarnation}) // if this fails, Reconciler.Sweep removes it
	}
	return err
}

// busy returns why the machine cannot be deleted.
func (m *Machine) busy() error {
	what := "stop it first, and delete it when it is stopped"
	switch m.State {
	case Stopping:
		what = "delete it when it is stopped"
	case Failed:
		what = "its remains are being removed; delete it when that is done"
	}
	return domain.Errorf(domain.CodeConflict, "The %s %s is %s: %s.", m.Kind.Noun(), m.Name, m.State, what)
}

// Log returns the last bytes of the agent's log, at most limit. The log of a machine that never
// started is empty.
func (m *Machines) Log(ctx context.Context, s domain.Scope, id domain.MachineID, limit int) ([]byte, error) {
	machine, err := m.Get(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > MaxLog {
		return nil, domain.Invalid("bytes", "bytes is %d; it must be from 1 to %d.", limit, MaxLog)
	}
	if machine.Host != "" && machine.Host != m.Host {
		return nil, domain.Errorf(domain.CodeUnavailable, "The log of %s is on the host that it runs on, and this server is on another; ask the server there.", machine.Name)
	}
	if machine.Incarnation == 0 {
		return nil, nil
	}
	provider, err := m.Providers.of(machine.Provider)
	if err != nil {
		return nil, err
	}
	return provider.Log(ctx, Ref{Workspace: s.Workspace(), Machine: id, Incarnation: machine.Incarnation}, limit)
}

// MaxLog bounds the limit of Log, in bytes.
const MaxLog = 1 << 20

// Find finds a machine of the kind by its id or its name.
func Find(ctx context.Context, tx Tx, kind Kind, ref string) (Machine, error) {
	if strings.HasPrefix(ref, kind.Prefix()+"_") {
		m, err := tx.Machine(ctx, domain.MachineID(ref))
		if !domain.IsCode(err, domain.CodeNotFound) {
			return m, err
		}
	}
	return tx.MachineByName(ctx, kind, ref)
}
