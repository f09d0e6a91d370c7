package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Table is an Iceberg table or a view.
type Table struct {
	ID            string         `json:"id" example:"tbl_01k2v9d3h2f5s8wq6z1y7b4c0e"`
	Database      string         `json:"database" example:"lake"`
	Schema        string         `json:"schema" example:"public"`
	Name          string         `json:"name" example:"penguins"`
	Kind          string         `json:"kind" enum:"table,view"`
	RowCount      *int64         `json:"row_count" nullable:"true" doc:"Rows of the current snapshot, from its summary. Null if equality deletes make it unknown, and for views."`
	Snapshot      *TableSnapshot `json:"current_snapshot,omitempty" doc:"Absent before the first snapshot, and for views."`
	DataFiles     *int64         `json:"data_files" nullable:"true"`
	DataBytes     *int64         `json:"data_bytes" nullable:"true"`
	FormatVersion int            `json:"format_version" doc:"Format version of Iceberg."`
	Location      string         `json:"location"`
	MetadataAt    string         `json:"metadata_location" doc:"The current metadata file. The table can be registered by it."`
	CreatedBy     Actor          `json:"created_by"`
	CreatedAt     Time           `json:"created_at"`
	UpdatedBy     Actor          `json:"updated_by"`
	UpdatedAt     Time           `json:"updated_at" doc:"Time of the last commit."`
	DroppedAt     *Time          `json:"dropped_at" nullable:"true"`
	RestorableTo  *Time          `json:"restorable_until" nullable:"true" doc:"Until when a dropped table can be restored."`
	Detached      bool           `json:"detached" doc:"Whether it was dropped without purge. Its files stay, with data_bytes of data, until it is purged or its metadata file is registered."`
}

// TableSnapshot is a state of a table.
type TableSnapshot struct {
	ID        int64  `json:"id"`
	At        Time   `json:"at"`
	Operation string `json:"operation" example:"append"`
}

func showTable(t lake.Table) Table {
	shown := Table{
		ID: string(t.ID), Database: t.Database, Schema: t.Schema, Name: t.Name, Kind: string(t.Kind), RowCount: t.RowCount, DataFiles: t.DataFiles, DataBytes: t.DataBytes,
		FormatVersion: t.FormatVersion, Location: t.Location, MetadataAt: t.MetadataLocation, CreatedBy: showActor(t.CreatedBy), CreatedAt: Time(t.CreatedAt), UpdatedBy: showActor(t.UpdatedBy),
		UpdatedAt: Time(t.UpdatedAt), DroppedAt: optionalTime(t.DroppedAt), RestorableTo: optionalTime(t.PurgeAfter), Detached: t.Detached(),
	}
	if sn := t.Snapshot; sn != nil {
		shown.Snapshot = &TableSnapshot{ID: sn.ID, At: Time(sn.At), Operation: sn.Operation}
	}
	return shown
}

// TablePath is the path of operations on one table.
type TablePath struct {
	SchemaPath
	Table string `path:"table" doc:"The table's name." example:"penguins"`
}

func (p TablePath) ref() lake.Ref { return lake.Ref{Database: p.ID, Schema: p.Schema, Name: p.Table} }

// TableQuery is the query of a list of tables.
type TableQuery struct {
	DatabasePath
	PageQuery
	Schema  string `query:"schema" doc:"Only tables of this schema."`
	Dropped bool   `query:"dropped" doc:"Dropped tables in place of live ones: those that can be restored, and detached ones."`
}

// RenameTable is a table's new name and schema.
type RenameTable struct {
	Schema string `json:"schema,omitempty" doc:"Defaults to its current schema."`
	Name   string `json:"name"`
}

// TableColumns is a table's schema, as in the specification.
type TableColumns struct {
	Columns []TableColumn `json:"columns"`
}

// TableColumn is a column of a table.
type TableColumn struct {
	Name     string `json:"name"`
	Type     string `json:"type" example:"decimal(38, 2)" doc:"An Iceberg type name. Nested types are written struct<name: type, …>, list<type> and map<key, value>."`
	Required bool   `json:"required"`
	Doc      string `json:"doc"`
}

func (a *api) tableRoutes() {
	const in, one = "/databases/{id}", "/databases/{id}/schemas/{schema}/tables/{table}"
	tags, conflict := []string{"Catalog"}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: in + "/tables", OperationID: "list-tables", Tags: tags, Summary: "List a database's tables, oldest first",
		Description: "Tables of all schemas, with row counts and current snapshots. They come from the catalog: no data file is opened.",
	}, a.listTables)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: in + "/views", OperationID: "list-views", Tags: tags, Summary: "List a database's views, oldest first",
	}, a.listViews)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one, OperationID: "get-table", Tags: tags, Summary: "Get a table",
	}, a.getTable)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/schema", OperationID: "get-table-schema", Tags: tags, Summary: "Get a table's columns",
	}, a.getTableSchema)
	operate(a, huma.Operation{
		Method: http.MethodPatch, Path: one, OperationID: "rename-table", Tags: tags, Summary: "Rename a table, or move it to another schema of its database", Errors: conflict,
	}, a.renameTable)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one, OperationID: "drop-table", Tags: tags, Summary: "Drop a table", DefaultStatus: http.StatusNoContent,
		Description: "It can be restored for seven days. With purge, its files are removed after that. Without purge, the table is detached: its files stay until it is purged or registered.",
	}, a.dropTable)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/databases/{id}/schemas/{schema}/views/{table}", OperationID: "drop-view", Tags: tags, Summary: "Drop a view", DefaultStatus: http.StatusNoContent,
		Description: "It can be restored for seven days. Views are created by SQL: CREATE VIEW.",
	}, a.dropView)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/tables/{id}/undrop", OperationID: "undrop-table", Tags: tags, Summary: "Restore a dropped table or view", Errors: conflict,
		Description: "The list of tables with dropped=true has its id. 409 if its name is taken; 404 if its schema no longer exists.",
	}, a.undropTable)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/tables/{id}/purge", OperationID: "purge-table", Tags: tags, Summary: "Purge a table that was dropped without purge", Errors: conflict,
		Description: "Its files are removed once it can no longer be restored, after an hour at the earliest. Until then, registering its metadata file cancels the purge. 409 if it is not detached.",
	}, a.purgeTable)
	a.tableDetailRoutes(tags, one)
}

func (a *api) listTables(ctx context.Context, s domain.Scope, in *TableQuery) (*answer[List[Table]], error) {
	return a.tables(ctx, s, in, lake.KindTable)
}

func (a *api) listViews(ctx context.Context, s domain.Scope, in *TableQuery) (*answer[List[Table]], error) {
	return a.tables(ctx, s, in, lake.KindView)
}

func (a *api) tables(ctx context.Context, s domain.Scope, in *TableQuery, kind lake.TableKind) (*answer[List[Table]], error) {
	d, err := a.Databases.Find(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	all, err := a.lake.Tables(ctx, s, lake.TableFilter{Database: d.ID, Schema: in.Schema, Kind: kind, Dropped: in.Dropped}, in.page())
	if err != nil {
		return nil, err
	}
	return list(all, showTable), nil
}

func (a *api) getTable(ctx context.Context, s domain.Scope, in *TablePath) (*answer[Table], error) {
	return answered(showTable)(a.lake.Table(ctx, s, in.ref(), lake.KindTable))
}

func (a *api) getTableSchema(ctx context.Context, s domain.Scope, in *TablePath) (*answer[TableColumns], error) {
	t, err := a.lake.Table(ctx, s, in.ref(), lake.KindTable)
	if err != nil {
		return nil, err
	}
	columns, err := a.lake.Columns(ctx, s, t.ID)
	if err != nil {
		return nil, err
	}
	return &answer[TableColumns]{TableColumns{each(columns, showColumn)}}, nil
}

func showColumn(c lake.Column) TableColumn {
	return TableColumn{Name: c.Name, Type: c.Type, Required: c.Required, Doc: c.Doc}
}

func (a *api) renameTable(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	Body RenameTable `example:"{\"name\":\"birds\"}"`
},
) (*answer[Table], error) {
	to := in.ref()
	to.Name = in.Body.Name
	if in.Body.Schema != "" {
		to.Schema = in.Body.Schema
	}
	if err := a.lake.Rename(ctx, s, lake.KindTable, in.ref(), to, lake.Key{}); err != nil {
		return nil, err
	}
	return answered(showTable)(a.lake.Table(ctx, s, to, lake.KindTable))
}

func (a *api) dropTable(ctx context.Context, s domain.Scope, in *struct {
	TablePath
	Purge bool `query:"purge" doc:"Also removes its files, once it can no longer be restored."`
},
) (*nothing, error) {
	return nil, a.lake.Drop(ctx, s, in.ref(), lake.KindTable, in.Purge, lake.Key{})
}

func (a *api) dropView(ctx context.Context, s domain.Scope, in *TablePath) (*nothing, error) {
	return nil, a.lake.Drop(ctx, s, in.ref(), lake.KindView, false, lake.Key{})
}

func (a *api) undropTable(ctx context.Context, s domain.Scope, in *struct {
	ID string `path:"id" doc:"Id of the table or the view."`
},
) (*answer[Table], error) {
	return answered(showTable)(a.lake.Undrop(ctx, s, domain.TableID(in.ID)))
}

func (a *api) purgeTable(ctx context.Context, s domain.Scope, in *struct {
	ID string `path:"id" doc:"Id of the table."`
},
) (*answer[Table], error) {
	return answered(showTable)(a.lake.PurgeDropped(ctx, s, domain.TableID(in.ID)))
}
