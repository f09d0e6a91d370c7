package graph

import (
	"context"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/graph/model"
)

func shownMaintenance(m maintenance.Maintenance, err error) (model.Maintenance, error) {
	if err != nil {
		return model.Maintenance{}, err
	}
	return model.NewMaintenance(m), nil
}

func (r *Resolver) maintenanceRuns(ctx context.Context, first *int, after *string, f maintenance.Filter) (model.Connection[model.MaintenanceRun], error) {
	c, err := connection(ctx, first, after, func(s domain.Scope, p domain.Page) (domain.List[maintenance.Run], error) {
		return r.Services.Maintenance.Runs(ctx, s, f, p)
	})
	return model.Mapped(c, model.NewMaintenanceRun), err
}

// maintenanceFilter selects the runs of a table, or of the tables of a database, given by its id or
// name.
func (r *Resolver) maintenanceFilter(ctx context.Context, table, database *string) (maintenance.Filter, error) {
	f := maintenance.Filter{Table: domain.TableID(value(table))}
	if value(database) == "" {
		return f, nil
	}
	d, err := r.Services.Databases.Find(ctx, scopeOf(ctx), *database)
	f.Database = d.ID
	return f, err
}
