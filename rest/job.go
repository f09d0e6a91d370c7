package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// Job is a single command, or a DAG of tasks.
type Job struct {
	ID                string    `json:"id" example:"job_01k2v9c5x8e6t9f3m0a7r4d1nq"`
	Name              string    `json:"name"`
	Description       string    `json:"description"`
	Command           string    `json:"command" doc:"The command of a job without tasks, run with sh -c. Empty if the job has tasks."`
	Tasks             []JobTask `json:"tasks" doc:"The DAG; empty for a single command."`
	MaxRetries        int       `json:"max_retries" doc:"Retries of the single command."`
	TimeoutSeconds    int       `json:"timeout_seconds" doc:"Time limit of the single command; 0 means no limit."`
	Environment       Variables `json:"environment" doc:"Environment variables of every task."`
	Parameters        Variables `json:"parameters" doc:"The parameters of a run, with their defaults. Tasks receive them as environment variables."`
	MaxConcurrentRuns int       `json:"max_concurrent_runs" doc:"How many runs of the job may run at once. Further runs wait as pending. 0 means no limit."`
	Files             []JobFile `json:"files" doc:"Files that are written into the working directory of each of its tasks."`
	Compute           string    `json:"compute" doc:"Id of the compute instance that its tasks run on; empty for the workspace's agent."`
	ComputeFallback   bool      `json:"compute_fallback" doc:"Whether its tasks run on the workspace's agent if their compute instance is not available: it failed, was stopped or was deleted."`
	Schedule          *Schedule `json:"schedule"`
	Sample            bool      `json:"sample" doc:"Whether it is one of the sample jobs of a new workspace."`
	CreatedBy         Actor     `json:"created_by"`
	CreatedAt         Time      `json:"created_at"`
	UpdatedAt         Time      `json:"updated_at"`
}

// JobTask is the declaration of one task of a DAG.
type JobTask struct {
	Key            string    `json:"key" example:"load"`
	Command        string    `json:"command" example:"./load.sh"`
	DependsOn      []string  `json:"depends_on"`
	MaxRetries     int       `json:"max_retries"`
	TimeoutSeconds int       `json:"timeout_seconds"`
	Environment    Variables `json:"environment"`
	Compute        string    `json:"compute" doc:"Id of the compute instance of this task, in place of the job's; empty for the job's."`
}

// NewJobTask is the declaration of one task in a request.
type NewJobTask struct {
	Key            string    `json:"key" example:"load" doc:"Names the task within the job: letters, digits, '_', '-' and '.'."`
	Command        string    `json:"command" example:"./load.sh" doc:"Run with sh -c."`
	DependsOn      []string  `json:"depends_on,omitempty" nullable:"true" doc:"Keys of the tasks that must succeed first."`
	MaxRetries     int       `json:"max_retries,omitempty" doc:"How many times it is retried after a failure."`
	TimeoutSeconds int       `json:"timeout_seconds,omitempty" doc:"Time limit of one attempt; 0 means no limit."`
	Environment    Variables `json:"environment,omitempty" doc:"Environment variables of this task. They override those of the job."`
	Compute        string    `json:"compute,omitempty" doc:"Id or name of the compute instance of this task, in place of the job's."`
}

// Schedule starts a job's runs at given times.
type Schedule struct {
	_            struct{} `nullable:"true"`
	Cron         string   `json:"cron" example:"30 6 * * 1-5"`
	TimeZone     string   `json:"time_zone" example:"Europe/Rome"`
	Paused       bool     `json:"paused"`
	NextAt       *Time    `json:"next_at" nullable:"true" doc:"The next tick; null while paused."`
	WaitingSince *Time    `json:"waiting_since" nullable:"true" doc:"Time of the tick that waits because max_running_runs is reached."`
	Missed       int      `json:"missed" doc:"Ticks that started no run, because the platform was down or an earlier tick still waited."`
	LastMissedAt *Time    `json:"last_missed_at" nullable:"true"`
}

// NewSchedule is a schedule in a request.
type NewSchedule struct {
	_        struct{} `nullable:"true"`
	Cron     string   `json:"cron" example:"30 6 * * 1-5" doc:"Five fields, or @hourly, @daily, @weekly, @monthly, @yearly. When clocks are set forward, ticks in the skipped hour do not fire that day. When clocks are set back, ticks in the repeated hour fire once."`
	TimeZone string   `json:"time_zone,omitempty" example:"Europe/Rome" doc:"An IANA name. Defaults to UTC."`
	Paused   bool     `json:"paused,omitempty"`
}

func (n *NewSchedule) domain() *job.NewSchedule {
	if n == nil {
		return nil
	}
	return &job.NewSchedule{Cron: n.Cron, TimeZone: n.TimeZone, Paused: n.Paused}
}

// NewJob is the body of a request to create a job.
type NewJob struct {
	Name              string       `json:"name" doc:"Display name; several jobs may have the same name."`
	Description       string       `json:"description,omitempty"`
	Command           string       `json:"command,omitempty" doc:"A job has either a command, run with sh -c, or tasks."`
	Tasks             []NewJobTask `json:"tasks,omitempty" nullable:"true" doc:"A DAG. Absent or null for a single command."`
	MaxRetries        int          `json:"max_retries,omitempty"`
	TimeoutSeconds    int          `json:"timeout_seconds,omitempty"`
	Environment       Variables    `json:"environment,omitempty"`
	Parameters        Variables    `json:"parameters,omitempty" doc:"Names and defaults. Tasks receive them as environment variables."`
	MaxConcurrentRuns int          `json:"max_concurrent_runs,omitempty"`
	Files             []NewJobFile `json:"files,omitempty" nullable:"true" doc:"At most 100 files, 4 MiB together."`
	Compute           string       `json:"compute,omitempty" doc:"Id or name of the compute instance that its tasks run on. A stopped one is started. Defaults to the workspace's agent."`
	ComputeFallback   bool         `json:"compute_fallback,omitempty" doc:"Whether to run tasks on the workspace's agent if their compute instance is not available: it failed, was stopped or was deleted."`
	Schedule          *NewSchedule `json:"schedule,omitempty"`
}

func (n NewJob) domain() job.NewJob {
	return job.NewJob{
		Name: n.Name, Description: n.Description, Schedule: n.Schedule.domain(),
		Spec: job.Spec{
			Command: n.Command, Tasks: taskSpecs(n.Tasks), MaxRetries: n.MaxRetries, TimeoutSeconds: n.TimeoutSeconds,
			Environment: n.Environment, Parameters: n.Parameters, MaxConcurrentRuns: n.MaxConcurrentRuns,
			Files: each(n.Files, NewJobFile.domain), Compute: n.Compute, ComputeFallback: n.ComputeFallback,
		},
	}
}

func taskSpecs(tasks []NewJobTask) []job.TaskSpec {
	return each(tasks, func(t NewJobTask) job.TaskSpec {
		return job.TaskSpec{
			Key: t.Key, Command: t.Command, DependsOn: t.DependsOn,
			MaxRetries: t.MaxRetries, TimeoutSeconds: t.TimeoutSeconds, Environment: t.Environment, Compute: t.Compute,
		}
	})
}

// JobChange changes the given fields of a job. A field that is absent or null does not change,
// except schedule: null removes the schedule.
type JobChange struct {
	Name              *string        `json:"name,omitempty" nullable:"true"`
	Description       *string        `json:"description,omitempty" nullable:"true"`
	Command           *string        `json:"command,omitempty" nullable:"true"`
	Tasks             *[]NewJobTask  `json:"tasks,omitempty" nullable:"true" doc:"null keeps the DAG, [] clears it."`
	MaxRetries        *int           `json:"max_retries,omitempty" nullable:"true"`
	TimeoutSeconds    *int           `json:"timeout_seconds,omitempty" nullable:"true"`
	Environment       *Variables     `json:"environment,omitempty" nullable:"true" doc:"Replaces all variables."`
	Parameters        *Variables     `json:"parameters,omitempty" nullable:"true" doc:"Replaces all parameters."`
	MaxConcurrentRuns *int           `json:"max_concurrent_runs,omitempty" nullable:"true"`
	Files             *[]NewJobFile  `json:"files,omitempty" nullable:"true" doc:"Replaces all files."`
	Compute           *string        `json:"compute,omitempty" nullable:"true" doc:"Empty for the workspace's agent."`
	ComputeFallback   *bool          `json:"compute_fallback,omitempty" nullable:"true"`
	Schedule          ScheduleChange `json:"schedule,omitempty" doc:"Changes the given fields of the schedule. null removes the schedule."`
}

func (c JobChange) domain() job.Change {
	change := job.Change{
		Name: c.Name, Description: c.Description, Command: c.Command, MaxRetries: c.MaxRetries, TimeoutSeconds: c.TimeoutSeconds,
		Environment: (*[]job.Variable)(c.Environment), Parameters: (*[]job.Variable)(c.Parameters),
		MaxConcurrentRuns: c.MaxConcurrentRuns, Compute: c.Compute, ComputeFallback: c.ComputeFallback,
	}
	if c.Tasks != nil {
		tasks := taskSpecs(*c.Tasks)
		change.Tasks = &tasks
	}
	if c.Files != nil {
		files := each(*c.Files, NewJobFile.domain)
		change.Files = &files
	}
	if c.Schedule.given {
		schedule := c.Schedule.schedule.domain()
		change.Schedule = &schedule
	}
	return change
}

// ScheduleFields changes the given fields of a schedule.
type ScheduleFields struct {
	_        struct{} `nullable:"true"`
	Cron     *string  `json:"cron,omitempty" nullable:"true" example:"30 6 * * 1-5" doc:"Required if the job has no schedule yet. The format is that of a new schedule."`
	TimeZone *string  `json:"time_zone,omitempty" nullable:"true" example:"Europe/Rome" doc:"An IANA name."`
	Paused   *bool    `json:"paused,omitempty" nullable:"true"`
}

func (f *ScheduleFields) domain() *job.ScheduleChange {
	if f == nil {
		return nil
	}
	return &job.ScheduleChange{Cron: f.Cron, TimeZone: f.TimeZone, Paused: f.Paused}
}

// ScheduleChange distinguishes null, which removes the schedule, from an absent field, which keeps
// it.
type ScheduleChange struct {
	given    bool
	schedule *ScheduleFields
}

// UnmarshalJSON is also called for null.
func (c *ScheduleChange) UnmarshalJSON(data []byte) error {
	c.given = true
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	return json.Unmarshal(data, &c.schedule)
}

// Schema implements huma.SchemaProvider.
func (ScheduleChange) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[ScheduleFields](), true, "")
}

func showJob(j job.Job) Job {
	return Job{
		ID: string(j.ID), Name: j.Name, Description: j.Description, Command: j.Command, Tasks: each(j.Tasks, showJobTask),
		MaxRetries: j.MaxRetries, TimeoutSeconds: j.TimeoutSeconds, Environment: j.Environment, Parameters: j.Parameters,
		MaxConcurrentRuns: j.MaxConcurrentRuns, Files: each(j.Files, jobFile), Compute: j.Compute, ComputeFallback: j.ComputeFallback, Schedule: showSchedule(j.Schedule), Sample: j.Sample,
		CreatedBy: showActor(j.CreatedBy), CreatedAt: Time(j.CreatedAt), UpdatedAt: Time(j.UpdatedAt),
	}
}

func showJobTask(t job.TaskSpec) JobTask {
	return JobTask{
		Key: t.Key, Command: t.Command, DependsOn: append([]string{}, t.DependsOn...),
		MaxRetries: t.MaxRetries, TimeoutSeconds: t.TimeoutSeconds, Environment: t.Environment, Compute: t.Compute,
	}
}

func showSchedule(s *job.Schedule) *Schedule {
	if s == nil {
		return nil
	}
	return &Schedule{
		Cron: s.Cron, TimeZone: s.TimeZone, Paused: s.Paused, NextAt: optionalTime(s.NextAt),
		WaitingSince: optionalTime(s.WaitingSince), Missed: s.Missed, LastMissedAt: optionalTime(s.LastMissedAt),
	}
}

// JobPath is the path of operations on one job.
type JobPath struct {
	ID string `path:"id" doc:"The job's id." example:"job_01k2v9c5x8e6t9f3m0a7r4d1nq"`
}

// Once is the header that makes a create or a start safe to repeat.
type Once struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[ -~]*$" doc:"For a day, the same key returns the same resource. The same key with another body is 409."`
}

func (o Once) domain() domain.Idempotency { return domain.Idempotency{Key: o.IdempotencyKey} }

type created[T any] struct {
	Location string `header:"Location" doc:"The path of the created resource."`
	Body     T
}

func (a *api) jobRoutes() {
	const tag = "Jobs"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/jobs", OperationID: "create-job", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Create a job", Errors: []int{http.StatusConflict},
		Description: "Decided here: a single command is given as `command`. The answer is 201 with the whole job. `tasks: []` without a command is saved, but cannot be started or have a schedule.",
	}, a.createJob)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/jobs", OperationID: "list-jobs", Tags: []string{tag}, Summary: "List jobs, newest first",
		Description: "Decided here: each job is whole. A page holds at most 8 MiB of jobs, so it may be shorter than limit; next_cursor leads to the next page.",
	}, a.listJobs)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/jobs/{id}", OperationID: "get-job", Tags: []string{tag}, Summary: "Get a job",
	}, a.getJob)
	for _, method := range []string{http.MethodPatch, http.MethodPut} {
		id, summary := "update-job", "Change a job"
		if method == http.MethodPut {
			id, summary = "put-job", "Change a job, exactly as PATCH does"
		}
		operate(a, huma.Operation{
			Method: method, Path: "/jobs/{id}", OperationID: id, Tags: []string{tag}, Summary: summary,
			Description: "Changes later runs; past runs do not change. `tasks: null` keeps the DAG, `tasks: []` clears it. " +
				"A field that is absent or null does not change, also inside `schedule`. `schedule: null` removes the schedule.\n\n" +
				"Decided here: the method is PATCH, PUT is an alias of it, and both answer with the whole job.",
		}, a.updateJob)
	}
	operate(a, huma.Operation{
		Method: http.MethodDelete, Path: "/jobs/{id}", OperationID: "delete-job", Tags: []string{tag}, Summary: "Delete a job",
		Description: "Keeps its runs. 409 while a run of the job is pending or running.", Errors: []int{http.StatusConflict},
	}, a.deleteJob)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/jobs/{id}/runs", OperationID: "list-job-runs", Tags: []string{tag}, Summary: "List a job's runs, newest first",
	}, a.listJobRuns)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/schedules/preview", OperationID: "preview-schedule", Tags: []string{tag},
		Summary: "Preview the next ticks of a schedule",
		Description: "Decided here: when clocks change, ticks follow cron. When clocks are set forward, ticks in the skipped hour do not fire that day. A daily job at 02:30 misses " +
			"one day a year in Europe/Rome. When clocks are set back, ticks in the repeated hour fire once. UTC, or an hour that is never skipped, avoids it.",
	}, a.previewSchedule)
}

func (a *api) createJob(ctx context.Context, s domain.Scope, in *struct {
	Once
	Body NewJob `example:"{\"name\":\"nightly\",\"tasks\":[{\"key\":\"extract\",\"command\":\"./extract.sh\",\"max_retries\":2},{\"key\":\"load\",\"command\":\"./load.sh\",\"depends_on\":[\"extract\"]}]}"`
},
) (*created[Job], error) {
	job, err := a.Jobs.Create(ctx, s, in.Body.domain(), in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &created[Job]{Location: Prefix + "/jobs/" + string(job.ID), Body: showJob(job)}, nil
}

func (a *api) listJobs(ctx context.Context, s domain.Scope, in *struct {
	PageQuery
	Search string `query:"search" maxLength:"256" doc:"Part of the name."`
},
) (*answer[List[Job]], error) {
	jobs, err := a.Jobs.List(ctx, s, job.Filter{Search: in.Search}, in.page())
	if err != nil {
		return nil, err
	}
	return list(jobs, showJob), nil
}

func (a *api) getJob(ctx context.Context, s domain.Scope, in *JobPath) (*answer[Job], error) {
	job, err := a.Jobs.Get(ctx, s, domain.JobID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[Job]{showJob(job)}, nil
}

func (a *api) updateJob(ctx context.Context, s domain.Scope, in *struct {
	JobPath
	Body JobChange `example:"{\"description\":\"Every night\",\"schedule\":{\"cron\":\"30 2 * * *\",\"time_zone\":\"Europe/Rome\"}}"`
},
) (*answer[Job], error) {
	job, err := a.Jobs.Update(ctx, s, domain.JobID(in.ID), in.Body.domain())
	if err != nil {
		return nil, err
	}
	return &answer[Job]{showJob(job)}, nil
}

func (a *api) deleteJob(ctx context.Context, s domain.Scope, in *JobPath) (*nothing, error) {
	return nil, a.Jobs.Delete(ctx, s, domain.JobID(in.ID))
}

func (a *api) listJobRuns(ctx context.Context, s domain.Scope, in *struct {
	JobPath
	RunQuery
},
) (*answer[List[Run]], error) {
	if _, err := a.Jobs.Get(ctx, s, domain.JobID(in.ID)); err != nil {
		return nil, err
	}
	return a.runs(ctx, s, domain.JobID(in.ID), in.RunQuery)
}

// Ticks are the times at which a schedule starts a run.
type Ticks struct {
	Data []Time `json:"data"`
}

func (a *api) previewSchedule(_ context.Context, _ domain.Scope, in *struct {
	Cron     string `query:"cron" required:"true" example:"30 6 * * 1-5"`
	TimeZone string `query:"time_zone" example:"Europe/Rome"`
	Count    int    `query:"count" minimum:"1" maximum:"100" default:"5"`
},
) (*answer[Ticks], error) {
	ticks, err := job.PreviewSchedule(job.NewSchedule{Cron: in.Cron, TimeZone: in.TimeZone}, a.Clock.Now(), in.Count)
	if err != nil {
		return nil, err
	}
	return &answer[Ticks]{Ticks{each(ticks, func(t time.Time) Time { return Time(t) })}}, nil
}
