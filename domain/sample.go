package domain

import (
	"context"
	_ "embed" // the data set of the sample
	"time"
)

// penguins are the measurements of 344 penguins of the Palmer Archipelago: data by Kristen Gorman and the Palmer Station LTER, as simplified in the
// palmerpenguins package by Allison Horst, Alison Hill and Kristen Gorman (doi:10.5281/zenodo.3960218), released under CC0.
//
//go:embed sample/penguins.csv
var penguins []byte

//go:embed sample/check.sh
var sampleCheck string

//go:embed sample/species.sh
var sampleSpecies string

//go:embed sample/islands.sh
var sampleIslands string

//go:embed sample/report.sh
var sampleReport string

// sampleJob is the pipeline that a new workspace starts with: it checks the data, measures each species and each island at once, and reports.
func sampleJob(s Scope, now time.Time) Job {
	species := func(key, name string) TaskSpec {
		return TaskSpec{Key: key, Command: sampleSpecies, DependsOn: []string{"check"}, TimeoutSeconds: 60, Environment: []Variable{{Name: "SPECIES", Value: name}}}
	}
	return Job{
		ID: newID[JobID](prefixJob), Name: "Penguins of the Palmer Archipelago", Sample: true, CreatedBy: s.actor, CreatedAt: now, UpdatedAt: now,
		Description: "A sample: 344 penguins, checked, measured by species and island, and reported. Data: Gorman, Horst and Hill, palmerpenguins (doi:10.5281/zenodo.3960218), CC0.",
		JobSpec: JobSpec{
			Tasks: []TaskSpec{
				{Key: "check", Command: sampleCheck, TimeoutSeconds: 60, MaxRetries: 1},
				species("adelie", "Adelie"), species("chinstrap", "Chinstrap"), species("gentoo", "Gentoo"),
				{Key: "islands", Command: sampleIslands, DependsOn: []string{"check"}, TimeoutSeconds: 60},
				{Key: "report", Command: sampleReport, DependsOn: []string{"adelie", "chinstrap", "gentoo", "islands"}, TimeoutSeconds: 60},
			},
			Files: []File{{Path: "penguins.csv", Content: penguins}},
		},
	}
}

// CreateSample adds the sample to a workspace where it is still to be made (NewWorkspace), once, and starts its first run.
func (r *Runs) CreateSample(ctx context.Context, s Scope) error {
	if err := authorize(ctx, r.Store, s, JobCreate); err != nil {
		return err
	}
	job := sampleJob(s, r.Clock.Now())
	if err := job.validate(); err != nil {
		return err
	}
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) error {
		run = nil // of a try that lost a deadlock
		due, err := tx.TakeSample(ctx)
		if err != nil || !due {
			return err
		}
		if err := insertJob(ctx, tx, job); err != nil {
			return err
		}
		run, err = r.start(ctx, tx, s, job, nil, TriggerSample)
		return err
	})
	if err == nil && run != nil {
		r.deliver(s, run)
	}
	return err
}
