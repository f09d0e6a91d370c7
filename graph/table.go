package graph

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/loader"
	"github.com/millpond/millpond/graph/model"
)

// tableOf returns the table or view with the id, live or dropped; nil after it is removed.
func (r *Resolver) tableOf(ctx context.Context, id domain.TableID) (*model.LakeTable, error) {
	t, err := r.loaders(ctx).Table(ctx, id)
	if err != nil || t == nil {
		return nil, err
	}
	shown := model.NewLakeTable(*t)
	return &shown, nil
}

// expectTables announces the tables that the response will load together.
func expectTables(ctx context.Context, ids []domain.TableID) {
	if load, ok := loader.From(ctx); ok {
		load.ExpectTables(ids)
	}
}

// lineageGraph returns the data flow into and out of a table.
func (r *Resolver) lineageGraph(ctx context.Context, q lineage.Query) (model.LineageGraph, error) {
	g, err := r.Services.Lineages.Graph(ctx, scopeOf(ctx), q)
	return model.NewLineageGraph(g), err
}

// ofTable returns a page of a table's details. It is empty for a view.
func ofTable[T any](ctx context.Context, t *model.LakeTable, first *int, after *string,
	list func(context.Context, domain.Scope, domain.TableID, domain.Page) (domain.List[T], error),
) (model.Connection[T], error) {
	return connection(ctx, first, after, func(s domain.Scope, p domain.Page) (domain.List[T], error) {
		if t.Kind == lake.KindView {
			return domain.List[T]{}, nil
		}
		return list(ctx, s, t.ID, p)
	})
}

// shownAs maps a list.
func shownAs[A, B any](all []A, show func(A) B) []B {
	shown := make([]B, len(all))
	for i, a := range all {
		shown[i] = show(a)
	}
	return shown
}

// tableByName returns the live table or view with the name.
func (r *Resolver) tableByName(ctx context.Context, s domain.Scope, ref lake.Ref) (lake.Table, error) {
	t, err := r.Lake.Table(ctx, s, ref, lake.KindTable)
	if domain.IsCode(err, domain.CodeNotFound) {
		return r.Lake.Table(ctx, s, ref, lake.KindView)
	}
	return t, err
}

func refOf(t lake.Table) lake.Ref {
	return lake.Ref{Database: string(t.DatabaseID), Schema: t.Schema, Name: t.Name}
}

// liveTable returns the table or view with the id, to change it. If it is dropped, the error is
// CodeConflict.
func (r *Resolver) liveTable(ctx context.Context, s domain.Scope, id domain.TableID) (lake.Table, error) {
	t, err := r.Lake.TableByID(ctx, s, id)
	if err == nil && t.DroppedAt != nil {
		err = domain.Errorf(domain.CodeConflict, "The %s %s was dropped; restore it first.", t.Kind, t.Name)
	}
	return t, err
}

func (r *Resolver) dropTable(ctx context.Context, s domain.Scope, id domain.TableID, purge bool) (lake.Table, error) {
	t, err := r.liveTable(ctx, s, id)
	if err != nil {
		return t, err
	}
	if err := r.Lake.Drop(ctx, s, refOf(t), t.Kind, purge, lake.Key{}); err != nil {
		return t, err
	}
	return r.Lake.TableByID(ctx, s, id)
}

func (r *Resolver) renameTable(ctx context.Context, s domain.Scope, in model.RenameTableInput) (lake.Table, error) {
	t, err := r.liveTable(ctx, s, domain.TableID(in.ID))
	if err != nil {
		return t, err
	}
	to := refOf(t)
	if in.Schema != nil {
		to.Schema = *in.Schema
	}
	if in.Name != nil {
		to.Name = *in.Name
	}
	if err := r.Lake.Rename(ctx, s, t.Kind, refOf(t), to, lake.Key{}); err != nil {
		return t, err
	}
	return r.Lake.TableByID(ctx, s, t.ID)
}

// viewText is the SQL of a view.
type viewText struct {
	SQL     string `json:"sql"`
	Dialect string `json:"dialect"`
}

// viewOf returns a view's text, preferring the DuckDB dialect. It is empty for tables and dropped
// views.
func (r *Resolver) viewOf(ctx context.Context, t model.LakeTable) (viewText, error) {
	if t.Kind != lake.KindView || t.DroppedAt != nil {
		return viewText{}, nil
	}
	loaded, err := r.Lake.Load(ctx, scopeOf(ctx), refOf(t.Table), lake.KindView, lake.LoadOptions{})
	if err != nil {
		return viewText{}, err
	}
	return textOfView(loaded.Metadata)
}

// textOfView reads the text from a view's metadata.
func textOfView(metadata []byte) (viewText, error) {
	var m struct {
		Current  int64 `json:"current-version-id"`
		Versions []struct {
			ID              int64      `json:"version-id"`
			Representations []viewText `json:"representations"`
		} `json:"versions"`
	}
	if err := json.Unmarshal(metadata, &m); err != nil {
		return viewText{}, fmt.Errorf("the metadata of a view: %w", err)
	}
	var text viewText
	for _, v := range m.Versions {
		if v.ID != m.Current {
			continue
		}
		for i, t := range v.Representations {
			if i == 0 || t.Dialect == "duckdb" {
				text = t
			}
		}
	}
	return text, nil
}
