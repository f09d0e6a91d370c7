package graph

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/graph/model"
)

// computeOf returns the compute instance with the id; nil without an id, and if it is deleted.
func (r *Resolver) computeOf(ctx context.Context, id domain.MachineID) (*model.Compute, error) {
	if id == "" {
		return nil, nil
	}
	m, err := r.loaders(ctx).Compute(ctx, id)
	if err != nil || m == nil {
		return nil, err
	}
	compute := model.NewCompute(*m)
	return &compute, nil
}

// agentOf returns the machine's own agent.
func (r *Resolver) agentOf(ctx context.Context, m machine.Machine) (*machine.Agent, error) {
	return r.loaders(ctx).Agent(ctx, m.AgentID)
}

// flavorOf returns the machine's flavor. It is zero if the workspace's provider does not have it,
// or is not available on this server.
func (r *Resolver) flavorOf(ctx context.Context, m machine.Machine) (model.Flavor, error) {
	flavor, err := r.loaders(ctx).Flavor(ctx, m.Flavor)
	if domain.IsCode(err, domain.CodeUnavailable) {
		return model.Flavor{}, nil
	}
	return model.Flavor{Flavor: flavor}, err
}

func machineMetrics(ctx context.Context, machines *machine.Machines, id domain.MachineID, since *time.Time) ([]machine.Metrics, error) {
	all, err := machines.Metrics(ctx, scopeOf(ctx), id, value(since))
	if err != nil {
		return nil, err
	}
	return all, affordRows(ctx, len(all))
}

func machineLog(ctx context.Context, machines *machine.Machines, id domain.MachineID, bytes int) ([]byte, error) {
	if err := affordTail(ctx, bytes); err != nil {
		return nil, err
	}
	log, err := machines.Log(ctx, scopeOf(ctx), id, bytes)
	return append([]byte{}, log...), err
}

// watchMachines sends the machines of one kind, and their changes.
func watchMachines[T any](ctx context.Context, s *server, machines *machine.Machines, show func(machine.Machine) T) (<-chan T, error) {
	wake, stop, err := machines.Watch(ctx, scopeOf(ctx))
	if err != nil {
		return nil, err
	}
	return follow(ctx, s, wake, stop, machines.Follow(scopeOf(ctx)).Each, show)
}

// newSamples finds a machine's samples since its last read.
type newSamples struct {
	machines *machine.Machines // of the machine's kind; set by watch
	scope    domain.Scope
	id       domain.MachineID
	since    time.Time
}

// watch finds the machine among the kinds, and wakes the channel on each new sample.
func (n *newSamples) watch(ctx context.Context, kinds ...*machine.Machines) (wake <-chan struct{}, stop func(), err error) {
	for _, n.machines = range kinds {
		wake, stop, err = n.machines.WatchMetrics(ctx, n.scope, n.id)
		if !domain.IsCode(err, domain.CodeNotFound) {
			return wake, stop, err
		}
	}
	return nil, nil, domain.NotFound("machine", n.id)
}

func (n *newSamples) next(ctx context.Context) ([]machine.Metrics, error) {
	all, err := n.machines.Metrics(ctx, n.scope, n.id, n.since)
	if len(all) > 0 {
		n.since = all[len(all)-1].At
	}
	return all, err
}

// warehouseOf returns the warehouse with the id; nil if it is deleted.
func (r *Resolver) warehouseOf(ctx context.Context, id domain.MachineID) (*model.Warehouse, error) {
	m, err := r.loaders(ctx).Warehouse(ctx, id)
	if err != nil || m == nil {
		return nil, err
	}
	warehouse := model.NewWarehouse(*m)
	return &warehouse, nil
}
