package iceberg

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// commit is the part of a change for one table or view.
type commit struct {
	Identifier   *identifier     `json:"identifier"`
	Requirements json.RawMessage `json:"requirements"`
	Updates      json.RawMessage `json:"updates"`
}

// change reads the commit of the table or view in the path. If the body names a table too, it must
// be the same.
func (in commit) change(ref lake.Ref) (lake.Change, error) {
	if in.Identifier != nil {
		named, err := in.Identifier.ref("identifier", ref.Database)
		if err != nil {
			return lake.Change{}, err
		}
		if lake.FoldName(named.Schema) != lake.FoldName(ref.Schema) || lake.FoldName(named.Name) != lake.FoldName(ref.Name) {
			return lake.Change{}, domain.Invalid("identifier", "The body's identifier is %q and the path names %q; send the commit to its own table.",
				named.Schema+"."+named.Name, ref.Schema+"."+ref.Name)
		}
	}
	if err := required("requirements", in.Requirements != nil, "updates", in.Updates != nil); err != nil {
		return lake.Change{}, err
	}
	return lake.Change{Ref: ref, Requirements: orNone(in.Requirements), Updates: orNone(in.Updates)}, nil
}

// orNone returns an empty array for null, which some clients send.
func orNone(raw json.RawMessage) json.RawMessage {
	if given(raw) {
		return raw
	}
	return json.RawMessage("[]")
}

// erasure reads when the files that the commit forgets are deleted. The platform's own maintenance
// sends it.
func erasure(h http.Header) (*lake.Erasure, error) {
	list := h.Get("Millpond-Erase-List")
	if list == "" {
		return nil, nil
	}
	after, err := time.ParseDuration(h.Get("Millpond-Erase-After"))
	if err != nil {
		return nil, domain.Invalid("Millpond-Erase-After", "The header Millpond-Erase-After is %q; use a time such as 24h.", h.Get("Millpond-Erase-After"))
	}
	return &lake.Erasure{List: list, After: after}, nil
}

func (f *face) commitTable(c *call) error {
	var in commit
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	change, err := in.change(c.ref("table"))
	if err != nil {
		return err
	}
	if change.Erase, err = erasure(c.Header); err != nil {
		return err
	}
	done, err := f.Catalog.Commit(c.Context(), c.scope, change, key)
	if err != nil {
		return err
	}
	return c.answerLoaded(done, around{})
}

// commitTransaction commits to several tables atomically.
func (f *face) commitTransaction(c *call) error {
	var in struct {
		Changes []commit `json:"table-changes"`
	}
	key, err := c.change(&in)
	if err != nil {
		return err
	}
	if len(in.Changes) == 0 {
		return missing("table-changes")
	}
	changes := make([]lake.Change, len(in.Changes))
	for i, one := range in.Changes {
		ref, err := one.Identifier.ref("table-changes.identifier", c.database())
		if err != nil {
			return err
		}
		if changes[i], err = one.change(ref); err != nil {
			return err
		}
	}
	if err := f.Catalog.CommitAll(c.Context(), c.scope, c.database(), changes, key); err != nil {
		return err
	}
	return c.noContent()
}

// reportMetrics accepts a client's report of a scan or a commit and discards it: the platform
// measures its own engines. The table may be a staged one: Spark reports its writes before the
// table exists.
func (f *face) reportMetrics(c *call) error {
	var in struct {
		Type string `json:"report-type"`
	}
	if err := c.body(&in); err != nil {
		return err
	}
	if in.Type != "scan-report" && in.Type != "commit-report" {
		return domain.Invalid("report-type", "The report-type is %q; send a scan-report or a commit-report.", in.Type)
	}
	if _, err := f.Catalog.Schema(c.Context(), c.scope, c.database(), c.schema()); err != nil {
		return err
	}
	return c.noContent()
}
