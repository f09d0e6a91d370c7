package machine

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// The interval of an agent's metrics, and how long they are stored.
const (
	MetricsEvery = 5 * time.Second
	MetricsKept  = time.Hour
)

// Metrics is a machine's usage at one moment.
type Metrics struct {
	At          time.Time
	CPU         float64 // cores in use
	Cores       float64
	Memory      int64 // bytes in use
	MemoryTotal int64
	Disk        int64 // bytes in use
	DiskTotal   int64
	GPUs        []GPUMetrics
}

// GPUMetrics is the usage of one GPU.
type GPUMetrics struct {
	Name        string
	Load        float64 // from 0 to 1
	Memory      int64
	MemoryTotal int64
}

// MaxGPUs bounds the stored GPUs of one machine.
const MaxGPUs = 64

// Metrics returns the machine's usage after since, at most the last hour, oldest first, one for
// each five seconds.
func (m *Machines) Metrics(ctx context.Context, s domain.Scope, id domain.MachineID, since time.Time) (all []Metrics, err error) {
	if err := domain.Authorize(ctx, m.Store, s, m.may(verbRead)); err != nil {
		return nil, err
	}
	now := m.Clock.Now() // later values date from before the clock was set back
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

// WatchMetrics wakes the channel whenever Metrics has new values.
func (m *Machines) WatchMetrics(ctx context.Context, s domain.Scope, id domain.MachineID) (wake <-chan struct{}, stop func(), err error) {
	if _, err := m.Get(ctx, s, id); err != nil {
		return nil, nil, err
	}
	wake, stop = m.Topics.Subscribe(domain.MetricsTopic(id))
	return wake, stop, nil
}
