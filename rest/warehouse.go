package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// Warehouse is a machine that runs SQL.
type Warehouse struct {
	Machine
	Size        string   `json:"size" example:"cpu.2" doc:"Its size: a flavor."`
	State       string   `json:"state" enum:"stopped,starting,running,stopping,failed" doc:"running means that its agent is connected and ready; failed has a message, and can be started again."`
	Engines     []Engine `json:"engines" doc:"The SQL engines on it, as its agent told when it was last connected; empty before its first start."`
	WriteEngine string   `json:"write_engine" enum:"duckdb,trino" doc:"The engine of writes, and so their dialect: chosen when the warehouse is made, and never changed by itself."`
	Nodes       int      `json:"nodes" doc:"Of Trino: its coordinator and its workers. 1 where the write engine is duckdb."`
	TrinoStart  string   `json:"trino_start" enum:"first_write,with_warehouse" doc:"When Trino is started, where it is the write engine: at the first write, or with the warehouse. It stops with the warehouse."`
}

// Engine is something that runs SQL.
type Engine struct {
	Name    string `json:"name" example:"duckdb"`
	Version string `json:"version"`
	State   string `json:"state,omitempty" enum:"stopped,starting,running,failed" doc:"Left out of one that is always there while the warehouse runs."`
	Message string `json:"message,omitempty" doc:"Why it failed, or what it does."`
	Nodes   int    `json:"nodes,omitempty" doc:"That it runs on now; left out where it does not say."`
}

// NewWarehouse is what a warehouse is made from.
type NewWarehouse struct {
	Name     string `json:"name" doc:"Unique among the warehouses of the workspace."`
	Size     string `json:"size" example:"cpu.2" doc:"Its size: a flavor. GET /flavors lists them."`
	AutoStop string `json:"auto_stop,omitempty" enum:"30m,1h,2h,never" default:"1h" doc:"How long it may have nothing to do before it is stopped."`
	Image    string `json:"image,omitempty" doc:"A build that the provider knows; pinned to an immutable reference on the first start. The provider's default when left out."`
	Slots    int    `json:"slots,omitempty" doc:"Tasks that it runs at once; four for each core when left out."`

	WriteEngine string `json:"write_engine,omitempty" enum:"duckdb,trino" doc:"The engine of writes. When left out it is trino where a warehouse of the size can have it, else duckdb."`
	Nodes       *int   `json:"nodes,omitempty" nullable:"true" default:"1" doc:"From 1 to 16: Trino's coordinator and its workers. More than 1 only where the write engine is trino."`
	TrinoStart  string `json:"trino_start,omitempty" enum:"first_write,with_warehouse" default:"first_write" doc:"When Trino is started: with_warehouse only where the write engine is trino."`
}

func (n NewWarehouse) domain() domain.NewMachine {
	return domain.NewMachine{
		Name: n.Name, Flavor: n.Size, AutoStop: n.AutoStop, Image: n.Image, Slots: n.Slots,
		WriteEngine: n.WriteEngine, Nodes: n.Nodes, TrinoStart: domain.TrinoStart(n.TrinoStart),
	}
}

// WarehouseChange changes the fields that are given.
type WarehouseChange struct {
	Name     *string `json:"name,omitempty" nullable:"true"`
	AutoStop *string `json:"auto_stop,omitempty" nullable:"true" doc:"30m, 1h, 2h or never."`
	Size     *string `json:"size,omitempty" nullable:"true" doc:"Only while it is stopped."`
	Image    *string `json:"image,omitempty" nullable:"true" doc:"Only while it is stopped. It is pinned anew at the next start, also where it is the same."`
	Slots    *int    `json:"slots,omitempty" nullable:"true" doc:"Only while it is stopped."`

	WriteEngine *string `json:"write_engine,omitempty" nullable:"true" doc:"duckdb or trino. Only while it is stopped."`
	Nodes       *int    `json:"nodes,omitempty" nullable:"true" doc:"From 1 to 16. Also while it runs: what runs on a node that goes is finished first."`
	TrinoStart  *string `json:"trino_start,omitempty" nullable:"true" doc:"first_write or with_warehouse."`
}

func (c WarehouseChange) domain() domain.MachineChange {
	return domain.MachineChange{
		Name: c.Name, AutoStop: c.AutoStop, Flavor: c.Size, Image: c.Image, Slots: c.Slots,
		WriteEngine: c.WriteEngine, Nodes: c.Nodes, TrinoStart: (*domain.TrinoStart)(c.TrinoStart),
	}
}

func showWarehouse(m domain.Machine) Warehouse {
	return Warehouse{
		Machine: showMachine(m), Size: m.Flavor, State: string(m.State), Engines: each(m.EnginesNow(), showEngine), WriteEngine: m.WriteEngine,
		Nodes: m.Nodes, TrinoStart: string(m.TrinoStart),
	}
}

func showEngine(e domain.Engine) Engine {
	return Engine{Name: e.Name, Version: e.Version, State: string(e.State), Message: e.Message, Nodes: e.Nodes}
}

func (a *api) warehouseRoutes() {
	const tag, path = "Warehouses", "/sql/warehouses"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-warehouse", Tags: []string{tag}, Summary: "Make a warehouse", DefaultStatus: http.StatusCreated,
		Errors: []int{http.StatusConflict}, Description: "It is stopped, and costs nothing until it is started. An unknown size is 400 with the list of those that there are, and a write engine that a warehouse of the size cannot have is 400 with what to do; " +
			"a name that is taken is 409. A workspace starts with one warehouse.\n\n" +
			"Decided here: the answer is 201 with the whole warehouse. Its sizes are the flavors of GET /flavors.",
	}, a.createWarehouse)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: path + "/{id}", OperationID: "update-warehouse", Tags: []string{tag}, Summary: "Change a warehouse",
		Errors: []int{http.StatusConflict}, Description: "A field that is absent or null stays as it is. Size, image, slots and write engine of one that is not stopped are 409. nodes and trino_start may change at any time; its agent has them within seconds.\n\n" +
			"Decided here: the settings hold together. nodes above 1, or with_warehouse, where the write engine is duckdb, are 400; so is a change to duckdb that leaves them so.",
	}, a.updateWarehouse)
	machineRoutes(a, machineNoun[Warehouse]{
		tag: tag, path: path, id: "warehouse", list: "list-warehouses", noun: "warehouse", nouns: "warehouses", machines: a.Warehouses, show: showWarehouse,
	})
}

func (a *api) createWarehouse(ctx context.Context, s domain.Scope, in *struct {
	Once
	Body NewWarehouse `example:"{\"name\":\"reports\",\"size\":\"cpu.2\",\"auto_stop\":\"30m\"}"`
},
) (*created[Warehouse], error) {
	m, err := a.Warehouses.Create(ctx, s, in.Body.domain(), in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[Warehouse]{Location: Prefix + "/sql/warehouses/" + string(m.ID), Body: showWarehouse(m)}, nil
}

func (a *api) updateWarehouse(ctx context.Context, s domain.Scope, in *struct {
	MachinePath
	Body WarehouseChange `example:"{\"auto_stop\":\"2h\"}"`
},
) (*answer[Warehouse], error) {
	return answered(showWarehouse)(a.Warehouses.Update(ctx, s, in.id(), in.Body.domain()))
}
