package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// Compute is a compute instance.
type Compute struct {
	Machine
	Flavor string `json:"flavor" example:"cpu.2" doc:"Its size, by the provider's name."`
	Status string `json:"status" enum:"stopped,starting,running,stopping,failed" doc:"running means that its agent is connected and ready; failed has a message, and can be started again."`
}

// NewCompute is what a compute instance is made from.
type NewCompute struct {
	Name     string `json:"name" doc:"Unique among the compute instances of the workspace."`
	Flavor   string `json:"flavor" example:"cpu.2" doc:"Its size, by the provider's name. GET /flavors lists them."`
	AutoStop string `json:"auto_stop,omitempty" enum:"30m,1h,2h,never" default:"1h" doc:"How long it may have nothing to do before it is stopped."`
	Image    string `json:"image,omitempty" doc:"A build that the provider knows; pinned to an immutable reference on the first start. The provider's default when left out."`
	Slots    int    `json:"slots,omitempty" doc:"Tasks that it runs at once; four for each core when left out."`
}

func (n NewCompute) domain() domain.NewMachine {
	return domain.NewMachine{Name: n.Name, Flavor: n.Flavor, AutoStop: n.AutoStop, Image: n.Image, Slots: n.Slots}
}

// CreatedCompute is what the specification answers with: GET tells the rest.
type CreatedCompute struct {
	ID     string `json:"id" example:"cmp_01k2v9c5x8e6t9f3m0a7r4d1nq"`
	Status string `json:"status" enum:"stopped" doc:"A new instance is stopped."`
}

// ComputeChange changes the fields that are given.
type ComputeChange struct {
	Name     *string `json:"name,omitempty" nullable:"true"`
	AutoStop *string `json:"auto_stop,omitempty" nullable:"true" doc:"30m, 1h, 2h or never."`
	Flavor   *string `json:"flavor,omitempty" nullable:"true" doc:"Only while it is stopped."`
	Image    *string `json:"image,omitempty" nullable:"true" doc:"Only while it is stopped. It is pinned anew at the next start, also where it is the same."`
	Slots    *int    `json:"slots,omitempty" nullable:"true" doc:"Only while it is stopped."`
}

func (c ComputeChange) domain() domain.MachineChange {
	return domain.MachineChange{Name: c.Name, AutoStop: c.AutoStop, Flavor: c.Flavor, Image: c.Image, Slots: c.Slots}
}

func showCompute(m domain.Machine) Compute {
	return Compute{Machine: showMachine(m), Flavor: m.Flavor, Status: string(m.State)}
}

func (a *api) computeRoutes() {
	const tag, path = "Compute", "/compute"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-compute", Tags: []string{tag}, Summary: "Make a compute instance", DefaultStatus: http.StatusCreated,
		Errors: []int{http.StatusConflict}, Description: "It is stopped, and costs nothing until it is started. An unknown flavor is 400 with the list of those that there are; a name that is taken is 409.\n\n" +
			"Decided here: a status is stopped, starting, running, stopping or failed. auto_stop also takes 1h, which is its default. The flavors are those of GET /flavors.",
	}, a.createCompute)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: path + "/{id}", OperationID: "update-compute", Tags: []string{tag}, Summary: "Change a compute instance",
		Errors: []int{http.StatusConflict}, Description: "A field that is absent or null stays as it is. Flavor, image and slots of one that is not stopped are 409.",
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
		Location: Prefix + "/compute/" + string(m.ID), Body: CreatedCompute{ID: string(m.ID), Status: string(domain.MachineStopped)},
	}, nil
}

func (a *api) updateCompute(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Body ComputeChange `example:"{\"auto_stop\":\"2h\"}"`
},
) (*answer[Compute], error) {
	return answered(showCompute)(a.Compute.Update(ctx, s, in.id(), in.Body.domain()))
}
