package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Snapshot is one state of a table.
type Snapshot struct {
	ID        int64             `json:"id"`
	ParentID  *int64            `json:"parent_id" nullable:"true"`
	Sequence  int64             `json:"sequence_number"`
	At        Time              `json:"at"`
	Operation string            `json:"operation" example:"append"`
	SchemaID  *int              `json:"schema_id" nullable:"true"`
	Current   bool              `json:"current"`
	Refs      []string          `json:"refs" doc:"The branches and tags that refer to it."`
	Summary   map[string]string `json:"summary"`
}

// HistoryEntry is the time at which a snapshot became current.
type HistoryEntry struct {
	At         Time   `json:"at"`
	SnapshotID int64  `json:"snapshot_id"`
	ParentID   *int64 `json:"parent_id" nullable:"true"`
	Ancestor   bool   `json:"is_current_ancestor" doc:"False for a snapshot that was rolled back."`
}

// DataFile is a file of a table.
type DataFile struct {
	Path      string `json:"path"`
	Content   string `json:"content" enum:"data,position_deletes,equality_deletes"`
	Format    string `json:"format" example:"parquet"`
	Partition string `json:"partition" example:"day=2026-01-01" doc:"Empty if the table is not partitioned."`
	SpecID    int    `json:"spec_id"`
	Records   int64  `json:"records"`
	Bytes     int64  `json:"bytes"`
}

// Partition has the totals of one partition of a table.
type Partition struct {
	Partition   string `json:"partition" example:"day=2026-01-01" doc:"Empty if the table is not partitioned."`
	SpecID      int    `json:"spec_id"`
	Records     int64  `json:"records" doc:"Records in data files, deleted ones included."`
	DataFiles   int64  `json:"data_files"`
	Bytes       int64  `json:"bytes"`
	DeleteFiles int64  `json:"delete_files"`
}

// SampleRows are some rows of a table.
type SampleRows struct {
	Columns   []string `json:"columns"`
	Rows      [][]any  `json:"rows" doc:"Values in the form of POST /sql/execute. A cell is cut at 1,000 characters."`
	Truncated bool     `json:"truncated" doc:"True if a cell was cut, or rows were left out at 1 MiB."`
}

func (a *api) tableDetailRoutes(tags []string, one string) {
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/snapshots", OperationID: "list-snapshots", Tags: tags, Summary: "List a table's snapshots, newest first",
	}, a.listSnapshots)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/history", OperationID: "list-table-history", Tags: tags, Summary: "List when each snapshot became current, newest first",
	}, a.listTableHistory)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/files", OperationID: "list-data-files", Tags: tags, Summary: "List the files of a table's snapshot",
		Description: "Read from the manifests: no data file is opened.",
	}, a.listDataFiles)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/partitions", OperationID: "list-partitions", Tags: tags, Summary: "List a table's partitions",
		Description: "Read from the manifests of the current snapshot: no data file is opened.",
	}, a.listPartitions)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/sample", OperationID: "sample-table", Tags: tags, Summary: "Read some rows of a table",
		Description: "It needs no warehouse. The answer has any rows of the current snapshot, at most 100 and 1 MiB. A workspace may run four samples at once; more are 429.",
	}, a.sampleTable)
}

// detail finds the table of the path.
func (a *api) detail(ctx context.Context, s domain.Scope, p TablePath) (domain.TableID, error) {
	t, err := a.lake.Table(ctx, s, p.ref(), lake.KindTable)
	return t.ID, err
}

// listed shows a page of a table's details from the catalog.
func listed[D, T any](all domain.List[D], err error, show func(D) T) (*answer[List[T]], error) {
	if err != nil {
		return nil, err
	}
	return list(all, show), nil
}

func (a *api) listSnapshots(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	PageQuery
},
) (*answer[List[Snapshot]], error) {
	id, err := a.detail(ctx, s, in.TablePath)
	if err != nil {
		return nil, err
	}
	all, err := a.lake.Snapshots(ctx, s, id, in.page())
	return listed(all, err, func(n lake.Snapshot) Snapshot {
		return Snapshot{
			ID: n.ID, ParentID: n.ParentID, Sequence: n.Sequence, At: Time(n.At), Operation: n.Operation, SchemaID: n.SchemaID, Current: n.Current,
			Refs: each(n.Refs, func(r string) string { return r }), Summary: n.Summary,
		}
	})
}

func (a *api) listTableHistory(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	PageQuery
},
) (*answer[List[HistoryEntry]], error) {
	id, err := a.detail(ctx, s, in.TablePath)
	if err != nil {
		return nil, err
	}
	all, err := a.lake.History(ctx, s, id, in.page())
	return listed(all, err, func(h lake.HistoryEntry) HistoryEntry {
		return HistoryEntry{At: Time(h.At), SnapshotID: h.SnapshotID, ParentID: h.ParentID, Ancestor: h.Ancestor}
	})
}

func (a *api) listDataFiles(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	PageQuery
	Snapshot int64 `query:"snapshot" doc:"Defaults to the current snapshot."`
},
) (*answer[List[DataFile]], error) {
	id, err := a.detail(ctx, s, in.TablePath)
	if err != nil {
		return nil, err
	}
	var f lake.FilesFilter
	if in.Snapshot != 0 {
		f.Snapshot = &in.Snapshot
	}
	all, err := a.lake.DataFiles(ctx, s, id, f, in.page())
	return listed(all, err, func(d lake.DataFile) DataFile {
		return DataFile{Path: d.Path, Content: d.Content, Format: d.Format, Partition: d.Partition, SpecID: d.SpecID, Records: d.Records, Bytes: d.Bytes}
	})
}

func (a *api) listPartitions(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	PageQuery
},
) (*answer[List[Partition]], error) {
	id, err := a.detail(ctx, s, in.TablePath)
	if err != nil {
		return nil, err
	}
	all, err := a.lake.Partitions(ctx, s, id, in.page())
	return listed(all, err, func(p lake.Partition) Partition { return Partition(p) })
}

func (a *api) sampleTable(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	Limit int `query:"limit" minimum:"1" maximum:"100" default:"20"`
},
) (*answer[SampleRows], error) {
	id, err := a.detail(ctx, s, in.TablePath)
	if err != nil {
		return nil, err
	}
	r, err := a.lake.Sample(ctx, s, id, in.Limit)
	if err != nil {
		return nil, err
	}
	return &answer[SampleRows]{SampleRows{Columns: each(r.Columns, func(c lake.Column) string { return c.Name }), Rows: r.Rows, Truncated: r.Truncated}}, nil
}
