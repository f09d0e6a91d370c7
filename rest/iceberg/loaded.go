package iceberg

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/millpond/millpond/domain/lake"
)

// answerOpened answers with a table, and with how its files are reached. One that has all its snapshots in it, or those asked for, has the tag of a load.
func (f *face) answerOpened(c *call, l lake.Loaded, allSnapshots bool) error {
	o, err := f.opening(c, c.delegated())
	if err != nil {
		return err
	}
	if l.MetadataLocation != "" {
		c.w.Header().Set("ETag", c.etag(l.MetadataLocation, !allSnapshots))
	}
	if o.config == nil {
		o.config = map[string]string{}
	}
	return c.answerLoaded(l, around{Config: o.config, Credentials: o.credentials})
}

// around is what stands beside the metadata in an answer.
type around struct {
	Location    string            `json:"metadata-location,omitempty"`
	Config      map[string]string `json:"config,omitzero"`
	Credentials []credential      `json:"storage-credentials,omitempty"`
}

// answerLoaded answers with the metadata as the service has it: megabytes of it are neither read nor copied.
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
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(opening)+len(l.Metadata)+len(closing)))
	c.w.WriteHeader(http.StatusOK)
	for _, part := range [][]byte{opening, l.Metadata, closing} {
		if _, err := c.w.Write(part); err != nil {
			return nil // the client has gone, and nobody is to be told
		}
	}
	return nil
}
