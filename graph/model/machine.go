package model

import (
	"github.com/millpond/millpond/domain/machine"
)

// Machine has the common fields of compute instances and warehouses.
type Machine interface {
	IsMachine()
}

// Compute is a machine that runs tasks.
type Compute struct{ Common }

// Warehouse is a machine that runs SQL.
type Warehouse struct{ Common }

// Common is a machine of either kind as the schema shows it: empty text is null.
type Common struct{ machine.Machine }

// NewCompute shows a compute instance.
func NewCompute(m machine.Machine) Compute { return Compute{Common{m}} }

// NewWarehouse shows a warehouse.
func NewWarehouse(m machine.Machine) Warehouse { return Warehouse{Common{m}} }

// Engines returns the warehouse's engines in their current state.
func (w Warehouse) Engines() []Engine {
	now := w.EnginesNow()
	engines := make([]Engine, len(now))
	for i, e := range now {
		engines[i] = Engine{e}
	}
	return engines
}

// Engine is a SQL engine of a warehouse. Fields that it does not report are null.
type Engine struct{ machine.Engine }

// State returns the engine's state.
func (e Engine) State() *machine.EngineState { return optional(e.Engine.State) }

// Message returns why the engine failed, or what it does.
func (e Engine) Message() *string { return optional(e.Engine.Message) }

// Nodes returns the number of nodes that the engine runs on.
func (e Engine) Nodes() *int { return optional(e.Engine.Nodes) }

// IsMachine marks it as a Machine of the schema.
func (Common) IsMachine() {}

// Message returns why the machine is in its state.
func (c Common) Message() *string { return optional(c.Machine.Message) }

// Image returns the requested image.
func (c Common) Image() *string { return optional(c.Machine.Image) }

// ImageRef returns the pinned image.
func (c Common) ImageRef() *string { return optional(c.Machine.ImageRef) }

// CreatedBy returns the creator's name.
func (c Common) CreatedBy() string { return c.Machine.CreatedBy.Name }

// Flavor is a size of machine, with the price of one hour.
type Flavor struct{ machine.Flavor }

// NewFlavors shows flavors.
func NewFlavors(all []machine.Flavor) []Flavor {
	flavors := make([]Flavor, len(all))
	for i, f := range all {
		flavors[i] = Flavor{f}
	}
	return flavors
}

// GPU returns the model of its GPUs.
func (f Flavor) GPU() *string { return optional(f.Flavor.GPU) }

// PricePerHour returns the price with all its digits; nil if no price is known.
func (f Flavor) PricePerHour() *string {
	if f.Price.Currency == "" {
		return nil
	}
	return optional(f.Price.Hourly.String())
}

// Currency returns the price's currency.
func (f Flavor) Currency() *string { return optional(f.Price.Currency) }

// Limits returns why a machine's cores and memory are not enforced; nil if they are.
func (f Flavor) Limits() *string { return optional(f.Flavor.Limits) }

// optional returns nil for the zero value, such as an empty text.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
