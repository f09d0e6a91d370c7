package setup

import (
	"context"
	_ "embed" // the data set of the sample
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/tracking"
)

// penguins are the measurements of 344 penguins of the Palmer Archipelago: data by Kristen Gorman
// and the Palmer Station LTER, as simplified in the palmerpenguins package by Allison Horst, Alison
// Hill and Kristen Gorman (doi:10.5281/zenodo.3960218), released under CC0.
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

//go:embed sample/train.sh
var sampleTrain string

//go:embed sample/train.py
var sampleTraining []byte

// sampleExperiment is the experiment to which the sample logs, with the tag sample.
const sampleExperiment = "Sample: species of penguins"

// sampleSchema is the schema of the sample's tables, in DefaultDatabase.
const sampleSchema = "samples"

// sampleTables are the tables that the sample creates.
var sampleTables = []string{"penguins", "species_summary"}

// sqlTime is the timeout of a SQL task, in seconds, with time for a warehouse to start.
const sqlTime = 300

// sampleJob returns the first pipeline of a new workspace: it checks the data, measures each
// species and each island in parallel, and reports. With sql it also loads the data into a table,
// summarizes it in another one, and trains a model on it.
func sampleJob(s domain.Scope, now time.Time, sql bool) job.Job {
	species := func(key, name string) job.TaskSpec {
		return job.TaskSpec{Key: key, Command: sampleSpecies, DependsOn: []string{"check"}, TimeoutSeconds: 60, Environment: []job.Variable{{Name: "SPECIES", Value: name}}}
	}
	tasks := []job.TaskSpec{
		{Key: "check", Command: sampleCheck, TimeoutSeconds: 60, MaxRetries: 1},
		species("adelie", "Adelie"), species("chinstrap", "Chinstrap"), species("gentoo", "Gentoo"),
		{Key: "islands", Command: sampleIslands, DependsOn: []string{"check"}, TimeoutSeconds: 60},
		{Key: "report", Command: sampleReport, DependsOn: []string{"adelie", "chinstrap", "gentoo", "islands"}, TimeoutSeconds: 60},
	}
	files := []job.File{{Path: "penguins.csv", Content: penguins}}
	description := "A sample: 344 penguins, checked, measured by species and island, and reported."
	if sql {
		tasks = append(tasks,
			job.TaskSpec{Key: "load", Command: sampleLoad, DependsOn: []string{"check"}, TimeoutSeconds: sqlTime, MaxRetries: 2},
			job.TaskSpec{Key: "summary", Command: sampleSummary, DependsOn: []string{"load", "report"}, TimeoutSeconds: sqlTime, MaxRetries: 2},
			job.TaskSpec{Key: "train", Command: sampleTrain, DependsOn: []string{"load"}, TimeoutSeconds: sqlTime, MaxRetries: 2},
		)
		files = append(files, job.File{Path: "train.py", Content: sampleTraining})
		description += " At the end they are tables, lake.samples.penguins and lake.samples.species_summary, and an experiment has a model's training."
	}
	return job.Job{
		ID: domain.NewID[domain.JobID](domain.PrefixJob), Name: "Penguins of the Palmer Archipelago", Sample: true, CreatedBy: s.Actor(), CreatedAt: now, UpdatedAt: now,
		Description: description + " Data: Gorman, Horst and Hill, palmerpenguins (doi:10.5281/zenodo.3960218), CC0.",
		Spec:        job.Spec{Tasks: tasks, Files: files},
	}
}

// Samples makes and removes the samples of workspaces.
type Samples struct {
	Jobs  *job.Jobs
	Runs  *job.Runs
	Lake  SampleLake // nil without a catalog
	Clock domain.Clock

	Experiments *tracking.Experiments
}

// SampleLake drops the sample's tables from the catalog.
type SampleLake interface {
	// DropTables drops those of the tables that exist, and the schema if it is empty then. They can
	// be restored like other tables.
	DropTables(ctx context.Context, s domain.Scope, database, schema string, tables []string) error
}

// Create adds the sample to a workspace and starts its first run, if NewWorkspace.Sample is still
// pending. With sql, which needs a warehouse, the sample ends with SQL tasks.
func (p *Samples) Create(ctx context.Context, s domain.Scope, sql bool) error {
	return p.Runs.StartSample(ctx, s, sampleJob(s, p.Clock.Now(), sql))
}

// Remove removes the jobs of the sample, their tables and their experiment, and returns the number
// of jobs.
func (p *Samples) Remove(ctx context.Context, s domain.Scope) (removed int, err error) {
	return p.Jobs.RemoveSamples(ctx, s, func() error {
		if err := p.removeExperiment(ctx, s); err != nil {
			return err
		}
		if p.Lake == nil {
			return nil
		}
		return p.Lake.DropTables(ctx, s, lake.DefaultDatabase, sampleSchema, sampleTables)
	})
}

// removeExperiment deletes the sample's experiment, if it exists and has the sample's tag. It can be
// restored like others.
func (p *Samples) removeExperiment(ctx context.Context, s domain.Scope) error {
	x, err := p.Experiments.ByName(ctx, s, sampleExperiment)
	switch {
	case domain.IsCode(err, domain.CodeNotFound):
		return nil
	case err != nil:
		return err
	case x.DeletedAt != nil || !slices.Contains(x.Tags, tracking.Pair{Key: "sample", Value: "true"}):
		return nil
	}
	return p.Experiments.Delete(ctx, s, x.ID)
}
