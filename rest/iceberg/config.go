package iceberg

import (
	"fmt"

	"github.com/millpond/millpond/domain/lake"
)

// configured is the part of the configuration that all clients share.
type configured struct {
	Overrides map[string]string `json:"overrides"`
	Defaults  map[string]string `json:"defaults"`
	Endpoints []string          `json:"endpoints"`
	Lifetime  string            `json:"idempotency-key-lifetime"` // ISO 8601
}

func configure(endpoints []endpoint) configured {
	c := configured{Defaults: map[string]string{}, Lifetime: fmt.Sprintf("PT%.0fM", lake.AnswerTime.Minutes())}
	for _, e := range endpoints {
		c.Endpoints = append(c.Endpoints, e.method+" "+e.path)
	}
	return c
}

// getConfig returns the configuration of the client's warehouse: a database by its name or id.
// Without a warehouse it is the first database of the workspace.
func (f *face) getConfig(c *call) error {
	warehouse := c.URL.Query().Get("warehouse")
	if warehouse == "" {
		warehouse = lake.DefaultDatabase
	}
	database, err := f.Catalog.Warehouse(c.Context(), c.scope, warehouse)
	if err != nil {
		return err
	}
	own := f.config
	own.Overrides = map[string]string{"prefix": string(database.ID), "namespace-separator": "%1F"}
	return c.answer(own)
}
