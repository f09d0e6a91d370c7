package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Warehouse is a machine that runs SQL.
type Warehouse struct {
	Machine
	Size        string   `json:"size" example:"cpu.2" doc:"Its size: the name of a flavor."`
	State       string   `json:"state" enum:"stopped,starting,running,stopping,failed" doc:"running means that its agent is connected and ready. A failed warehouse has a message, and can be started again."`
	Engines     []Engine `json:"engines" doc:"Its SQL engines, as its agent last reported them. Empty before its first start."`
	WriteEngine string   `json:"write_engine" enum:"duckdb,trino" doc:"The engine that runs writes, and so their SQL dialect. It is chosen at creation, and changes only by an update."`
	Nodes       int      `json:"nodes" doc:"Number of Trino nodes: the coordinator and its workers. 1 if the write engine is duckdb."`
	TrinoStart  string   `json:"trino_start" enum:"first_write,with_warehouse" doc:"When Trino starts, if it is the write engine: at the first write, or with the warehouse. It stops with the warehouse."`
}

// Engine is a SQL engine of a warehouse.
type Engine struct {
	Name    string `json:"name" example:"duckdb"`
	Version string `json:"version"`
	State   string `json:"state,omitempty" enum:"stopped,starting,running,failed" doc:"Absent for an engine that runs as long as the warehouse."`
	Message string `json:"message,omitempty" doc:"Why it failed, or what it does."`
	Nodes   int    `json:"nodes,omitempty" doc:"Number of nodes that it runs on now. Absent if it does not report it."`
}

// NewWarehouse is the body of a request to create a warehouse.
type NewWarehouse struct {
	Name     string `json:"name" doc:"Unique among the warehouses of the workspace."`
	Size     string `json:"size" example:"cpu.2" doc:"Its size: the name of a flavor. GET /flavors lists them."`
	AutoStop string `json:"auto_stop,omitempty" enum:"30m,1h,2h,never" default:"1h" doc:"Idle time before it stops."`
	Image    string `json:"image,omitempty" doc:"A build that the provider knows. The first start pins it to an immutable reference. Defaults to the provider's image."`
	Slots    int    `json:"slots,omitempty" doc:"How many statements it runs at once. Defaults to four per core."`

	WriteEngine string `json:"write_engine,omitempty" enum:"duckdb,trino" doc:"The engine that runs writes. Defaults to trino if a warehouse of that size supports it, else duckdb."`
	Nodes       *int   `json:"nodes,omitempty" nullable:"true" default:"1" doc:"Number of Trino nodes, from 1 to 16: the coordinator and its workers. More than 1 requires the write engine trino."`
	TrinoStart  string `json:"trino_start,omitempty" enum:"first_write,with_warehouse" default:"first_write" doc:"When Trino starts. with_warehouse requires the write engine trino."`
}

func (n NewWarehouse) domain() machine.NewMachine {
	return machine.NewMachine{
		Name: n.Name, Flavor: n.Size, AutoStop: n.AutoStop, Image: n.Image, Slots: n.Slots,
		WriteEngine: n.WriteEngine, Nodes: n.Nodes, TrinoStart: machine.TrinoStart(n.TrinoStart),
	}
}

// WarehouseChange changes the given fields of a warehouse.
type WarehouseChange struct {
	Name     *string `json:"name,omitempty" nullable:"true"`
	AutoStop *string `json:"auto_stop,omitempty" nullable:"true" doc:"30m, 1h, 2h or never."`
	Size     *string `json:"size,omitempty" nullable:"true" doc:"Only while the warehouse is stopped."`
	Image    *string `json:"image,omitempty" nullable:"true" doc:"Only while the warehouse is stopped. It is pinned again at the next start, even if it is the same."`
	Slots    *int    `json:"slots,omitempty" nullable:"true" doc:"Only while the warehouse is stopped."`

	WriteEngine *string `json:"write_engine,omitempty" nullable:"true" doc:"duckdb or trino. Only while the warehouse is stopped."`
	Nodes       *int    `json:"nodes,omitempty" nullable:"true" doc:"From 1 to 16. Can change while it runs: a node that is removed finishes its work first."`
	TrinoStart  *string `json:"trino_start,omitempty" nullable:"true" doc:"first_write or with_warehouse."`
}

func (c WarehouseChange) domain() machine.Change {
	return machine.Change{
		Name: c.Name, AutoStop: c.AutoStop, Flavor: c.Size, Image: c.Image, Slots: c.Slots,
		WriteEngine: c.WriteEngine, Nodes: c.Nodes, TrinoStart: (*machine.TrinoStart)(c.TrinoStart),
	}
}

func showWarehouse(m machine.Machine) Warehouse {
	return Warehouse{
		Machine: showMachine(m), Size: m.Flavor, State: string(m.State), Engines: each(m.EnginesNow(), showEngine), WriteEngine: m.WriteEngine,
		Nodes: m.Nodes, TrinoStart: string(m.TrinoStart),
	}
}

func showEngine(e machine.Engine) Engine {
	return Engine{Name: e.Name, Version: e.Version, State: string(e.State), Message: e.Message, Nodes: e.Nodes}
}

func (a *api) warehouseRoutes() {
	const tag, path = "Warehouses", "/sql/warehouses"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: "create-warehouse", Tags: []string{tag}, Summary: "Create a warehouse", DefaultStatus: http.StatusCreated,
		Errors: []int{http.StatusConflict}, Description: "A new warehouse is stopped, and costs nothing until it is started. An unknown size is 400 with the list of sizes. A write engine that the size does not support is 400 with what to do; " +
			"a name that is taken is 409. A new workspace has one warehouse.\n\n" +
			"Decided here: the answer is 201 with the whole warehouse. Its sizes are the flavors of GET /flavors.",
	}, a.createWarehouse)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: path + "/{id}", OperationID: "update-warehouse", Tags: []string{tag}, Summary: "Change a warehouse",
		Errors: []int{http.StatusConflict}, Description: "A field that is absent or null does not change. 409 for size, image, slots or write engine unless the warehouse is stopped. nodes and trino_start can change at any time; its agent applies them within seconds.\n\n" +
			"Decided here: the settings are checked together. With the write engine duckdb, nodes above 1 and with_warehouse are 400. So is a change to duckdb that leaves either of them.",
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
