package domain

import (
	"context"
	"strings"
	"time"
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

// MachineChange changes the fields that are not nil. Flavor, image, slots and write engine change
// only while the machine is stopped. Setting the current image pins it again at the next start.
type MachineChange struct {
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

// maxMachines bounds the machines of one kind in a workspace. It is far above a team's needs and
// stops runaway scripts.
const maxMachines = 500

// Create creates a machine, which is stopped.
func (m *Machines) Create(ctx context.Context, s Scope, n NewMachine, key Idempotency) (machine Machine, err error) {
	if err := Authorize(ctx, m.Store, s, m.may(verbCreate)); err != nil {
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
	agent := machine.newAgent()
	err = m.Store.In(ctx, s, func(tx MachineModTx) error {
		id, err := Once(ctx, tx, s, key, m.may(verbCreate), n, func() (MachineID, error) {
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

func (m *Machines) insert(ctx context.Context, tx MachineModTx, s Scope, machine Machine, agent Agent) error {
	if err := m.free(ctx, tx, machine.Name, ""); err != nil {
		return err
	}
	all, err := tx.Machines(ctx, m.Kind, "", maxMachines)
	if err != nil {
		return err
	}
	if len(all) == maxMachines {
		return Errorf(CodeConflict, "The workspace has %d of these, which is the maximum; delete one first.", maxMachines)
	}
	if err := tx.InsertMachine(ctx, machine, agent); err != nil {
		return err
	}
	tx.Notify(MachinesTopic(s.Workspace()))
	return Audited(ctx, tx, s, m.may(verbCreate), string(m.Kind), machine.ID)
}

// free refuses a name that another machine has. A unique constraint catches concurrent requests.
func (m *Machines) free(ctx context.Context, tx MachineModTx, name string, own MachineID) error {
	taken, err := tx.MachineByName(ctx, m.Kind, name)
	if IsCode(err, CodeNotFound) || err == nil && taken.ID == own {
		return nil
	}
	if err != nil {
		return err
	}
	return Errorf(CodeConflict, "There is a %s named %q already; choose another name.", m.Kind.noun(), name)
}

func (m *Machines) settings(ctx context.Context, s Scope) (p ProviderSettings, err error) {
	err = m.Store.In(ctx, s, func(tx MachineModTx) (err error) {
		p, err = tx.Provider(ctx)
		return err
	})
	return p, err
}

func (m *Machines) draft(s Scope, n NewMachine, p ProviderSettings) (Machine, error) {
	now := m.Clock.Now()
	machine := newMachine(m.Kind, n.Name, n.Flavor, p, s.Actor(), now)
	machine.Image, machine.Slots, machine.WriteEngine = n.Image, n.Slots, n.WriteEngine
	SetIfGiven(&machine.Nodes, n.Nodes)
	if n.TrinoStart != "" {
		machine.TrinoStart = n.TrinoStart
	}
	var err error
	if machine.AutoStop, err = ParseAutoStop(n.AutoStop); err != nil {
		return Machine{}, err
	}
	return machine, machine.validate()
}

func newMachine(kind MachineKind, name, flavor string, p ProviderSettings, by Actor, now time.Time) Machine {
	m := Machine{
		ID: NewID[MachineID](kind.prefix()), Kind: kind, Name: name, Flavor: flavor, Provider: p.Kind, Region: p.Region, AutoStop: AutoStop1h,
		Nodes: 1, CreatedBy: by, CreatedAt: now, Desired: MachineStopped, State: MachineStopped, StateSince: now, Released: true,
	}
	if kind == KindWarehouse {
		m.WriteEngine, m.TrinoStart = EngineDuckDB, TrinoFirstWrite
	}
	return m
}

// newAgent returns the machine's agent, with an unusable token.
func (m *Machine) newAgent() Agent {
	agent := NewAgent(m.Name, m.CreatedAt)
	agent.MachineID, agent.TokenHash = m.ID, HashSecret(NewAgentToken())
	m.AgentID = agent.ID
	return agent
}

func (m *Machine) validate() (err error) {
	if m.Name, err = ValidName("name", m.Name); err != nil {
		return err
	}
	if strings.HasPrefix(m.Name, m.Kind.prefix()+"_") {
		return Invalid("name", "%q looks like an id; choose a name that does not begin with %s_.", m.Name, m.Kind.prefix())
	}
	if err := ValidText(m.Kind.size(), m.Flavor, MaxNamed); err != nil {
		return err
	}
	if err := ValidText("image", m.Image, MaxNamed); err != nil {
		return err
	}
	return ValidBound("slots", m.Slots, maxSlots)
}

// Update changes a machine.
func (m *Machines) Update(ctx context.Context, s Scope, id MachineID, c MachineChange) (machine Machine, err error) {
	if err := Authorize(ctx, m.Store, s, m.may(verbUpdate)); err != nil {
		return Machine{}, err
	}
	wanted, err := m.offer(ctx, s, id, c)
	if err != nil {
		return Machine{}, err
	}
	err = m.Store.In(ctx, s, func(tx MachineModTx) error {
		if machine, err = m.lock(ctx, tx, id); err != nil {
			return err
		}
		if err := machine.change(c, m.Clock.Now()); err != nil {
			return err
		}
		if wanted != nil && (machine.Flavor != wanted.Flavor || machine.WriteEngine != wanted.WriteEngine) {
			return Errorf(CodeConflict, "The %s %s was changed by another request at the same time; check it, and try again.", m.Kind.noun(), machine.Name)
		}
		if err := m.free(ctx, tx, machine.Name, id); err != nil {
			return err
		}
		if err := tx.UpdateMachine(ctx, machine); err != nil {
			return err
		}
		tx.Notify(MachinesTopic(s.Workspace()), ReconcileTopic)
		return Audited(ctx, tx, s, m.may(verbUpdate), string(m.Kind), id)
	})
	return machine, err
}

// offer checks that the provider offers the changed values. It returns the machine for which it
// checked size and write engine together; nil if neither changes.
func (m *Machines) offer(ctx context.Context, s Scope, id MachineID, c MachineChange) (*Machine, error) {
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
	SetIfGiven(&wanted.Flavor, c.Flavor)
	SetIfGiven(&wanted.WriteEngine, c.WriteEngine)
	_, err = m.writeEngine(ctx, settings, wanted.Flavor, wanted.WriteEngine)
	return &wanted, err
}

func (m *Machine) change(c MachineChange, now time.Time) (err error) {
	if (c.Flavor != nil || c.Image != nil || c.Slots != nil || c.WriteEngine != nil) && !m.resting() {
		return Errorf(CodeConflict, "The %s %s is %s; its %s change only while it is stopped.", m.Kind.noun(), m.Name, m.State, m.Kind.fixed())
	}
	SetIfGiven(&m.Name, c.Name)
	SetIfGiven(&m.WriteEngine, c.WriteEngine)
	SetIfGiven(&m.Nodes, c.Nodes)
	SetIfGiven(&m.TrinoStart, c.TrinoStart)
	SetIfGiven(&m.Slots, c.Slots)
	SetIfGiven(&m.Flavor, c.Flavor)
	if c.Image != nil {
		m.Image, m.ImageRef = *c.Image, ""
	}
	if c.AutoStop != nil {
		if *c.AutoStop == "" {
			return Invalid("auto_stop", "auto_stop is empty; it must be 30m, 1h, 2h or never.")
		}
		if m.AutoStop, err = ParseAutoStop(*c.AutoStop); err != nil {
			return err
		}
		if m.State == MachineRunning {
			m.DueAt = &now
		}
	}
	if err := m.validEngine(); err != nil {
		return err
	}
	return m.validate()
}
