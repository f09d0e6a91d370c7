package model

import (
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// Experiment is an experiment as the schema shows it.
type Experiment struct{ tracking.Experiment }

// NewExperiment shows an experiment.
func NewExperiment(x tracking.Experiment) Experiment { return Experiment{x} }

// CreatedBy returns the creator's name.
func (x Experiment) CreatedBy() string { return x.Experiment.CreatedBy.Name }

// TrackingRun is a tracking run as the schema shows it. Empty fields are null.
type TrackingRun struct {
	tracking.Run
	Whole bool // whether it has what it logged
}

// NewTrackingRun shows a run with what it logged.
func NewTrackingRun(r tracking.Run) TrackingRun { return TrackingRun{r, true} }

// NewTrackingRunHead shows a run without what it logged. That is read if it is asked for.
func NewTrackingRunHead(r tracking.Run) TrackingRun { return TrackingRun{r, false} }

// User returns the user's name.
func (r TrackingRun) User() *string { return optional(r.Run.User) }

// CreatedBy returns the creator's name.
func (r TrackingRun) CreatedBy() string { return r.Run.CreatedBy.Name }

// JobRunID returns the job's run whose task created it.
func (r TrackingRun) JobRunID() *domain.RunID { return optional(r.Run.JobRun) }

// TaskKey returns the task that created it.
func (r TrackingRun) TaskKey() *string { return optional(r.Run.TaskKey) }

// AttemptID returns the attempt that created it.
func (r TrackingRun) AttemptID() *domain.AttemptID { return optional(r.Attempt) }

// TrackingPointPage is a part of a metric's history.
type TrackingPointPage struct {
	Points   []tracking.Point
	PageInfo PageInfo
}

// TrackingDataset is a dataset that a run used.
type TrackingDataset struct{ tracking.Input }

// Schema returns the dataset's schema.
func (d TrackingDataset) Schema() *string { return optional(d.Dataset.Schema) }

// Profile returns the dataset's profile.
func (d TrackingDataset) Profile() *string { return optional(d.Dataset.Profile) }

// TrackingPoints is what was logged to one metric.
type TrackingPoints struct {
	tracking.News
	Cursor string
}

// NewTrackingPoints shows what was logged to the run.
func NewTrackingPoints(run domain.TrackingRunID, news []tracking.News) []TrackingPoints {
	shown := make([]TrackingPoints, len(news))
	for i, n := range news {
		if n.Points == nil {
			n.Points = []tracking.Point{}
		}
		shown[i] = TrackingPoints{News: n}
		if n.Last != nil {
			shown[i].Cursor = n.Last.Cursor(run, n.Key)
		}
	}
	return shown
}
