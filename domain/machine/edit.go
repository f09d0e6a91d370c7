package machine

import (
	"context"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// NewMachine describes the machine to create.
type NewMachine struct {
	Name     string
	Flavor   string
	AutoStop string // empty stands for 1h
	Image    string // empty stands for the provider's default
	Slots    int    // 0 stands for four for each core

	// Warehouses only.
	WriteEngine string     // empty stands for DefaultWriteEngine
	Nodes       *int       // nil stands for 1
	TrinoStart  TrinoStart // empty stands for TrinoFirstWrite
}

// Change changes the fields that are not nil. Flavor, image, slots and write engine change
// only while the machine is stopped. Setting the current image pins it again at the next start.
type Change struct {
	Name     *string
	AutoStop *string
	Slots    *int
	Flavor   *string
	Image    *string

	// Warehouses only.
	WriteEngine *string
	Nodes       *int
	TrinoStart  *TrinoStart
}

// MaxMachines bounds the machines of one kind in a workspace. It is far above a team's needs and
// stops runaway scripts.
const MaxMachines = 500

// Create creates a machine, which is stopped.
func (m *Machines) Create(ctx context.Context, s domain.Scope, n NewMachine, key domain.Idempotency) (machine Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbCreate)); err != nil {
		return Machine{}, err
	}
	settings, err := m.settings(ctx, s)
	if err != nil {
		return Machine{}, err
	}
	if machine, err = m.draft(s, n, settings); err != nil {
		return Machine{}, err
	}
	unknown := m.offered(ctx, settings, &machine)
	agent := machine.NewAgent()
	err = m.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, m.may(verbCreate), n, func() (domain.MachineID, error) {
			if unknown != nil {
				return "", unknown
			}
			return machine.ID, m.insert(ctx, tx, s, machine, agent)
		})
		if err != nil {
			return err
		}
		machine, err = tx.Machine(ctx, id)
		return err
	})
	return machine, err
}

// offered checks that the provider offers the new machine, and selects the write engine of a
// warehouse if it is empty.
func (m *Machines) offered(ctx context.Context, p ProviderSettings, machine *Machine) (err error) {
	if err := m.known(ctx, p, &machine.Flavor, &machine.Image); err != nil || machine.Kind != KindWarehouse {
		return err
	}
	if machine.WriteEngine, err = m.writeEngine(ctx, p, machine.Flavor, machine.WriteEngine); err != nil {
		return err
	}
	return machine.validEngine()
}

func (m *Machines) insert(ctx context.Context, tx Tx, s domain.Scope, machine Machine, agent Agent) error {
	if err := m.free(ctx, tx, machine.Name, ""); err != nil {
		return err
	}
	all, err := tx.Machines(ctx, m.Kind, "", MaxMachines)
	if err != nil {
		return err
	}
	if len(all) == MaxMachines {
		return domain.Errorf(domain.CodeConflict, "The workspace has %d of these, which is the maximum; delete one first.", MaxMachines)
	}
	if err := tx.InsertMachine(ctx, machine, agent); err != nil {
		return err
	}
	tx.Notify(domain.MachinesTopic(s.Workspace()))
	return domain.Audited(ctx, tx, s, m.may(verbCreate), string(m.Kind), machine.ID)
}

// free refuses a name that another machine has. A unique constraint catches concurrent requests.
func (m *Machines) free(ctx context.Context, tx Tx, name string, own domain.MachineID) error {
	taken, err := tx.MachineByName(ctx, m.Kind, name)
	if domain.IsCode(err, domain.CodeNotFound) || err == nil && taken.ID == own {
		return nil
	}
	if err != nil {
		return err
	}
	return domain.Errorf(domain.CodeConflict, "There is a %s named %q already; choose another name.", m.Kind.Noun(), name)
}

func (m *Machines) settings(ctx context.Context, s domain.Scope) (p ProviderSettings, err error) {
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		p, err = tx.Provider(ctx)
		return err
	})
	return p, err
}

func (m *Machines) draft(s domain.Scope, n NewMachine, p ProviderSettings) (Machine, error) {
	now := m.Clock.Now()
	machine := New(m.Kind, n.Name, n.Flavor, p, s.Actor(), now)
	machine.Image, machine.Slots, machine.WriteEngine = n.Image, n.Slots, n.WriteEngine
	domain.SetIfGiven(&machine.Nodes, n.Nodes)
	if n.TrinoStart != "" {
		machine.TrinoStart = n.TrinoStart
	}
	var err error
	if machine.AutoStop, err = ParseAutoStop(n.AutoStop); err != nil {
		return Machine{}, err
	}
	return machine, machine.validate()
}

// New returns a stopped machine of the kind with the usual settings.
func New(kind Kind, name, flavor string, p ProviderSettings, by domain.Actor, now time.Time) Machine {
	m := Machine{
		ID: domain.NewID[domain.MachineID](kind.Prefix()), Kind: kind, Name: name, Flavor: flavor, Provider: p.Kind, Region: p.Region, AutoStop: AutoStop1h,
		Nodes: 1, CreatedBy: by, CreatedAt: now, Desired: Stopped, State: Stopped, StateSince: now, Released: true,
	}
	if kind == KindWarehouse {
		m.WriteEngine, m.TrinoStart = EngineDuckDB, TrinoFirstWrite
	}
	return m
}

// NewAgent returns the machine's agent, with an unusable token.
func (m *Machine) NewAgent() Agent {
	agent := NewAgent(m.Name, m.CreatedAt)
	agent.MachineID, agent.TokenHash = m.ID, domain.HashSecret(NewAgentToken())
	m.AgentID = agent.ID
	return agent
}

func (m *Machine) validate() (err error) {
	if m.Name, err = domain.ValidName("name", m.Name); err != nil {
		return err
	}
	if strings.HasPrefix(m.Name, m.Kind.Prefix()+"_") {
		return domain.Invalid("name", "%q looks like an id; choose a name that does not begin with %s_.", m.Name, m.Kind.Prefix())
	}
	if err := domain.ValidText(m.Kind.size(), m.Flavor, domain.MaxNamed); err != nil {
		return err
	}
	if err := domain.ValidText("image", m.Image, domain.MaxNamed); err != nil {
		return err
	}
	return domain.ValidBound("slots", m.Slots, MaxSlots)
}

// Update changes a machine.
func (m *Machines) Update(ctx context.Context, s domain.Scope, id domain.MachineID, c Change) (machine Machine, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbUpdate)); err != nil {
		return Machine{}, err
	}
	wanted, err := m.offer(ctx, s, id, c)
	if err != nil {
		return Machine{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if err := machine.change(c, m.Clock.Now()); err != nil {
			return err
		}
		if wanted != nil && (machine.Flavor != wanted.Flavor || machine.WriteEngine != wanted.WriteEngine) {
			return domain.Errorf(domain.CodeConflict, "The %s %s was changed by another request at the same time; check it, and try again.", m.Kind.Noun(), machine.Name)
		}
		if err := m.free(ctx, tx, machine.Name, id); err != nil {
			return err
		}
		if err := tx.UpdateMachine(ctx, machine); err != nil {
			return err
		}
		tx.Notify(domain.MachinesTopic(s.Workspace()), domain.ReconcileTopic)
		return domain.Audited(ctx, tx, s, m.may(verbUpdate), string(m.Kind), id)
	})
	return machine, err
}

// offer checks that the provider offers the changed values. It returns the machine for which it
// checked size and write engine together; nil if neither changes.
func (m *Machines) offer(ctx context.Context, s domain.Scope, id domain.MachineID, c Change) (*Machine, error) {
	if c.Flavor == nil && c.Image == nil && c.WriteEngine == nil {
		return nil, nil
	}
	settings, err := m.settings(ctx, s)
	if err != nil {
		return nil, err
	}
	wanted, err := m.Get(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if err := m.known(ctx, settings, c.Flavor, c.Image); err != nil {
		return nil, err
	}
	if m.Kind != KindWarehouse || c.Flavor == nil && c.WriteEngine == nil {
		return nil, nil
	}
	domain.SetIfGiven(&wanted.Flavor, c.Flavor)
	domain.SetIfGiven(&wanted.WriteEngine, c.WriteEngine)
	_, err = m.writeEngine(ctx, settings, wanted.Flavor, wanted.WriteEngine)
	return &wanted, err
}

func (m *Machine) change(c Change, now time.Time) (err error) {
	if (c.Flavor != nil || c.Image != nil || c.Slots != nil || c.WriteEngine != nil) && !m.Resting() {
		return domain.Errorf(domain.CodeConflict, "The %s %s is %s; its %s change only while it is stopped.", m.Kind.Noun(), m.Name, m.State, m.Kind.fixed())
	}
	domain.SetIfGiven(&m.Name, c.Name)
	domain.SetIfGiven(&m.WriteEngine, c.WriteEngine)
	domain.SetIfGiven(&m.Nodes, c.Nodes)
	domain.SetIfGiven(&m.TrinoStart, c.TrinoStart)
	domain.SetIfGiven(&m.Slots, c.Slots)
	domain.SetIfGiven(&m.Flavor, c.Flavor)
	if c.Image != nil {
		m.Image, m.ImageRef = *c.Image, ""
	}
	if c.AutoStop != nil {
		if *c.AutoStop == "" {
			return domain.Invalid("auto_stop", "auto_stop is empty; it must be 30m, 1h, 2h or never.")
		}
		if m.AutoStop, err = ParseAutoStop(*c.AutoStop); err != nil {
			return err
		}
		if m.State == Running {
			m.DueAt = &now
		}
	}
	if err := m.validEngine(); err != nil {
		return err
	}
	return m.validate()
}
