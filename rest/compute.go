package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Compute is a compute instance.
type Compute struct {
	Machine
	Flavor string `json:"flavor" example:"cpu.2" doc:"Its size, as the provider names it."`
	Status string `json:"status" enum:"stopped,starting,running,stopping,failed" doc:"running means that its agent is connected and ready. A failed instance has a message, and can be started again."`
}

// NewCompute is the body of a request to create a compute instance.
type NewCompute struct {
	Name     string `json:"name" doc:"Unique among the compute instances of the workspace."`
	Flavor   string `json:"flavor" example:"cpu.2" doc:"Its size, as the provider names it. GET /flavors lists them."`
	AutoStop string `json:"auto_stop,omitempty" enum:"30m,1h,2h,never" default:"1h" doc:"Idle time before it stops."`
	Image    string `json:"image,omitempty" doc:"A build that the provider knows. The first start pins it to an immutable reference. Defaults to the provider's image."`
	Slots    int    `json:"slots,omitempty" doc:"How many tasks it runs at once. Defaults to four per core."`
}

func (n NewCompute) domain() machine.NewMachine {
	return machine.NewMachine{Name: n.Name, Flavor: n.Flavor, AutoStop: n.AutoStop, Image: n.Image, Slots: n.Slots}
}

// CreatedCompute is the specification's answer to a creation. GET returns the other fields.
type CreatedCompute struct {
	ID     string `json:"id" example:"cmp_01k2v9c5x8e6t9f3m0a7r4d1nq"`
	Status string `json:"status" enum:"stopped" doc:"A new instance is stopped."`
}

// ComputeChange changes the given fields of a compute instance.
type ComputeChange struct {
	Name     *string `json:"name,omitempty" nullable:"true"`
	AutoStop *string `json:"auto_stop,omitempty" nullable:"true" doc:"30m, 1h, 2h or never."`
	Flavor   *string `json:"flavor,omitempty" nullable:"true" doc:"Only while the instance is stopped."`
	Image    *string `json:"image,omitempty" nullable:"true" doc:"Only while the instance is stopped. It is pinned again at the next start, even if it is the same."`
	Slots    *int    `json:"slots,omitempty" nullable:"true" doc:"Only while the instance is stopped."`
}

func (c ComputeChange) domain() machine.Change {
	return machine.Change{Name: c.Name, AutoStop: c.AutoStop, Flavor: c.Flavor, Image: c.Image, Slots: c.Slots}
}

func showCompute(m machine.Machine) Compute {
	return Compute{Machine: showMachine(m), Flavor: m.Flavor, Status: string(m.State)}
}

func (a *api) computeRoutes() {
	const tag, path = "Compute", "/compute"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-compute", Tags: []string{tag}, Summary: "Create a compute instance", DefaultStatus: http.StatusCreated,
		Errors: []int{http.StatusConflict}, Description: "A new instance is stopped, and costs nothing until it is started. An unknown flavor is 400 with the list of flavors; a name that is taken is 409.\n\n" +
			"Decided here: status is stopped, starting, running, stopping or failed. auto_stop also accepts 1h, which is its default. GET /flavors lists the flavors.",
	}, a.createCompute)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: path + "/{id}", OperationID: "update-compute", Tags: []string{tag}, Summary: "Change a compute instance",
		Errors: []int{http.StatusConflict}, Description: "A field that is absent or null does not change. 409 for flavor, image or slots unless the instance is stopped.",
	}, a.updateCompute)
	machineRoutes(a, machineNoun[Compute]{
		tag: tag, path: path, id: "compute", list: "list-compute-instances", noun: "compute instance", nouns: "compute instances", machines: a.Compute, show: showCompute,
	})
}

func (a *api) createCompute(ctx context.Context, s domain.Scope, in *struct {
	Once
	Body NewCompute `example:"{\"name\":\"trainer\",\"flavor\":\"cpu.2\",\"auto_stop\":\"30m\"}"`
},
) (*created[CreatedCompute], error) {
	m, err := a.Compute.Create(ctx, s, in.Body.domain(), in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[CreatedCompute]{
		Location: Prefix + "/compute/" + string(m.ID), Body: CreatedCompute{ID: string(m.ID), Status: string(machine.Stopped)},
	}, nil
}

func (a *api) updateCompute(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Body ComputeChange `example:"{\"auto_stop\":\"2h\"}"`
},
) (*answer[Compute], error) {
	return answered(showCompute)(a.Compute.Update(ctx, s, in.id(), in.Body.domain()))
}
