// Package job has jobs, their schedules and their runs: tasks and attempts, the agents that run
// them, and their logs.
package job

import (
	"context"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// Job is a runnable unit: a single command, or tasks that depend on each other.
type Job struct {
	ID          domain.JobID
	Name        string // for people; not unique
	Description string
	Spec
	SpecSize  int // stored bytes of Spec, known without loading it
	Schedule  *Schedule
	Sample    bool
	CreatedBy domain.Actor
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Spec is the part of a job that a run freezes.
type Spec struct {
	Command           string
	Tasks             []TaskSpec // nil or empty: a single command
	MaxRetries        int
	TimeoutSeconds    int
	Environment       []Variable
	Parameters        []Variable // names and defaults
	MaxConcurrentRuns int
	Files             []File
	// Compute is the id of the compute instance that the tasks run on; on input also its name.
	// Empty: the workspace's agent.
	Compute string
	// ComputeFallback runs the tasks on the workspace's agent if the compute instance is not
	// available.
	ComputeFallback bool
}

// Variable is a name and a value, for environments and parameters; their order is preserved.
type Variable struct {
	Name  string
	Value string
}

// Filter narrows a list of jobs.
type Filter struct {
	Search string // part of the name
}

// jobTx reads and writes jobs.
type jobTx interface {
	// TakeSample reports whether the sample is still pending. The committing transaction must
	// create it.
	TakeSample(ctx context.Context) (due bool, err error)
	Job(ctx context.Context, id domain.JobID) (Job, error)
	// JobsByID returns the existing jobs with the ids, without their specs.
	JobsByID(ctx context.Context, ids []domain.JobID) ([]Job, error)
	// JobSpecs returns the jobs' specs.
	JobSpecs(ctx context.Context, ids []domain.JobID) (map[domain.JobID]Spec, error)
	// Jobs returns jobs, newest first, without their specs.
	Jobs(ctx context.Context, f Filter, before domain.JobID, limit int) ([]Job, error)
	InsertJob(ctx context.Context, j Job) error
	// UpdateJob locks the job, applies fn and writes it.
	UpdateJob(ctx context.Context, id domain.JobID, fn func(*Job) error) (Job, error)
	// LockJob locks the job until the end of the transaction.
	LockJob(ctx context.Context, id domain.JobID) (Job, error)
	DeleteJob(ctx context.Context, id domain.JobID) error
	SampleJobs(ctx context.Context) ([]domain.JobID, error)
}

// Jobs manages the jobs of a workspace.
type Jobs struct {
	Store domain.Store[Tx]
	Clock domain.Clock
}

// NewJob describes the job to create.
type NewJob struct {
	Name        string
	Description string
	Spec
	Schedule *NewSchedule
}

// NewSchedule describes the schedule to create.
type NewSchedule struct {
	Cron     string
	TimeZone string // empty stands for UTC
	Paused   bool
}

// ScheduleChange changes the fields of a job's schedule that are not nil. A job without a schedule
// gets one; Cron is then required.
type ScheduleChange struct {
	Cron     *string
	TimeZone *string
	Paused   *bool
}

// Change changes the fields that are not nil. A nil *Tasks leaves the DAG unchanged, an empty
// one clears it. Schedule set to a nil *ScheduleChange removes the schedule.
type Change struct {
	Name              *string
	Description       *string
	Command           *string
	Tasks             *[]TaskSpec
	MaxRetries        *int
	TimeoutSeconds    *int
	Environment       *[]Variable
	Parameters        *[]Variable
	MaxConcurrentRuns *int
	Files             *[]File // replaces all of them
	Compute           *string // empty for the workspace's agent
	ComputeFallback   *bool
	Schedule          **ScheduleChange
}

// Create makes a job.
func (j *Jobs) Create(ctx context.Context, s domain.Scope, n NewJob, key domain.Idempotency) (job Job, err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobCreate); err != nil {
		return Job{}, err
	}
	job, err = n.job(s, j.Clock.Now())
	if err != nil {
		return Job{}, err
	}
	err = j.Store.In(ctx, s, func(tx Tx) error {
		id, err := domain.Once(ctx, tx, s, key, domain.JobCreate, n, func() (domain.JobID, error) {
			tx.Notify(domain.ScheduleTopic)
			if err := insertJob(ctx, tx, job); err != nil {
				return "", err
			}
			return job.ID, domain.Audited(ctx, tx, s, domain.JobCreate, "job", job.ID)
		})
		if err != nil {
			return err
		}
		job, err = tx.Job(ctx, id)
		return err
	})
	return job, err
}

func insertJob(ctx context.Context, tx Tx, job Job) error {
	if err := job.resolveCompute(ctx, tx); err != nil {
		return err
	}
	if err := tx.InsertFiles(ctx, job.Files); err != nil {
		return err
	}
	return tx.InsertJob(ctx, job)
}

func (n NewJob) job(s domain.Scope, now time.Time) (Job, error) {
	job := Job{
		ID: domain.NewID[domain.JobID](domain.PrefixJob), Name: n.Name, Description: n.Description, Spec: n.Spec,
		CreatedBy: s.Actor(), CreatedAt: now, UpdatedAt: now,
	}
	if n.Schedule != nil {
		schedule, err := n.Schedule.Schedule(now)
		if err != nil {
			return Job{}, err
		}
		job.Schedule = &schedule
	}
	return job, job.validate()
}

// Get returns one job.
func (j *Jobs) Get(ctx context.Context, s domain.Scope, id domain.JobID) (job Job, err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobRead); err != nil {
		return Job{}, err
	}
	err = j.Store.In(ctx, s, func(tx Tx) (err error) {
		job, err = tx.Job(ctx, id)
		return err
	})
	return job, err
}

// maxJobs bounds the specs that ByID returns, in stored bytes. It is more than one job can have.
const maxJobs = 32 << 20

// ByID returns the jobs with the ids that exist in the workspace. If their specs exceed 32 MiB, it
// returns CodeTooLarge.
func (j *Jobs) ByID(ctx context.Context, s domain.Scope, ids []domain.JobID) (jobs []Job, err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobRead); err != nil {
		return nil, err
	}
	err = j.Store.In(ctx, s, func(tx Tx) (err error) {
		if jobs, err = tx.JobsByID(ctx, ids); err != nil {
			return err
		}
		size := 0
		for _, job := range jobs {
			size += job.SpecSize
		}
		if size > maxJobs {
			return domain.Errorf(domain.CodeTooLarge, "The jobs have %d bytes together and the limit is %d; ask for fewer at once.", size, maxJobs)
		}
		return fillSpecs(ctx, tx, jobs)
	})
	return jobs, err
}

// fillSpecs reads the jobs' specs.
func fillSpecs(ctx context.Context, tx Tx, jobs []Job) error {
	ids := make([]domain.JobID, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	specs, err := tx.JobSpecs(ctx, ids)
	for i := range jobs {
		jobs[i].Spec = specs[jobs[i].ID]
	}
	return err
}

// List returns jobs, newest first. It shortens a page whose specs would exceed 8 MiB.
func (j *Jobs) List(ctx context.Context, s domain.Scope, f Filter, p domain.Page) (l domain.List[Job], err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobRead); err != nil {
		return domain.List[Job]{}, err
	}
	if err := domain.ValidText("search", f.Search, 256); err != nil {
		return domain.List[Job]{}, err
	}
	list := domain.ListName("jobs", f)
	before, limit, err := p.After(list)
	if err != nil {
		return domain.List[Job]{}, err
	}
	err = j.Store.In(ctx, s, func(tx Tx) error {
		rows, err := tx.Jobs(ctx, f, domain.JobID(before), limit+1)
		if err != nil {
			return err
		}
		l = domain.PageOf(list, rows, limit, func(j Job) string { return string(j.ID) })
		l.Fit(pageBytes, func(j Job) int { return j.SpecSize })
		return fillSpecs(ctx, tx, l.Items)
	})
	return l, err
}

// Update changes what later runs of the job do. Past runs are never rewritten.
func (j *Jobs) Update(ctx context.Context, s domain.Scope, id domain.JobID, c Change) (job Job, err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobUpdate); err != nil {
		return Job{}, err
	}
	now := j.Clock.Now()
	err = j.Store.In(ctx, s, func(tx Tx) error {
		job, err = tx.UpdateJob(ctx, id, func(job *Job) error {
			job.UpdatedAt = now
			if err := job.change(c, now); err != nil {
				return err
			}
			if c.Compute != nil || c.Tasks != nil {
				if err := job.resolveCompute(ctx, tx); err != nil {
					return err
				}
			}
			return tx.InsertFiles(ctx, job.Files)
		})
		if err != nil {
			return err
		}
		tx.Notify(domain.ScheduleTopic)
		return domain.Audited(ctx, tx, s, domain.JobUpdate, "job", id)
	})
	return job, err
}

func (j *Job) change(c Change, now time.Time) error {
	domain.SetIfGiven(&j.Name, c.Name)
	domain.SetIfGiven(&j.Description, c.Description)
	domain.SetIfGiven(&j.Command, c.Command)
	domain.SetIfGiven(&j.Tasks, c.Tasks)
	domain.SetIfGiven(&j.MaxRetries, c.MaxRetries)
	domain.SetIfGiven(&j.TimeoutSeconds, c.TimeoutSeconds)
	domain.SetIfGiven(&j.Environment, c.Environment)
	domain.SetIfGiven(&j.Parameters, c.Parameters)
	domain.SetIfGiven(&j.MaxConcurrentRuns, c.MaxConcurrentRuns)
	domain.SetIfGiven(&j.Files, c.Files)
	domain.SetIfGiven(&j.Compute, c.Compute)
	domain.SetIfGiven(&j.ComputeFallback, c.ComputeFallback)
	if c.Schedule != nil {
		if err := j.reschedule(*c.Schedule, now); err != nil {
			return err
		}
	}
	if err := j.oneKind(c); err != nil {
		return err
	}
	return j.validate()
}

// oneKind refuses a job with both a command and tasks. The message names the field to clear.
func (j *Job) oneKind(c Change) error {
	switch {
	case j.Command == "" || len(j.Tasks) == 0:
		return nil
	case c.Command == nil:
		return domain.Invalid("command", `The job has a command; send "command": "" too, and the tasks take its place.`)
	case c.Tasks == nil:
		return domain.Invalid("tasks", `The job has tasks; send "tasks": [] too, and the command takes their place.`)
	}
	return nil
}

// Delete removes a job and keeps its runs. It returns CodeConflict while a run is pending or
// running.
func (j *Jobs) Delete(ctx context.Context, s domain.Scope, id domain.JobID) error {
	if err := domain.Authorize(ctx, j.Store, s, domain.JobDelete); err != nil {
		return err
	}
	return j.Store.In(ctx, s, func(tx Tx) error {
		if err := deleteJob(ctx, tx, id); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.JobDelete, "job", id)
	})
}

func deleteJob(ctx context.Context, tx Tx, id domain.JobID) error {
	if err := lockIdle(ctx, tx, id); err != nil {
		return err
	}
	return tx.DeleteJob(ctx, id)
}

// lockIdle locks a job that has no pending or running runs.
func lockIdle(ctx context.Context, tx Tx, id domain.JobID) error {
	job, err := tx.LockJob(ctx, id)
	if err != nil {
		return err
	}
	active, err := tx.ActiveRuns(ctx, id)
	if err != nil {
		return err
	}
	if len(active) > 0 {
		return domain.Errorf(domain.CodeConflict, "%d run(s) of %q are pending or running; cancel them or wait for their end, then delete the job.", len(active), job.Name)
	}
	return nil
}

// Bounds of a job, chosen for one run's page and one database row.
const (
	maxCommand        = 100 << 10 // Linux limits an argument to less than 128 KiB
	maxDescription    = 4096
	maxVariables      = 200
	maxVariableValue  = 32 << 10
	maxRetries        = 100
	maxTimeoutSeconds = 30 * 24 * 3600
	maxConcurrentRuns = 10_000
	maxSpec           = 4 << 20
)

func (j *Job) validate() (err error) {
	if j.Name, err = domain.ValidName("name", j.Name); err != nil {
		return err
	}
	if err := domain.ValidProse("description", j.Description, maxDescription); err != nil {
		return err
	}
	if j.Schedule != nil && j.empty() {
		return domain.Invalid("schedule", "A job with nothing to run cannot have a schedule; give it a command or tasks, or remove the schedule.")
	}
	return j.Spec.validate()
}

func (s *Spec) validate() error {
	if s.Command != "" && len(s.Tasks) > 0 {
		return domain.Invalid("command", "A job has either a command or tasks; leave one of them out.")
	}
	if err := domain.ValidText("command", s.Command, maxCommand); err != nil {
		return err
	}
	if err := domain.ValidBound("max_retries", s.MaxRetries, maxRetries); err != nil {
		return err
	}
	if err := domain.ValidBound("timeout_seconds", s.TimeoutSeconds, maxTimeoutSeconds); err != nil {
		return err
	}
	if err := domain.ValidBound("max_concurrent_runs", s.MaxConcurrentRuns, maxConcurrentRuns); err != nil {
		return err
	}
	if err := domain.ValidText("compute", s.Compute, domain.MaxNamed); err != nil {
		return err
	}
	if err := validVariables("environment", s.Environment); err != nil {
		return err
	}
	if err := validVariables("parameters", s.Parameters); err != nil {
		return err
	}
	if err := validTasks(s.Tasks); err != nil {
		return err
	}
	if err := prepareFiles(s.Files); err != nil {
		return err
	}
	if s.size() > maxSpec {
		return domain.Errorf(domain.CodeTooLarge, "The job's commands and variables add up to more than %d bytes; move some into files.", maxSpec)
	}
	return nil
}

func (s *Spec) size() int {
	n := len(s.Command) + variablesSize(s.Environment) + variablesSize(s.Parameters)
	for _, t := range s.Tasks {
		n += len(t.Command) + variablesSize(t.Environment)
		for _, d := range t.DependsOn {
			n += len(d)
		}
	}
	return n
}

// empty reports whether there is nothing to run.
func (s *Spec) empty() bool { return s.Command == "" && len(s.Tasks) == 0 }

func variablesSize(vars []Variable) (n int) {
	for _, v := range vars {
		n += len(v.Name) + len(v.Value)
	}
	return n
}

// reservedVariable begins the names of variables that the platform sets.
const reservedVariable = "MILLPOND_"

func validVariables(field string, vars []Variable) error {
	if len(vars) > maxVariables {
		return domain.Invalid(field, "%s has %d variables; use at most %d.", field, len(vars), maxVariables)
	}
	seen := map[string]bool{}
	for _, v := range vars {
		switch {
		case !variableName(v.Name):
			return domain.Invalid(field, "%q is not a name of a variable; use letters, digits and underscores, not a digit first.", v.Name)
		case strings.HasPrefix(v.Name, reservedVariable):
			return domain.Invalid(field, "%s: names that begin with %s are the platform's own.", v.Name, reservedVariable)
		case seen[v.Name]:
			return domain.Invalid(field, "%s is given twice.", v.Name)
		}
		seen[v.Name] = true
		if err := domain.ValidText(field+"."+v.Name, v.Value, maxVariableValue); err != nil {
			return err
		}
	}
	return nil
}

func variableName(s string) bool {
	if s == "" || len(s) > domain.MaxName {
		return false
	}
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return true
}
