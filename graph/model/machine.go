package model

import (
	"github.com/millpond/millpond/domain"
)

// Machine is what compute instances and warehouses have in common.
type Machine interface {
	IsMachine()
}

// Compute is a machine that runs tasks.
type Compute struct{ Common }

// Warehouse is a machine that runs SQL.
type Warehouse struct{ Common }

// Common is a machine of either kind as the schema shows it: text that is empty is null.
type Common struct{ domain.Machine }

// NewCompute shows a compute instance.
func NewCompute(m domain.Machine) Compute { return Compute{Common{m}} }

// NewWarehouse shows a warehouse.
func NewWarehouse(m domain.Machine) Warehouse { return Warehouse{Common{m}} }

// Engines are its engines as they stand.
func (w Warehouse) Engines() []Engine {
	now := w.EnginesNow()
	engines := make([]Engine, len(now))
	for i, e := range now {
		engines[i] = Engine{e}
	}
	return engines
}

// Engine is something on a warehouse that runs SQL: what it does not say is null.
type Engine struct{ domain.Engine }

// State is how far it is.
func (e Engine) State() *domain.EngineState { return optional(e.Engine.State) }

// Message is why it failed, or what it does.
func (e Engine) Message() *string { return optional(e.Engine.Message) }

// Nodes are those that it runs on.
func (e Engine) Nodes() *int { return optional(e.Engine.Nodes) }

// IsMachine makes it a Machine of the schema.
func (Common) IsMachine() {}

// Message is why it is in its state.
func (c Common) Message() *string { return optional(c.Machine.Message) }

// Image is as it was asked for.
func (c Common) Image() *string { return optional(c.Machine.Image) }

// ImageRef is what it is pinned to.
func (c Common) ImageRef() *string { return optional(c.Machine.ImageRef) }

// CreatedBy names who made it.
func (c Common) CreatedBy() string { return c.Machine.CreatedBy.Name }

// Flavor is a size of machine, with what an hour of it costs.
type Flavor struct{ domain.Flavor }

// NewFlavors shows flavors.
func NewFlavors(all []domain.Flavor) []Flavor {
	flavors := make([]Flavor, len(all))
	for i, f := range all {
		flavors[i] = Flavor{f}
	}
	return flavors
}

// GPU is the model of its GPUs.
func (f Flavor) GPU() *string { return optional(f.Flavor.GPU) }

// PricePerHour has all the digits; nil where no price is known.
func (f Flavor) PricePerHour() *string {
	if f.Price.Currency == "" {
		return nil
	}
	return optional(f.Price.Hourly.String())
}

// Currency is that of the price.
func (f Flavor) Currency() *string { return optional(f.Price.Currency) }

// Limits is why a machine is not held to its cores and memory; nil where it is.
func (f Flavor) Limits() *string { return optional(f.Flavor.Limits) }

// optional is nil for the zero value, such as text that is empty.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}
