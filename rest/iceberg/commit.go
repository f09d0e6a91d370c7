package iceberg

import (
	"encoding/json"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// commit is one table's or view's part of a change.
type commit struct {
	Identifier   *identifier     `json:"identifier"`
	Requirements json.RawMessage `json:"requirements"`
	Updates      json.RawMessage `json:"updates"`
}

// change is the commit of the table or view that the path names; where the body names one too, it is the same.
func (in commit) change(ref lake.Ref) (lake.Change, error) {
	if in.Identifier != nil {
		named, err := in.Identifier.ref("identifier", ref.Database)
		if err != nil {
			return lake.Change{}, err
		}
		if domain.FoldName(named.Schema) != domain.FoldName(ref.Schema) || domain.FoldName(named.Name) != domain.FoldName(ref.Name) {
			return lake.Change{}, domain.Invalid("identifier", "The body's identifier is %q and the path names %q; send the commit to the table that it is of.",
				named.Schema+"."+named.Name, ref.Schema+"."+ref.Name)
		}
	}
	if err := required("requirements", in.Requirements != nil, "updates", in.Updates != nil); err != nil {
		return lake.Change{}, err
	}
	return lake.Change{Ref: ref, Requirements: orNone(in.Requirements), Updates: orNone(in.Updates)}, nil
}

// orNone is an empty array for null, which clients send for one.
func orNone(raw json.RawMessage) json.RawMessage {
	if given(raw) {
		return raw
	}
	return json.RawMessage("[]")
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
	done, err := f.Catalog.Commit(c.Context(), c.scope, change, key)
	if err != nil {
		return err
	}
	return c.answerLoaded(done, around{})
}

// commitTransaction commits to several tables, all or none.
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

// reportMetrics takes a client's report of a scan or a commit, and keeps nothing of it: the platform measures its own engines itself. The
// table may be one that is staged: Spark tells of what it has written before the table is there.
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
