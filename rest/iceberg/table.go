package iceberg

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

func (f *face) listTables(c *call) error { return f.listNames(c, lake.KindTable) }

func (f *face) listNames(c *call, kind lake.TableKind) error {
	p, err := c.page(string(kind), c.database(), c.schema())
	if err != nil {
		return err
	}
	names, next, err := f.Catalog.Names(c.Context(), c.scope, c.database(), c.schema(), kind, p.after, p.limit)
	if err != nil {
		return err
	}
	in := levels(c.schema())
	identifiers := make([]identifier, len(names))
	for i, name := range names {
		identifiers[i] = identifier{Namespace: in, Name: name}
	}
	return c.answer(struct {
		Identifiers []identifier `json:"identifiers"`
		Next        *string      `json:"next-page-token,omitempty"`
	}{identifiers, p.token(next)})
}

// maxCreate bounds the request for a new table, in bytes. The request has no snapshots: a schema of
// 10,000 columns is a tenth of this.
const maxCreate = 4 << 20

func (f *face) createTable(c *call) error {
	if err := domain.Authorize(c.Context(), f.Catalog.Store, c.scope, domain.CatalogWrite); err != nil { // before the body is read
		return err
	}
	c.maxBody = min(c.maxBody, maxCreate)
	var in struct {
		Name          string            `json:"name"`
		Location      string            `json:"location"`
		Schema        json.RawMessage   `json:"schema"`
		PartitionSpec json.RawMessage   `json:"partition-spec"`
		SortOrder     json.RawMessage   `json:"write-order"`
		Properties    map[string]string `json:"properties"`
		Stage         bool              `json:"stage-create"`
	}
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	if err := required("name", in.Name != "", "schema", given(in.Schema)); err != nil {
		return err
	}
	fields, err := shape{in.Schema, orNil(in.PartitionSpec), orNil(in.SortOrder)}.countedFromOne()
	if err != nil {
		return err
	}
	made, err := f.Catalog.Create(c.Context(), c.scope, c.database(), c.schema(), lake.NewTable{
		Name: in.Name, Location: in.Location, Schema: fields.Schema, PartitionSpec: fields.PartitionSpec, SortOrder: fields.SortOrder,
		Properties: in.Properties, Stage: in.Stage,
	}, key)
	if err != nil {
		return err
	}
	return f.answerOpened(c, made, true)
}

// loadTable answers with the metadata, or with 304 if the client already has it.
func (f *face) loadTable(c *call) error {
	refsOnly, err := c.refsOnly()
	if err != nil {
		return err
	}
	var etag string
	found, err := f.Catalog.Load(c.Context(), c.scope, c.ref("table"), lake.KindTable, lake.LoadOptions{
		RefsOnly: refsOnly,
		Unchanged: func(tag string) bool {
			etag = c.etag(tag, refsOnly)
			return c.has(etag)
		},
	})
	if err != nil {
		return err
	}
	if found.Unchanged {
		c.w.Header().Set("ETag", etag)
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if found.Table.Registered {
		c.w.Header().Set(registeredHeader, "true")
	}
	return f.answerOpened(c, found, !refsOnly)
}

// registeredHeader tells the platform's own maintenance that a table's files came from elsewhere,
// so that it removes nothing.
const registeredHeader = "Millpond-Registered"

// refsOnly reads which snapshots the client wants: all, or those that branches and tags name.
func (c *call) refsOnly() (bool, error) {
	switch sent := c.URL.Query().Get("snapshots"); strings.ToLower(sent) {
	case "", "all":
		return false, nil
	case "refs":
		return true, nil
	default:
		return false, domain.Invalid("snapshots", "The query parameter snapshots is %q; give all or refs.", sent)
	}
}

// etag identifies the answer to a load. It changes with the metadata and with every parameter of
// the answer.
func (c *call) etag(tag string, refsOnly bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%t\x00%t", tag, refsOnly, c.delegated()))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:18]) + `"`
}

// has reports whether the client has the answer with the tag.
func (c *call) has(etag string) bool {
	return c.wants("If-None-Match", etag) || c.wants("If-None-Match", "W/"+etag)
}

func (f *face) tableExists(c *call) error {
	if _, err := f.Catalog.Table(c.Context(), c.scope, c.ref("table"), lake.KindTable); err != nil {
		return err
	}
	return c.noContent()
}

func (f *face) dropTable(c *call) error {
	purge, err := c.flag("purgeRequested")
	if err != nil {
		return err
	}
	return f.drop(c, c.ref("table"), lake.KindTable, purge)
}

func (f *face) drop(c *call, ref lake.Ref, kind lake.TableKind, purge bool) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	if err := f.Catalog.Drop(c.Context(), c.scope, ref, kind, purge, key); err != nil {
		return err
	}
	return c.noContent()
}

func (f *face) renameTable(c *call) error { return f.rename(c, lake.KindTable) }

func (f *face) rename(c *call, kind lake.TableKind) error {
	var in struct {
		Source      *identifier `json:"source"`
		Destination *identifier `json:"destination"`
	}
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	from, err := in.Source.ref("source", c.database())
	if err != nil {
		return err
	}
	to, err := in.Destination.ref("destination", c.database())
	if err != nil {
		return err
	}
	if err := f.Catalog.Rename(c.Context(), c.scope, kind, from, to, key); err != nil {
		return err
	}
	return c.noContent()
}

func (f *face) registerTable(c *call) error {
	made, err := f.register(c, lake.KindTable)
	if err != nil {
		return err
	}
	return f.answerOpened(c, made, true)
}

func (f *face) register(c *call, kind lake.TableKind) (lake.Loaded, error) {
	var in struct {
		Name             string `json:"name"`
		MetadataLocation string `json:"metadata-location"`
		Overwrite        bool   `json:"overwrite"`
	}
	key, err := c.change(&in)
	if err != nil {
		return lake.Loaded{}, err
	}
	if err := required("name", in.Name != "", "metadata-location", in.MetadataLocation != ""); err != nil {
		return lake.Loaded{}, err
	}
	return f.Catalog.Register(c.Context(), c.scope, c.database(), c.schema(),
		lake.Registration{Name: in.Name, MetadataLocation: in.MetadataLocation, Overwrite: in.Overwrite}, kind, key)
}

// required refuses a body that lacks one of two fields.
func required(one string, hasOne bool, other string, hasOther bool) error {
	switch {
	case !hasOne:
		return missing(one)
	case !hasOther:
		return missing(other)
	}
	return nil
}

// given reports whether a field is present and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func orNil(raw json.RawMessage) json.RawMessage {
	if given(raw) {
		return raw
	}
	return nil
}
