package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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

// recent is how many of the newest runs are watched for changes, besides all active runs.
const recent = 50

// maintenanceChanges finds the maintenance runs that are new or have changed since its last read.
type maintenanceChanges struct {
	maintenance *maintenance.Maintenances
	scope       domain.Scope
	filter      maintenance.Filter
	seen        map[domain.MaintenanceRunID]seenMaintenance // nil before the first read
}

type seenMaintenance struct {
	state string
	live  bool
}

// next returns the runs that changed, oldest first. The first call returns the unfinished runs.
func (c *maintenanceChanges) next(ctx context.Context) ([]maintenance.Run, error) {
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	var changed []maintenance.Run
	seen := make(map[domain.MaintenanceRunID]seenMaintenance, len(all))
	for _, r := range all {
		now := seenMaintenance{fmt.Sprint(r.State, r.Message, r.NextTryAt(), r.Todo(), len(r.Started()), r.Trigger), !r.State.Final()}
		if before, known := c.seen[r.ID]; c.seen == nil && now.live || c.seen != nil && (!known || before != now) {
			changed = append(changed, r)
		}
		seen[r.ID] = now
	}
	c.seen = seen
	slices.SortFunc(changed, func(a, b maintenance.Run) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return changed, nil
}

// read returns the watched runs, each once.
func (c *maintenanceChanges) read(ctx context.Context) ([]maintenance.Run, error) {
	newest, err := c.maintenance.Runs(ctx, c.scope, c.filter, domain.Page{Limit: recent})
	if err != nil {
		return nil, err
	}
	open := c.filter
	open.States = []maintenance.State{maintenance.Queued, maintenance.Running}
	live, err := c.maintenance.Runs(ctx, c.scope, open, domain.Page{Limit: domain.MaxLimit})
	if err != nil {
		return nil, err
	}
	byID := map[domain.MaintenanceRunID]maintenance.Run{}
	for _, r := range append(newest.Items, live.Items...) {
		byID[r.ID] = r // the later read is newer
	}
	for id, before := range c.seen {
		if _, have := byID[id]; have || !before.live {
			continue
		}
		r, err := c.maintenance.Run(ctx, c.scope, id) // it ended, and is not among the newest
		if err != nil {
			return nil, err
		}
		byID[id] = r
	}
	return slices.Collect(maps.Values(byID)), nil
}
