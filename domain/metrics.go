package domain

import (
	"context"
	"time"
)

// How often a machine's agent says how much is used, and for how long it is kept.
const (
	MetricsEvery = 5 * time.Second
	MetricsKept  = time.Hour
)

// MachineMetrics are how much of a machine is used at one moment.
type MachineMetrics struct {
	At          time.Time
	CPU         float64 // cores in use
	Cores       float64
	Memory      int64 // bytes in use
	MemoryTotal int64
	Disk        int64 // bytes in use
	DiskTotal   int64
	GPUs        []GPUMetrics
}

// GPUMetrics are how much of one GPU is used.
type GPUMetrics struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load"` // from 0 to 1
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

// maxGPUs bounds what is kept of one machine.
const maxGPUs = 64

// Metrics returns how much of the machine was used in the last hour since the time given, oldest first, one for each five seconds.
func (m *Machines) Metrics(ctx context.Context, s Scope, id MachineID, since time.Time) (all []MachineMetrics, err error) {
	if err := authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, err
	}
	now := m.Clock.Now() // what is later is from before the clock was set back
	if hour := now.Add(-MetricsKept); since.Before(hour) || since.After(now) {
		since = hour
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if _, err := m.find(ctx, tx, id); err != nil {
			return err
		}
		all, err = tx.Metrics(ctx, id, since, now)
		return err
	})
	return all, err
}

// WatchMetrics wakes the channel whenever there is more of Metrics.
func (m *Machines) WatchMetrics(ctx context.Context, s Scope, id MachineID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := m.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = m.Topics.Subscribe(MetricsTopic(id))
	return wake, stop, nil
}

// Measured takes what a machine's agent says of its use. From the agent of the workspace it is CodeNotFound.
func (a *Agents) Measured(ctx context.Context, s Scope, metrics MachineMetrics) error {
	if err := authorize(ctx, a.Store, s, AgentConnect); err != nil {
		return err
	}
	metrics.At = a.Clock.Now()
	metrics.GPUs = metrics.GPUs[:min(len(metrics.GPUs), maxGPUs)]
	for i := range metrics.GPUs {
		metrics.GPUs[i].Name = shown(metrics.GPUs[i].Name)
	}
	var id MachineID
	err := a.Store.In(ctx, s, func(tx Tx) error {
		agent, err := tx.Agent(ctx, AgentID(s.actor.ID))
		if err != nil {
			return err
		}
		if id = agent.MachineID; id == "" {
			return Errorf(CodeNotFound, "This agent has no machine whose use is kept.")
		}
		return tx.SaveMetrics(ctx, id, metrics)
	})
	if err == nil {
		a.Topics.Wake(MetricsTopic(id))
		a.Topics.WakeOthers(MetricsTopic(id))
	}
	return err
}
