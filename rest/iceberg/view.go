package iceberg

import (
	"encoding/json"

	"github.com/millpond/millpond/domain/lake"
)

func (f *face) listViews(c *call) error { return f.listNames(c, lake.KindView) }

func (f *face) createView(c *call) error {
	var in struct {
		Name       string            `json:"name"`
		Location   string            `json:"location"`
		Schema     json.RawMessage   `json:"schema"`
		Version    json.RawMessage   `json:"view-version"`
		Properties map[string]string `json:"properties"`
	}
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	if in.Name == "" {
		return missing("name")
	}
	if err := required("schema", given(in.Schema), "view-version", given(in.Version)); err != nil {
		return err
	}
	made, err := f.Catalog.CreateView(c.Context(), c.scope, c.database(), c.schema(), lake.NewView{
		Name: in.Name, Location: in.Location, Schema: in.Schema, Version: in.Version, Properties: in.Properties,
	}, key)
	if err != nil {
		return err
	}
	return c.answerView(made)
}

func (c *call) answerView(l lake.Loaded) error {
	return c.answerLoaded(l, around{Config: map[string]string{}})
}

func (f *face) loadView(c *call) error {
	found, err := f.Catalog.Load(c.Context(), c.scope, c.ref("view"), lake.KindView, lake.LoadOptions{})
	if err != nil {
		return err
	}
	return c.answerView(found)
}

func (f *face) viewExists(c *call) error {
	if _, err := f.Catalog.Table(c.Context(), c.scope, c.ref("view"), lake.KindView); err != nil {
		return err
	}
	return c.noContent()
}

func (f *face) replaceView(c *call) error {
	var in commit
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	in.Requirements = orNone(in.Requirements) // optional here, as in the protocol
	change, err := in.change(c.ref("view"))
	if err != nil {
		return err
	}
	done, err := f.Catalog.CommitView(c.Context(), c.scope, change, key)
	if err != nil {
		return err
	}
	return c.answerView(done)
}

func (f *face) dropView(c *call) error { return f.drop(c, c.ref("view"), lake.KindView, false) }

func (f *face) renameView(c *call) error { return f.rename(c, lake.KindView) }

func (f *face) registerView(c *call) error {
	made, err := f.register(c, lake.KindView)
	if err != nil {
		return err
	}
	return c.answerView(made)
}
