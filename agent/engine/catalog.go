package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
)

// catalogClient asks the platform's catalog, by the Iceberg REST protocol, for what DuckDB does not do there: views, and schemas within schemas.
type catalogClient struct {
	ctx      context.Context // ends with the statement
	courier  *courier        // so that it reads the same as DuckDB
	catalog  agent.Catalog
	prefixes map[string]string // of databases by name
}

const catalogTimeout = 30 * time.Second

func newCatalogClient(ctx context.Context, courier *courier, c agent.Catalog) *catalogClient {
	return &catalogClient{ctx: ctx, courier: courier, catalog: c, prefixes: map[string]string{}}
}

// catalogError is an answer other than success.
type catalogError struct {
	status  int
	message string
}

func (e *catalogError) Error() string { return e.message }

func (e *catalogError) fault() agent.StatementFault {
	switch {
	case e.status == http.StatusForbidden || e.status == http.StatusUnauthorized:
		return agent.FaultForbidden
	case e.status >= 500:
		return agent.FaultEngine
	}
	return agent.FaultQuery
}

// call sends a request and reads the answer into out, if that is not nil.
func (c *catalogClient) call(method, path string, in, out any) error {
	asked := &errand.Errand{Method: method, URL: strings.TrimSuffix(c.catalog.URL, "/") + path, Header: http.Header{"Authorization": {"Bearer " + c.catalog.Token}}}
	ctx, cancel := context.WithTimeout(c.ctx, catalogTimeout)
	defer cancel()
	carry := c.courier.get
	if method == http.MethodGet {
		c.courier.admit(path)
	} else {
		defer c.courier.forget()
		carry = c.courier.change
	}
	if in != nil {
		var err error
		if asked.Body, err = json.Marshal(in); err != nil {
			return err
		}
		asked.Header.Set("Content-Type", "application/json")
	}
	a, err := carry(ctx, asked)
	if err != nil {
		return fmt.Errorf("asking the catalog: %w", err)
	}
	if a.Status/100 != 2 {
		return answeredError(a.Status, a.Body)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(a.Body, out)
}

func answeredError(status int, body []byte) error {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &e) != nil || e.Error.Message == "" {
		e.Error.Message = fmt.Sprintf("the catalog answered %d", status)
	}
	return &catalogError{status, e.Error.Message}
}

// prefix is that of a database's paths.
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

// namespacePath is where a schema, and what is below it, is found.
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

// viewBody is a view as the catalog loads it.
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

// view loads the current version of a view; nil where there is none.
func (c *catalogClient) view(t agent.StatementTable) (*viewVersion, error) {
	path, err := c.viewPath(t)
	if err != nil {
		return nil, err
	}
	var body viewBody
	err = c.call(http.MethodGet, path, nil, &body)
	if e, ok := err.(*catalogError); ok && e.status == http.StatusNotFound {
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
