package iceberg

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/rest/httpx"
)

// answerOpened answers with a table and with the access to its files. The ETag of a table with all
// snapshots, or with the requested ones, is that of a load.
func (f *face) answerOpened(c *call, l lake.Loaded, allSnapshots bool) error {
	o, err := f.opening(c, c.delegated())
	if err != nil {
		return err
	}
	if l.MetadataLocation != "" {
		c.w.Header().Set("ETag", c.etag(l.Tag, !allSnapshots))
	}
	if o.config == nil {
		o.config = map[string]string{}
	}
	return c.answerLoaded(l, around{Config: o.config, Credentials: o.credentials})
}

// around has the fields beside the metadata in an answer.
type around struct {
	Location    string            `json:"metadata-location,omitempty"`
	Config      map[string]string `json:"config,omitzero"`
	Credentials []credential      `json:"storage-credentials,omitempty"`
}

// answerLoaded answers with the service's metadata as it is. Metadata can have megabytes, so it is
// neither parsed nor copied.
func (c *call) answerLoaded(l lake.Loaded, a around) error {
	a.Location = l.MetadataLocation
	envelope, err := json.Marshal(a)
	if err != nil {
		return err
	}
	opening, closing := []byte(`{"metadata":`), []byte("}\n")
	if len(envelope) > len("{}") {
		opening = append(envelope[:len(envelope)-1], `,"metadata":`...)
	}
	if err := c.hold(len(l.Metadata)); err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(opening)+len(l.Metadata)+len(closing)))
	c.w.WriteHeader(http.StatusOK)
	for _, part := range [][]byte{opening, l.Metadata, closing} {
		if _, err := c.w.Write(part); err != nil {
			return nil // the client left; nothing can be reported
		}
	}
	return nil
}

// hold counts the metadata of an answer. A request that changed something is always answered: a
// client would take a refusal for a failed commit.
func (c *call) hold(bytes int) error {
	if c.Method != http.MethodGet {
		return nil
	}
	return httpx.Hold(c.Context(), int64(bytes))
}
