package rest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
)

// Database holds schemas, which hold tables and views.
type Database struct {
	ID        string `json:"id" example:"db_01k2v9d3h2f5s8wq6z1y7b4c0e"`
	Name      string `json:"name" example:"lake" doc:"Unique in the workspace, regardless of case. For an Iceberg REST client, it is the warehouse and the prefix."`
	CreatedBy Actor  `json:"created_by"`
	CreatedAt Time   `json:"created_at"`
}

// NewDatabase is the body of a request to create a database.
type NewDatabase struct {
	Name string `json:"name" example:"sales"`
}

// LakeSchema is a namespace in a database.
type LakeSchema struct {
	Name       string            `json:"name" example:"public" doc:"Its levels, joined by dots."`
	Properties map[string]string `json:"properties"`
	CreatedBy  Actor             `json:"created_by"`
	CreatedAt  Time              `json:"created_at"`
}

// NewSchema is the body of a request to create a schema.
type NewSchema struct {
	Name       string            `json:"name" example:"europe.north" doc:"Its levels, joined by dots. All but the last must exist."`
	Properties map[string]string `json:"properties,omitempty" nullable:"true"`
}

// DatabasePath is the path of operations on one database.
type DatabasePath struct {
	ID string `path:"id" doc:"Id or name of the database." example:"lake"`
}

// SchemaPath is the path of operations on one schema.
type SchemaPath struct {
	DatabasePath
	Schema string `path:"schema" doc:"The schema's name: its levels, joined by dots." example:"public"`
}

func showDatabase(d lake.Database) Database {
	return Database{ID: string(d.ID), Name: d.Name, CreatedBy: showActor(d.CreatedBy), CreatedAt: Time(d.CreatedAt)}
}

func showLakeSchema(l lake.Schema) LakeSchema {
	shown := LakeSchema{Name: l.Name, Properties: l.Properties, CreatedBy: showActor(l.CreatedBy), CreatedAt: Time(l.CreatedAt)}
	if shown.Properties == nil {
		shown.Properties = map[string]string{}
	}
	return shown
}

func (a *api) databaseRoutes() {
	const tag, one = "Catalog", "/databases/{id}"
	tags, conflict := []string{tag}, []int{http.StatusConflict}
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/databases", OperationID: "list-databases", Tags: tags, Summary: "List databases, oldest first",
		Description: "A new workspace has the database lake, with the schema public. Names keep their case, and are found in any case.",
	}, a.listDatabases)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/databases", OperationID: "create-database", Tags: tags, Summary: "Create a database", DefaultStatus: http.StatusCreated, Errors: conflict,
		Description: "The database has the schema public. A name that is taken is 409.\n\nDecided here: the answer is 201 with the whole database.",
	}, a.createDatabase)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one, OperationID: "get-database", Tags: tags, Summary: "Get a database",
	}, a.getDatabase)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one, OperationID: "delete-database", Tags: tags, Summary: "Delete a database", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "409 while the database holds a table or a view. Its dropped tables can no longer be restored.",
	}, a.deleteDatabase)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: one + "/schemas", OperationID: "list-schemas", Tags: tags, Summary: "List a database's schemas, by name",
		Description: "Schemas of all levels.",
	}, a.listSchemas)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: one + "/schemas", OperationID: "create-schema", Tags: tags, Summary: "Create a schema", DefaultStatus: http.StatusCreated, Errors: conflict,
	}, a.createSchema)
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: one + "/schemas/{schema}", OperationID: "delete-schema", Tags: tags, Summary: "Delete a schema", DefaultStatus: http.StatusNoContent, Errors: conflict,
		Description: "409 while the schema holds a table, a view or another schema.",
	}, a.deleteSchema)
}

func (a *api) listDatabases(ctx context.Context, s domain.Scope, in *PageQuery) (*answer[List[Database]], error) {
	all, err := a.Databases.List(ctx, s, in.page())
	if err != nil {
		return nil, err
	}
	return list(all, showDatabase), nil
}

func (a *api) createDatabase(ctx context.Context, s domain.Scope, in *struct {
	Once
	Body NewDatabase `example:"{\"name\":\"sales\"}"`
},
) (*created[Database], error) {
	d, err := a.Databases.Create(ctx, s, lake.NewDatabase{Name: in.Body.Name}, in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[Database]{Location: Prefix + "/databases/" + string(d.ID), Body: showDatabase(d)}, nil
}

func (a *api) getDatabase(ctx context.Context, s domain.Scope, in *DatabasePath) (*answer[Database], error) {
	return answered(showDatabase)(a.Databases.Find(ctx, s, in.ID))
}

func (a *api) deleteDatabase(ctx context.Context, s domain.Scope, in *DatabasePath) (*nothing, error) {
	d, err := a.Databases.Find(ctx, s, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, a.Databases.Delete(ctx, s, d.ID)
}

func (a *api) listSchemas(ctx context.Context, s domain.Scope, in *struct {
	DatabasePath
	PageQuery
},
) (*answer[List[LakeSchema]], error) {
	all, err := a.lake.Schemas(ctx, s, in.ID, in.page())
	if err != nil {
		return nil, err
	}
	return list(all, showLakeSchema), nil
}

func (a *api) createSchema(ctx context.Context, s domain.Scope, in *struct {
	Once
	DatabasePath
	Body NewSchema `example:"{\"name\":\"europe\"}"`
},
) (*created[LakeSchema], error) {
	key, err := in.lake("create-schema", in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	made, err := a.lake.CreateSchema(ctx, s, in.ID, in.Body.Name, in.Body.Properties, key)
	if err != nil {
		return nil, err
	}
	return &created[LakeSchema]{Location: Prefix + "/databases/" + string(made.DatabaseID) + "/schemas/" + made.Name, Body: showLakeSchema(made)}, nil
}

// lake returns the key for the catalog, with the hash of the request.
func (o Once) lake(request ...any) (lake.Key, error) {
	if o.IdempotencyKey == "" {
		return lake.Key{}, nil
	}
	body, err := json.Marshal(request)
	hash := sha256.Sum256(body)
	return lake.Key{Key: o.IdempotencyKey, Hash: hash[:]}, err
}

func (a *api) deleteSchema(ctx context.Context, s domain.Scope, in *SchemaPath) (*nothing, error) {
	return nil, a.lake.DropSchema(ctx, s, in.ID, in.Schema, lake.Key{})
}
