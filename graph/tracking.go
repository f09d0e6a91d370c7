package graph

import (
	"context"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph/model"
)

// maxPoints is the largest page of a metric's history. A point costs as much as any item of a list.
const maxPoints = 1_000

// trackingFields are the names of the domain's fields that are others here.
var trackingFields = map[string]string{
	"run_name": "name", "user_id": "user", "status": "state", "start_time": "startedAt", "end_time": "finishedAt",
	"metrics": "points", "params": "parameters", "experiment_ids": "experiments", "page_token": "cursor", "max_points": "maxPoints",
}

// ofTracking renames MLflow's fields to the schema's.
func ofTracking(err error) error {
	if err == nil {
		return nil
	}
	e := *domain.AsError(err)
	name, known := trackingFields[e.Field]
	if !known {
		return err
	}
	e.Field = name
	return &e
}

func (r *Resolver) trackingRuns(ctx context.Context, first *int, after *string, q tracking.RunSearch) (model.Connection[model.TrackingRun], error) {
	c, err := connection(ctx, first, after, func(s domain.Scope, p domain.Page) (domain.List[tracking.Run], error) {
		q.Limit, q.Cursor = p.Limit, p.Cursor
		l, err := r.Services.TrackingRuns.Search(ctx, s, q)
		return l, ofTracking(err)
	})
	return model.Mapped(c, model.NewTrackingRun), err
}

// retagged returns the experiment after its tags were changed, or the error of the change.
func (r *Resolver) retagged(ctx context.Context, id string, err error) (model.Experiment, error) {
	if err != nil {
		return model.Experiment{}, err
	}
	x, err := r.Services.Experiments.Get(ctx, scopeOf(ctx), domain.ExperimentID(id))
	return model.NewExperiment(x), err
}

// logged returns the run after it logged something, or the error of that.
func (r *Resolver) logged(ctx context.Context, id string, err error) (model.TrackingRun, error) {
	if err != nil {
		return model.TrackingRun{}, err
	}
	run, err := r.Services.TrackingRuns.Get(ctx, scopeOf(ctx), "", domain.TrackingRunID(id))
	return model.NewTrackingRun(run), err
}

// whole returns the run with what it logged.
func (r *Resolver) whole(ctx context.Context, run *model.TrackingRun) (tracking.Run, error) {
	if run.Whole {
		return run.Run, nil
	}
	return r.loaders(ctx).Logged(ctx, run.Run)
}

func pairKey(p tracking.Pair) string { return p.Key }

// chosen returns the items with the keys, or all without keys.
func chosen[T any](ctx context.Context, all []T, keys []string, key func(T) string, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	items := make([]T, 0, len(all))
	for _, item := range all {
		if keys == nil || slices.Contains(keys, key(item)) {
			items = append(items, item)
		}
	}
	return items, affordRows(ctx, len(items))
}

// newBatch reads what a run logs. Points are of now unless they say otherwise.
func newBatch(in model.LogTrackingRunInput, now time.Time) tracking.Batch {
	b := tracking.Batch{Points: make([]tracking.Point, len(in.Points)), Parameters: in.Parameters, Tags: in.Tags}
	for i, p := range in.Points {
		b.Points[i] = tracking.Point{Key: p.Key, Step: value(p.Step), At: now.UnixMilli(), Value: p.Value}
		domain.SetIfGiven(&b.Points[i].At, p.Timestamp)
	}
	return b
}

func newInputs(in []model.TrackingDatasetInput) []tracking.Input {
	inputs := make([]tracking.Input, len(in))
	for i, d := range in {
		inputs[i] = tracking.Input{Tags: d.Tags, Dataset: tracking.Dataset{
			Name: d.Name, Digest: d.Digest, SourceType: d.SourceType, Source: d.Source, Schema: value(d.Schema), Profile: value(d.Profile),
		}}
	}
	return inputs
}

// points returns a page of a metric's history.
func (r *Resolver) points(ctx context.Context, id domain.TrackingRunID, key string, first int, cursor string) (page model.TrackingPointPage, err error) {
	if first < 1 || first > maxPoints {
		return page, domain.Invalid("first", "first is %d; it must be from 1 to %d.", first, maxPoints)
	}
	after, err := tracking.ParsePosition(id, key, cursor)
	if err != nil {
		return page, ofArguments(err)
	}
	points, err := r.Services.TrackingRuns.Points(ctx, scopeOf(ctx), id, key, after, first+1)
	if err != nil {
		return page, err
	}
	shown := points[:min(len(points), first)]
	page = model.TrackingPointPage{Points: append([]tracking.Point{}, shown...), PageInfo: model.PageInfo{HasNextPage: len(points) > first}}
	if len(shown) > 0 {
		page.PageInfo.EndCursor = new(shown[len(shown)-1].Position().Cursor(id, key))
	}
	return page, nil
}

// chart returns a metric's history with few points.
func (r *Resolver) chart(ctx context.Context, id domain.TrackingRunID, key string, most int) (model.TrackingChart, error) {
	c, err := r.Services.TrackingRuns.Chart(ctx, scopeOf(ctx), "", id, key, most)
	shown := model.TrackingChart{Points: append([]tracking.Point{}, c.Points...), Total: c.Total}
	if c.Last != nil {
		shown.Cursor = new(c.Last.Cursor(id, key))
	}
	return shown, ofTracking(err)
}

// followPoints sends the run's new points.
func (r *Resolver) followPoints(ctx context.Context, id domain.TrackingRunID, keys []string, after []model.TrackingPositionInput) (<-chan []model.TrackingPoints, error) {
	ends, err := newEnds(id, after)
	if err != nil {
		return nil, ofArguments(err)
	}
	follower, err := r.Services.TrackingRuns.FollowPoints(scopeOf(ctx), id, keys, ends)
	if err != nil {
		return nil, err
	}
	wake, stop, err := r.Services.TrackingRuns.Watch(ctx, scopeOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return stream(ctx, r.server, stop, func(send func([]model.TrackingPoints) error) error {
		return r.paced(ctx, r.timing.points, wake, func() error {
			return follower.Each(ctx, func(news []tracking.News) error { return send(model.NewTrackingPoints(id, news)) })
		})
	})
}

// newEnds reads how far a reader knows the run's metrics; nil stays nil.
func newEnds(id domain.TrackingRunID, after []model.TrackingPositionInput) ([]tracking.End, error) {
	if after == nil {
		return nil, nil
	}
	ends := make([]tracking.End, len(after))
	for i, in := range after {
		last, err := tracking.ParsePosition(id, in.Key, in.Cursor)
		if err != nil {
			return nil, err
		}
		ends[i] = tracking.End{Key: in.Key, Total: in.Total, Last: last}
	}
	return ends, nil
}
