package iceberg

import (
	"github.com/millpond/millpond/domain/lake"
)

// described is a namespace with its properties, including its location.
type described struct {
	Namespace  namespace         `json:"namespace"`
	Properties map[string]string `json:"properties"`
}

func describe(s lake.Schema) described {
	return described{Namespace: levels(s.Name), Properties: s.Properties}
}

func (f *face) listNamespaces(c *call) error {
	parent := joined(c.URL.Query().Get("parent"))
	p, err := c.page("namespaces", c.database(), parent)
	if err != nil {
		return err
	}
	names, next, err := f.Catalog.SchemaNames(c.Context(), c.scope, c.database(), parent, p.after, p.limit)
	if err != nil {
		return err
	}
	namespaces := make([]namespace, len(names))
	for i, name := range names {
		namespaces[i] = levels(name)
	}
	return c.answer(struct {
		Namespaces []namespace `json:"namespaces"`
		Next       *string     `json:"next-page-token,omitempty"`
	}{namespaces, p.token(next)})
}

func (f *face) createNamespace(c *call) error {
	var in described
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	name, err := in.Namespace.schema("namespace")
	if err != nil {
		return err
	}
	made, err := f.Catalog.CreateSchema(c.Context(), c.scope, c.database(), name, in.Properties, key)
	if err != nil {
		return err
	}
	return c.answer(describe(made))
}

func (f *face) loadNamespace(c *call) error {
	found, err := f.Catalog.Schema(c.Context(), c.scope, c.database(), c.schema())
	if err != nil {
		return err
	}
	return c.answer(describe(found))
}

func (f *face) namespaceExists(c *call) error {
	if _, err := f.Catalog.Schema(c.Context(), c.scope, c.database(), c.schema()); err != nil {
		return err
	}
	return c.noContent()
}

func (f *face) updateNamespace(c *call) error {
	var in struct {
		Removals []string          `json:"removals"`
		Updates  map[string]string `json:"updates"`
	}
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	changed, err := f.Catalog.UpdateSchema(c.Context(), c.scope, c.database(), c.schema(), in.Updates, in.Removals, key)
	if err != nil {
		return err
	}
	return c.answer(changed)
}

func (f *face) dropNamespace(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	if err := f.Catalog.DropSchema(c.Context(), c.scope, c.database(), c.schema(), key); err != nil {
		return err
	}
	return c.noContent()
}
