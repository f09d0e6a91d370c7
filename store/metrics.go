package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// metricsSlots is the number of metrics rows of a machine: one for each five seconds of an hour.
const metricsSlots = int64(machine.MetricsKept / machine.MetricsEvery)

// SaveMetrics implements machine.Tx.
func (t *Tx) SaveMetrics(ctx context.Context, id domain.MachineID, m machine.Metrics) error {
	gpus, err := json.Marshal(each(m.GPUs, storeGPU))
	if err != nil {
		return err
	}
	slot := m.At.Unix() / int64(machine.MetricsEvery/time.Second) % metricsSlots
	return t.save(ctx, "machine_metrics", "workspace_id, machine_id, slot", values{
		"machine_id": id, "slot": slot, "at": m.At, "cpu": m.CPU, "cores": m.Cores, "memory": m.Memory, "memory_total": m.MemoryTotal, "disk": m.Disk,
		"disk_total": m.DiskTotal, "gpus": string(gpus),
	})
}

type metricsRow struct {
	At          time.Time `db:"at"`
	CPU         float64   `db:"cpu"`
	Cores       float64   `db:"cores"`
	Memory      int64     `db:"memory"`
	MemoryTotal int64     `db:"memory_total"`
	Disk        int64     `db:"disk"`
	DiskTotal   int64     `db:"disk_total"`
	GPUs        []byte    `db:"gpus"`
}

func (r metricsRow) toDomain() (machine.Metrics, error) {
	m := machine.Metrics{
		At: r.At.UTC(), CPU: r.CPU, Cores: r.Cores, Memory: r.Memory, MemoryTotal: r.MemoryTotal, Disk: r.Disk, DiskTotal: r.DiskTotal,
	}
	var err error
	m.GPUs, err = decodeEach(r.GPUs, storedGPU.toDomain)
	return m, err
}

// storedGPU is the format of an element of the column gpus.
type storedGPU struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load"`
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

func storeGPU(g machine.GPUMetrics) storedGPU { return storedGPU(g) }

func (g storedGPU) toDomain() machine.GPUMetrics { return machine.GPUMetrics(g) }

// Metrics implements machine.Tx.
func (t *Tx) Metrics(ctx context.Context, id domain.MachineID, since, until time.Time) ([]machine.Metrics, error) {
	return rows(ctx, t.conn, metricsRow.toDomain, `SELECT at, cpu, cores, memory, memory_total, disk, disk_total, gpus FROM machine_metrics
		WHERE workspace_id = $1 AND machine_id = $2 AND at > $3 AND at <= $4 ORDER BY at`, t.workspace, id, since, until)
}
