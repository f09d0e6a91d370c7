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

//go:embed sample/load.sh
var sampleLoad string

//go:embed sample/summary.sh
var sampleSummary string

// sampleSchema holds the tables that the sample makes in DefaultDatabase.
const sampleSchema = "samples"

// sampleTables are those that the sample makes.
var sampleTables = []string{"penguins", "species_summary"}

// sqlTime is enough for a warehouse to start, too, in seconds.
const sqlTime = 300

// sampleJob is the pipeline that a new workspace starts with: it checks the data, measures each species and each island at once, and reports. With sql it
// also makes a table of the data, and sums that up in another one.
func sampleJob(s Scope, now time.Time, sql bool) Job {
	species := func(key, name string) TaskSpec {
		return TaskSpec{Key: key, Command: sampleSpecies, DependsOn: []string{"check"}, TimeoutSeconds: 60, Environment: []Variable{{Name: "SPECIES", Value: name}}}
	}
	tasks := []TaskSpec{
		{Key: "check", Command: sampleCheck, TimeoutSeconds: 60, MaxRetries: 1},
		species("adelie", "Adelie"), species("chinstrap", "Chinstrap"), species("gentoo", "Gentoo"),
		{Key: "islands", Command: sampleIslands, DependsOn: []string{"check"}, TimeoutSeconds: 60},
		{Key: "report", Command: sampleReport, DependsOn: []string{"adelie", "chinstrap", "gentoo", "islands"}, TimeoutSeconds: 60},
	}
	description := "A sample: 344 penguins, checked, measured by species and island, and reported."
	if sql {
		tasks = append(tasks,
			TaskSpec{Key: "load", Command: sampleLoad, DependsOn: []string{"check"}, TimeoutSeconds: sqlTime, MaxRetries: 2},
			TaskSpec{Key: "summary", Command: sampleSummary, DependsOn: []string{"load", "report"}, TimeoutSeconds: sqlTime, MaxRetries: 2},
		)
		description += " At the end they are tables, lake.samples.penguins and lake.samples.species_summary."
	}
	return Job{
		ID: newID[JobID](prefixJob), Name: "Penguins of the Palmer Archipelago", Sample: true, CreatedBy: s.actor, CreatedAt: now, UpdatedAt: now,
		Description: description + " Data: Gorman, Horst and Hill, palmerpenguins (doi:10.5281/zenodo.3960218), CC0.",
		JobSpec:     JobSpec{Tasks: tasks, Files: []File{{Path: "penguins.csv", Content: penguins}}},
	}
}

// CreateSample adds the sample to a workspace where it is still to be made (NewWorkspace), once, and starts its first run. With sql, which needs a warehouse
// that can be started, it ends in SQL.
func (r *Runs) CreateSample(ctx context.Context, s Scope, sql bool) error {
	if err := authorize(ctx, r.Store, s, JobCreate); err != nil {
		return err
	}
	job := sampleJob(s, r.Clock.Now(), sql)
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

// SampleLake drops what the sample has made in the catalog.
type SampleLake interface {
	// DropTables drops the tables, as far as they are there, and the schema if it is empty then. They can be restored as others can.
	DropTables(ctx context.Context, s Scope, database, schema string, tables []string) error
}

// RemoveSamples removes the jobs that a new workspace starts with, with the tables that they have made, and returns how many jobs there were.
func (j *Jobs) RemoveSamples(ctx context.Context, s Scope) (removed int, err error) {
	if err := authorize(ctx, j.Store, s, SampleRemove); err != nil {
		return 0, err
	}
	if err := j.dropSampleTables(ctx, s); err != nil {
		return 0, err
	}
	err = j.Store.In(ctx, s, func(tx Tx) error {
		ids, err := tx.SampleJobs(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := deleteJob(ctx, tx, id); err != nil {
				return err
			}
		}
		removed = len(ids)
		return audited(ctx, tx, s, SampleRemove, "workspace", s.workspace)
	})
	return removed, err
}

// dropSampleTables comes before the jobs go: what fails here can be tried again. Where there is no such job, tables of these names are somebody's own.
func (j *Jobs) dropSampleTables(ctx context.Context, s Scope) error {
	if j.Lake == nil {
		return nil
	}
	var ids []JobID
	err := j.Store.In(ctx, s, func(tx Tx) (err error) {
		if ids, err = tx.SampleJobs(ctx); err != nil {
			return err
		}
		for _, id := range ids {
			if err := lockIdle(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	return j.Lake.DropTables(ctx, s, DefaultDatabase, sampleSchema, sampleTables)
}
