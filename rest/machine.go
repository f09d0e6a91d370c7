package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// Machine is what compute instances and warehouses have in common.
type Machine struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Region      string `json:"region" example:"local" doc:"Of the workspace's provider, as it was when this was made; local on the server's own machine."`
	AutoStop    string `json:"auto_stop" enum:"30m,1h,2h,never" doc:"How long it may have nothing to do before it is stopped."`
	AutoStopAt  *Time  `json:"auto_stop_at" nullable:"true" doc:"When it is stopped if nothing comes. Null while something runs or waits, while it does not run, and where it never is."`
	Image       string `json:"image" doc:"As it was asked for; empty for the provider's default."`
	ImageRef    string `json:"image_ref" example:"millpond:v1.2.0@sha256:…" doc:"The immutable image that it is pinned to since its first start; empty before. Changing the image while it is stopped pins it anew."`
	Slots       int    `json:"slots" doc:"Tasks that it runs at once; 0 stands for four for each core."`
	Message     string `json:"message" doc:"Why it is in its state: of a failed one, what went wrong."`
	Desired     string `json:"desired" enum:"stopped,running" doc:"What was asked for last."`
	Incarnation int    `json:"incarnation" doc:"How often it was made."`
	Restarts    int    `json:"restarts" doc:"How often it went by itself, and was made again, since it was started."`
	StatusSince Time   `json:"status_since" doc:"Since when it is in its state."`
	AgentID     string `json:"agent_id" doc:"Its own agent."`
	CreatedBy   Actor  `json:"created_by"`
	CreatedAt   Time   `json:"created_at"`
	LastUsedAt  *Time  `json:"last_used_at" nullable:"true" doc:"When work on it last began or ended."`
}

func showMachine(m domain.Machine) Machine {
	return Machine{
		ID: string(m.ID), Name: m.Name, Region: m.Region, AutoStop: string(m.AutoStop), AutoStopAt: optionalTime(m.AutoStopAt()), Image: m.Image,
		ImageRef: m.ImageRef, Slots: m.Slots, Message: m.Message, Desired: string(m.Desired), Incarnation: m.Incarnation, Restarts: m.Restarts, StatusSince: Time(m.StateSince), AgentID: string(m.AgentID), CreatedBy: showActor(m.CreatedBy),
		CreatedAt: Time(m.CreatedAt), LastUsedAt: optionalTime(m.LastUsedAt),
	}
}

// MachinePath is the path of what concerns one machine.
type MachinePath struct {
	ID string `path:"id" doc:"The id of the compute instance or the warehouse."`
}

func (p MachinePath) id() domain.MachineID { return domain.MachineID(p.ID) }

// machineNoun is one of the two nouns that a machine goes by: what it is called, and how it is shown.
type machineNoun[T any] struct {
	tag, path, id, list string // list is the operation's id; the others' are a verb and id
	noun, nouns         string
	machines            *domain.Machines
	show                func(domain.Machine) T
}

// MachineMetrics are how much of a machine was used.
type MachineMetrics struct {
	Samples []MachineSample `json:"samples" doc:"Oldest first, one for each five seconds in which its agent was connected; of the last hour."`
}

// MachineSample is how much of a machine was used at one moment.
type MachineSample struct {
	At          Time        `json:"at"`
	CPU         float64     `json:"cpu" doc:"Cores in use."`
	Cores       float64     `json:"cores" doc:"Cores that there are."`
	Memory      int64       `json:"memory" doc:"Bytes in use."`
	MemoryTotal int64       `json:"memory_total"`
	Disk        int64       `json:"disk" doc:"Bytes in use on the file system of its data directory."`
	DiskTotal   int64       `json:"disk_total"`
	GPUs        []GPUSample `json:"gpus"`
}

// GPUSample is how much of one GPU was used.
type GPUSample struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load" doc:"From 0 to 1."`
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

func showSample(m domain.MachineMetrics) MachineSample {
	return MachineSample{
		At: Time(m.At), CPU: m.CPU, Cores: m.Cores, Memory: m.Memory, MemoryTotal: m.MemoryTotal, Disk: m.Disk, DiskTotal: m.DiskTotal,
		GPUs: each(m.GPUs, func(g domain.GPUMetrics) GPUSample { return GPUSample(g) }),
	}
}

// text is an answer of plain text.
type text struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// machineRoutes are the operations that differ in nothing but the noun.
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
		Description: "409 unless it is stopped, or failed with nothing of it left. Tasks that wait for it fail.\n\nDecided here: the answer is 204 without a body.",
	}, n.remove)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/start", OperationID: "start-" + n.id, Tags: tags, Summary: "Start a " + n.noun, Errors: conflict,
		Description: "409 when it runs already, is starting or stopping, or when there is no room for it now. One that has failed can be started again. The image is pinned at the first start.\n\n" +
			"Decided here: the answer is 200 with the " + n.noun + ", which is starting until its agent is connected and ready, and running then. " +
			"One that is not running in good time has failed, and its message says why.",
	}, n.start)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/stop", OperationID: "stop-" + n.id, Tags: tags, Summary: "Stop a " + n.noun, Errors: conflict,
		Description: "409 when it is stopped or stopping. What runs on it is cancelled first: SIGTERM, then SIGKILL. Tasks that have retries left are tried again: on the " +
			"workspace's agent where their job has compute_fallback, else when the " + n.noun + " is started again.\n\n" +
			"Decided here: the answer is 200 with the " + n.noun + ", which is stopping until nothing of it is left, and stopped then. One that is starting can be stopped as well.",
	}, n.stop)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/metrics", OperationID: "get-" + n.id + "-metrics", Tags: tags, Summary: "See how much of a " + n.noun + " was used in the last hour",
		Description: "Decided here: a sample every five seconds while its agent is connected, kept for an hour; all of them, without pages.",
	}, n.metrics)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/logs", OperationID: "get-" + n.id + "-logs", Tags: tags, Summary: "Read the end of the log of a " + n.noun + "'s agent",
		Description: "Also after a stop or a failure; empty before the first start. The logs of tasks are at their runs.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The end of the log, from the beginning of a line.", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
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
	Since time.Time `query:"since" doc:"Only what came after it."`
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
	Bytes int `query:"bytes" minimum:"1" maximum:"1048576" default:"65536" doc:"How much of it at most."`
},
) (*text, error) {
	log, err := n.machines.Log(ctx, s, in.id(), in.Bytes)
	if err != nil {
		return nil, err
	}
	return &text{ContentType: "text/plain; charset=utf-8", Body: log}, nil
}
