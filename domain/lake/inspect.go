package lake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/millpond/millpond/domain"
)

// Column is a column of a table's current schema.
type Column struct {
	ID       int    // of the field
	Name     string // at the top level
	Type     string // as Iceberg writes it: long, decimal(38, 2), struct<a: long>, list<string>, map<string, long>
	Required bool
	Doc      string
}

// Columns returns the columns of the table's or view's current schema. It reads only the metadata
// file.
func (c *Catalog) Columns(ctx context.Context, s domain.Scope, id domain.TableID) ([]Column, error) {
	row, err := c.TableByID(ctx, s, id)
	if err != nil {
		return nil, err
	}
	if row.Kind == KindView {
		return c.viewColumns(ctx, row)
	}
	t, err := c.openRow(ctx, s, row)
	if err != nil {
		return nil, err
	}
	return columns(t.meta.CurrentSchema()), nil
}

func columns(schema *iceberg.Schema) []Column {
	all := []Column{}
	for _, f := range schema.Fields() {
		all = append(all, Column{ID: f.ID, Name: f.Name, Type: typeName(f.Type), Required: f.Required, Doc: f.Doc})
	}
	return all
}

// typeName returns the type's name, with the types nested in it.
func typeName(t iceberg.Type) string {
	switch t := t.(type) {
	case *iceberg.StructType:
		fields := make([]string, len(t.FieldList))
		for i, f := range t.FieldList {
			fields[i] = f.Name + ": " + typeName(f.Type)
		}
		return "struct<" + strings.Join(fields, ", ") + ">"
	case *iceberg.ListType:
		return "list<" + typeName(t.Element) + ">"
	case *iceberg.MapType:
		return "map<" + typeName(t.KeyType) + ", " + typeName(t.ValueType) + ">"
	}
	return t.String()
}

// Snapshot is one snapshot of a table.
type Snapshot struct {
	ID        int64
	ParentID  *int64
	Sequence  int64
	At        time.Time
	Operation string
	SchemaID  *int
	Current   bool
	Refs      []string // branches and tags that name it
	Summary   map[string]string
}

// Snapshots lists the table's snapshots, newest first. It reads only the metadata file.
func (c *Catalog) Snapshots(ctx context.Context, s domain.Scope, id domain.TableID, p domain.Page) (domain.List[Snapshot], error) {
	t, err := c.open(ctx, s, id)
	if err != nil {
		return domain.List[Snapshot]{}, err
	}
	refs := map[int64][]string{}
	for name, ref := range t.meta.Refs() {
		refs[ref.SnapshotID] = append(refs[ref.SnapshotID], name)
	}
	current := t.meta.CurrentSnapshot()
	raw := t.meta.Snapshots()
	slices.SortFunc(raw, func(a, b table.Snapshot) int {
		return cmp.Or(cmp.Compare(b.SequenceNumber, a.SequenceNumber), cmp.Compare(b.TimestampMs, a.TimestampMs), cmp.Compare(b.SnapshotID, a.SnapshotID))
	})
	key := func(n Snapshot) string { return strconv.FormatInt(n.ID, 10) }
	all := make([]Snapshot, len(raw))
	for i, r := range raw {
		all[i] = Snapshot{
			ID: r.SnapshotID, ParentID: r.ParentSnapshotID, Sequence: r.SequenceNumber, At: time.UnixMilli(r.TimestampMs).UTC(), SchemaID: r.SchemaID,
			Current: current != nil && current.SnapshotID == r.SnapshotID, Refs: slices.Sorted(slices.Values(refs[r.SnapshotID])), Summary: map[string]string{},
		}
		if r.Summary != nil {
			all[i].Operation, all[i].Summary = string(r.Summary.Operation), r.Summary.Properties
		}
	}
	return pageOver("snapshots", id, all, p, key)
}

// pageOver returns one page of a list in memory, whose keys are unique. CodeInvalid if the cursor's
// row is no longer in the list.
func pageOver[T any](list string, filter any, all []T, p domain.Page, key func(T) string) (domain.List[T], error) {
	after, limit, err := p.After(domain.ListName(list, filter))
	if err != nil {
		return domain.List[T]{}, err
	}
	if after != "" {
		i := slices.IndexFunc(all, func(row T) bool { return key(row) == after })
		if i < 0 {
			return domain.List[T]{}, domain.Invalid("cursor", "The cursor's row is no longer in the list; start again without a cursor.")
		}
		all = all[i+1:]
	}
	return domain.PageOf(domain.ListName(list, filter), all[:min(len(all), limit+1)], limit, key), nil
}

// HistoryEntry is the moment at which a snapshot became current.
type HistoryEntry struct {
	At         time.Time
	SnapshotID int64
	ParentID   *int64 // nil also if the parent is expired
	Ancestor   bool   // of the current snapshot, or itself; false after a rollback
}

// History lists which snapshots became current, newest first. It reads only the metadata file.
func (c *Catalog) History(ctx context.Context, s domain.Scope, id domain.TableID, p domain.Page) (domain.List[HistoryEntry], error) {
	t, err := c.open(ctx, s, id)
	if err != nil {
		return domain.List[HistoryEntry]{}, err
	}
	parents := map[int64]*int64{}
	for _, n := range t.meta.Snapshots() {
		parents[n.SnapshotID] = n.ParentSnapshotID
	}
	ancestors := map[int64]bool{}
	if current := t.meta.CurrentSnapshot(); current != nil {
		for at := &current.SnapshotID; at != nil && !ancestors[*at]; at = parents[*at] {
			ancestors[*at] = true
		}
	}
	var all []HistoryEntry
	for e := range t.meta.SnapshotLogs() {
		all = append(all, HistoryEntry{
			At: time.UnixMilli(e.TimestampMs).UTC(), SnapshotID: e.SnapshotID, ParentID: parents[e.SnapshotID], Ancestor: ancestors[e.SnapshotID],
		})
	}
	slices.Reverse(all)
	return pageOver("history", id, all, p, func(e HistoryEntry) string { return fmt.Sprintf("%d@%d", e.SnapshotID, e.At.UnixMilli()) })
}
