package duckdb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
)

// catalogClient uses the platform's catalog over the Iceberg REST protocol. It handles what DuckDB
// does not: views, and schemas within schemas.
type catalogClient struct {
	ctx      context.Context    // ends with the statement
	asking   *catalog.Statement // shared with DuckDB, so that both see the same state
	prefixes map[string]string  // of databases by name
}

// call sends a request and decodes the response into out, unless out is nil.
func (c *catalogClient) call(method, path string, in, out any) error {
	return c.asking.Call(c.ctx, method, path, in, out)
}

// prefix returns the path prefix of a database.
func (c *catalogClient) prefix(database string) (string, error) {
	if p, ok := c.prefixes[database]; ok {
		return p, nil
	}
	var config struct{ Overrides, Defaults map[string]string }
	if err := c.call(http.MethodGet, "/v1/config?warehouse="+url.QueryEscape(database), nil, &config); err != nil {
		return "", err
	}
	p := config.Overrides["prefix"]
	if p == "" {
		p = config.Defaults["prefix"]
	}
	if p != "" {
		p = "/" + url.PathEscape(p)
	}
	c.prefixes[database] = p
	return p, nil
}

// namespacePath returns the path of a schema and of everything below it.
func (c *catalogClient) namespacePath(database, schema string) (string, error) {
	p, err := c.prefix(database)
	return "/v1" + p + "/namespaces/" + url.PathEscape(strings.ReplaceAll(schema, ".", "\x1f")), err
}

func (c *catalogClient) tablePath(t agent.StatementTable) (string, error) {
	p, err := c.namespacePath(t.Database, t.Schema)
	return p + "/tables/" + url.PathEscape(t.Table), err
}

func (c *catalogClient) viewPath(t agent.StatementTable) (string, error) {
	p, err := c.namespacePath(t.Database, t.Schema)
	return p + "/views/" + url.PathEscape(t.Table), err
}

// viewBody is a view as the catalog returns it.
type viewBody struct {
	Metadata struct {
		UUID     string        `json:"view-uuid"`
		Current  int           `json:"current-version-id"`
		Versions []viewVersion `json:"versions"`
		Schemas  []struct {
			ID     int `json:"schema-id"`
			Fields any `json:"fields"`
		} `json:"schemas"`
	} `json:"metadata"`
}

type viewVersion struct {
	ID              int                  `json:"version-id"`
	Timestamp       int64                `json:"timestamp-ms"`
	Schema          int                  `json:"schema-id"`
	Summary         map[string]string    `json:"summary"`
	Representations []viewRepresentation `json:"representations"`
	Catalog         string               `json:"default-catalog,omitempty"`
	Namespace       []string             `json:"default-namespace"`
}

type viewRepresentation struct {
	Type    string `json:"type"`
	SQL     string `json:"sql"`
	Dialect string `json:"dialect"`
}

// view loads the current version of a view. It returns nil if the view does not exist.
func (c *catalogClient) view(t agent.StatementTable) (*viewVersion, error) {
	path, err := c.viewPath(t)
	if err != nil {
		return nil, err
	}
	var body viewBody
	err = c.call(http.MethodGet, path, nil, &body)
	if catalog.IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i, v := range body.Metadata.Versions {
		if v.ID == body.Metadata.Current {
			return &body.Metadata.Versions[i], nil
		}
	}
	return nil, fmt.Errorf("the view %s has no current version", t.Table)
}
