package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Machine has the common fields of compute instances and warehouses.
type Machine struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Region      string `json:"region" example:"local" doc:"Region of the workspace's provider when the machine was created; local on the server's own machine."`
	AutoStop    string `json:"auto_stop" enum:"30m,1h,2h,never" doc:"Idle time before it stops."`
	AutoStopAt  *Time  `json:"auto_stop_at" nullable:"true" doc:"When it stops if it stays idle. Null while work runs or waits, while it is not running, and if auto_stop is never."`
	Image       string `json:"image" doc:"The requested image; empty for the provider's default."`
	ImageRef    string `json:"image_ref" example:"millpond:v1.2.0@sha256:…" doc:"The immutable reference that its image was pinned to at the first start; empty before. Changing the image while it is stopped pins it again at the next start."`
	Slots       int    `json:"slots" doc:"How many tasks it runs at once; 0 means four per core."`
	Message     string `json:"message" doc:"Why it is in its state. For a failed machine, what went wrong."`
	Desired     string `json:"desired" enum:"stopped,running" doc:"The state that was last requested."`
	Incarnation int    `json:"incarnation" doc:"How many times the provider created it."`
	Restarts    int    `json:"restarts" doc:"How many times it was lost and created again since it was started."`
	StatusSince Time   `json:"status_since" doc:"When it entered its state."`
	AgentID     string `json:"agent_id" doc:"Id of its own agent."`
	CreatedBy   Actor  `json:"created_by"`
	CreatedAt   Time   `json:"created_at"`
	LastUsedAt  *Time  `json:"last_used_at" nullable:"true" doc:"When work on it last started or ended."`
}

func showMachine(m machine.Machine) Machine {
	return Machine{
		ID: string(m.ID), Name: m.Name, Region: m.Region, AutoStop: string(m.AutoStop), AutoStopAt: optionalTime(m.AutoStopAt()), Image: m.Image,
		ImageRef: m.ImageRef, Slots: m.Slots, Message: m.Message, Desired: string(m.Desired), Incarnation: m.Incarnation, Restarts: m.Restarts, StatusSince: Time(m.StateSince), AgentID: string(m.AgentID), CreatedBy: showActor(m.CreatedBy),
		CreatedAt: Time(m.CreatedAt), LastUsedAt: optionalTime(m.LastUsedAt),
	}
}

// MachinePath is the path of operations on one machine.
type MachinePath struct {
	ID string `path:"id" doc:"The id of the compute instance or the warehouse."`
}

func (p MachinePath) id() domain.MachineID { return domain.MachineID(p.ID) }

// machineNoun is one of the two kinds of machines: its names, and how it is shown.
type machineNoun[T any] struct {
	tag, path, id, list string // list is the operation's id; other ids are a verb and id
	noun, nouns         string
	machines            *machine.Machines
	show                func(machine.Machine) T
}

// MachineMetrics are the usage samples of a machine.
type MachineMetrics struct {
	Samples []MachineSample `json:"samples" doc:"Usage samples of the last hour, oldest first. There is one every five seconds while its agent is connected."`
}

// MachineSample is the usage of a machine at one time.
type MachineSample struct {
	At          Time        `json:"at"`
	CPU         float64     `json:"cpu" doc:"Cores in use."`
	Cores       float64     `json:"cores" doc:"Cores of the machine."`
	Memory      int64       `json:"memory" doc:"Bytes in use."`
	MemoryTotal int64       `json:"memory_total"`
	Disk        int64       `json:"disk" doc:"Bytes in use on the file system of its data directory."`
	DiskTotal   int64       `json:"disk_total"`
	GPUs        []GPUSample `json:"gpus"`
}

// GPUSample is the usage of one GPU.
type GPUSample struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load" doc:"From 0 to 1."`
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

func showSample(m machine.Metrics) MachineSample {
	return MachineSample{
		At: Time(m.At), CPU: m.CPU, Cores: m.Cores, Memory: m.Memory, MemoryTotal: m.MemoryTotal, Disk: m.Disk, DiskTotal: m.DiskTotal,
		GPUs: each(m.GPUs, func(g machine.GPUMetrics) GPUSample { return GPUSample(g) }),
	}
}

// text is a plain-text answer.
type text struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// machineRoutes registers the operations that both kinds of machines share.
func machineRoutes[T any](a *api, n machineNoun[T]) {
	one, tags, conflict := n.path+"/{id}", []string{n.tag}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: n.path, OperationID: n.list, Tags: tags, Summary: "List " + n.nouns + ", oldest first",
	}, n.page)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one, OperationID: "get-" + n.id, Tags: tags, Summary: "Get a " + n.noun,
	}, n.get)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one, OperationID: "delete-" + n.id, Tags: tags, Summary: "Delete a " + n.noun, Errors: conflict, DefaultStatus: http.StatusNoContent,
		Description: "409 unless it is stopped, or failed with all its resources removed. Tasks that wait for it fail.\n\nDecided here: the answer is 204 without a body.",
	}, n.remove)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/start", OperationID: "start-" + n.id, Tags: tags, Summary: "Start a " + n.noun, Errors: conflict,
		Description: "409 if it is running, starting or stopping, or if there is no room for it now. A failed one can be started again. The image is pinned at the first start.\n\n" +
			"Decided here: the answer is 200 with the " + n.noun + ", which is starting until its agent is connected and ready, and running then. " +
			"A start that takes too long fails, and its message says why.",
	}, n.start)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/stop", OperationID: "stop-" + n.id, Tags: tags, Summary: "Stop a " + n.noun, Errors: conflict,
		Description: "409 if it is stopped or stopping. Its work is cancelled first: SIGTERM, then SIGKILL. Tasks with retries left are retried: on the " +
			"workspace's agent if their job has compute_fallback, else after the next start of the " + n.noun + ".\n\n" +
			"Decided here: the answer is 200 with the " + n.noun + ", which is stopping until all its resources are removed, and stopped then. A starting one can be stopped too.",
	}, n.stop)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/metrics", OperationID: "get-" + n.id + "-metrics", Tags: tags, Summary: "Get the usage of a " + n.noun + " in the last hour",
		Description: "Decided here: there is a sample every five seconds while its agent is connected, kept for an hour. The answer has all samples, without pages.",
	}, n.metrics)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/logs", OperationID: "get-" + n.id + "-logs", Tags: tags, Summary: "Get the end of the log of a " + n.noun + "'s agent",
		Description: "It stays available after a stop or a failure; empty before the first start. Task logs belong to their runs.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The end of the log, from the start of a line.", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, n.log)
}

func (n machineNoun[T]) page(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[T]], error) {
	all, err := n.machines.List(ctx, s, in.page())
	if err != nil {
		return nil, err
	}
	return list(all, n.show), nil
}

func (n machineNoun[T]) get(ctx context.Context, s domain.Scope, in *MachinePath) (*answer[T], error) {
	return answered(n.show)(n.machines.Get(ctx, s, in.id()))
}

func (n machineNoun[T]) remove(ctx context.Context, s domain.Scope, in *MachinePath) (*nothing, error) {
	return nil, n.machines.Delete(ctx, s, in.id())
}

func (n machineNoun[T]) start(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Once
},
) (*answer[T], error) {
	return answered(n.show)(n.machines.Start(ctx, s, in.id(), in.Once.domain()))
}

func (n machineNoun[T]) stop(ctx context.Context, s domain.Scope, in *MachinePath) (*answer[T], error) {
	return answered(n.show)(n.machines.Stop(ctx, s, in.id()))
}

func (n machineNoun[T]) metrics(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Since time.Time `query:"since" doc:"Only samples after this time."`
},
) (*answer[MachineMetrics], error) {
	all, err := n.machines.Metrics(ctx, s, in.id(), in.Since)
	if err != nil {
		return nil, err
	}
	return &answer[MachineMetrics]{MachineMetrics{Samples: each(all, showSample)}}, nil
}

func (n machineNoun[T]) log(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Bytes int `query:"bytes" minimum:"1" maximum:"1048576" default:"65536" doc:"Maximum number of bytes."`
},
) (*text, error) {
	log, err := n.machines.Log(ctx, s, in.id(), in.Bytes)
	if err != nil {
		return nil, err
	}
	return &text{ContentType: "text/plain; charset=utf-8", Body: log}, nil
}
