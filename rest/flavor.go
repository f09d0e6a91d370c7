package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
)

// Flavor is a size of machine.
type Flavor struct {
	Name         string  `json:"name" example:"cpu.2"`
	Cores        int     `json:"cores"`
	Memory       int64   `json:"memory" doc:"Bytes."`
	GPUs         int     `json:"gpus"`
	GPU          string  `json:"gpu" doc:"The model; empty without one."`
	Available    bool    `json:"available" doc:"Whether there is room for one more now."`
	Limits       string  `json:"limits" doc:"Why a machine is not held to its cores and memory, in a sentence; empty where it is."`
	PricePerHour *Number `json:"price_per_hour" nullable:"true" doc:"What an hour costs now; null where no price is known."`
	Currency     string  `json:"currency" example:"USD" doc:"ISO 4217; empty where no price is known."`
}

func showFlavor(f domain.Flavor) Flavor {
	shown := Flavor{Name: f.Name, Cores: f.Cores, Memory: f.Memory, GPUs: f.GPUs, GPU: f.GPU, Available: f.Available, Limits: f.Limits, Currency: f.Price.Currency}
	if f.Price.Currency != "" {
		shown.PricePerHour = new(Number(f.Price.Hourly.String()))
	}
	return shown
}

func (a *api) flavorRoutes() {
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/flavors", OperationID: "list-flavors", Tags: []string{"Compute"}, Summary: "List the flavors that the workspace's provider has, smallest first",
		Description: "What compute instances and warehouses can be, with what an hour of each costs now.\n\n" +
			"Decided here: the provider local has cpu.1, cpu.2 and so on up to the cores of its host, and flavors with GPUs where the host has some.",
	}, a.listFlavors)
}

func (a *api) listFlavors(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Flavor]], error) {
	flavors, err := a.Compute.Flavors(ctx, s)
	if err != nil {
		return nil, err
	}
	page, err := cut(flavors, in.page(), func(f domain.Flavor) string { return f.Name })
	if err != nil {
		return nil, err
	}
	return list(page, showFlavor), nil
}
