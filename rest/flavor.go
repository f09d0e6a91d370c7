package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Flavor is a size of machine.
type Flavor struct {
	Name         string  `json:"name" example:"cpu.2"`
	Cores        int     `json:"cores"`
	Memory       int64   `json:"memory" doc:"In bytes."`
	GPUs         int     `json:"gpus"`
	GPU          string  `json:"gpu" doc:"The GPU model; empty without a GPU."`
	Available    bool    `json:"available" doc:"Whether there is room for one more machine now."`
	Limits       string  `json:"limits" doc:"Why a machine's cores and memory are not enforced, in a sentence; empty if they are."`
	PricePerHour *Number `json:"price_per_hour" nullable:"true" doc:"Current price of one hour; null if no price is known."`
	Currency     string  `json:"currency" example:"USD" doc:"ISO 4217; empty if no price is known."`
}

func showFlavor(f machine.Flavor) Flavor {
	shown := Flavor{Name: f.Name, Cores: f.Cores, Memory: f.Memory, GPUs: f.GPUs, GPU: f.GPU, Available: f.Available, Limits: f.Limits, Currency: f.Price.Currency}
	if f.Price.Currency != "" {
		shown.PricePerHour = new(Number(f.Price.Hourly.String()))
	}
	return shown
}

func (a *api) flavorRoutes() {
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/flavors", OperationID: "list-flavors", Tags: []string{"Compute"}, Summary: "List the flavors of the workspace's provider, smallest first",
		Description: "The sizes of compute instances and warehouses, with the current price of one hour.\n\n" +
			"Decided here: the provider local has cpu.1, cpu.2 and so on, up to the cores of its host. It also has flavors with GPUs if the host has GPUs.",
	}, a.listFlavors)
}

func (a *api) listFlavors(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Flavor]], error) {
	flavors, err := a.Compute.Flavors(ctx, s)
	if err != nil {
		return nil, err
	}
	page, err := cut(flavors, in.page(), func(f machine.Flavor) string { return f.Name })
	if err != nil {
		return nil, err
	}
	return list(page, showFlavor), nil
}
