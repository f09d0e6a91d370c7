package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// Run is one execution of a job.
type Run struct {
	RunID             string    `json:"run_id" example:"run_01k2v9d3h2f5s8wq6z1y7b4c0e"`
	ID                string    `json:"id" doc:"The same as run_id."`
	JobID             string    `json:"job_id"`
	JobName           string    `json:"job_name" doc:"The job's name when the run was created."`
	Status            string    `json:"status" enum:"pending,running,success,failed,cancelled"`
	Message           string    `json:"message" doc:"Why it failed, or what it waits for; else empty."`
	Trigger           string    `json:"trigger" enum:"manual,schedule,sample"`
	StartedBy         Actor     `json:"started_by"`
	Parameters        Variables `json:"parameters"`
	CreatedAt         Time      `json:"created_at"`
	StartedAt         *Time     `json:"started_at" nullable:"true" doc:"When its first process started."`
	FinishedAt        *Time     `json:"finished_at" nullable:"true"`
	DurationMS        *int64    `json:"duration_ms" nullable:"true" doc:"From started_at to finished_at, or to now while it runs, in milliseconds."`
	CancelRequestedAt *Time     `json:"cancel_requested_at" nullable:"true" doc:"When its cancellation was requested. The run stays running until its last task has ended."`
}

// StartedRun is the answer to the start of a run.
type StartedRun struct {
	RunID  string `json:"run_id" example:"run_01k2v9d3h2f5s8wq6z1y7b4c0e"`
	Status string `json:"status" enum:"pending"`
}

// StartRun is the body of a request to start a run.
type StartRun struct {
	Parameters Variables `json:"parameters,omitempty" doc:"Override the job's defaults. Names that the job does not declare are refused."`
}

// RunPath is the path of operations on one run.
type RunPath struct {
	ID string `path:"id" doc:"The run's id." example:"run_01k2v9d3h2f5s8wq6z1y7b4c0e"`
}

// RunQuery is the query of a list of runs.
type RunQuery struct {
	PageQuery
	Status []string `query:"status,explode" example:"pending,running" doc:"Any of pending, running, success, failed, cancelled. Repeat the parameter, or separate values by commas."`
}

func (q RunQuery) statuses() (statuses []job.RunStatus) {
	for _, given := range q.Status {
		for one := range strings.SplitSeq(given, ",") {
			statuses = append(statuses, job.RunStatus(one))
		}
	}
	return statuses
}

func (a *api) showRun(r job.Run) Run {
	return Run{
		RunID: string(r.ID), ID: string(r.ID), JobID: string(r.JobID), JobName: r.JobName, Status: string(r.Status), Message: r.Message,
		Trigger: string(r.Trigger), StartedBy: showActor(r.StartedBy), Parameters: r.Parameters,
		CreatedAt: Time(r.CreatedAt), StartedAt: optionalTime(r.StartedAt), FinishedAt: optionalTime(r.FinishedAt),
		DurationMS: a.duration(r.StartedAt, r.FinishedAt), CancelRequestedAt: optionalTime(r.CancelRequestedAt),
	}
}

// duration returns milliseconds from start to end, or to now without an end. It returns nil without
// a start.
func (a *api) duration(start, end *time.Time) *int64 {
	if start == nil {
		return nil
	}
	until := a.Clock.Now()
	if end != nil {
		until = *end
	}
	ms := max(0, until.Sub(*start).Milliseconds())
	return &ms
}

func (a *api) runRoutes() {
	const tag = "Runs"
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/jobs/{id}/run", OperationID: "start-run", Tags: []string{tag}, DefaultStatus: http.StatusCreated,
		Summary: "Start a run of a job", Errors: []int{http.StatusConflict},
		Description: "The run is a frozen copy of the current job. `status` is its initial state, pending; it may already run when the answer arrives.\n\n" +
			"429 if max_running_runs is reached: pending and running runs both count. 409 if the job has neither a command nor tasks.\n\n" +
			"Decided here: the answer is 201 with the run's path in Location. The body is optional; without a body, so is Content-Type.",
	}, a.startRun)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/runs", OperationID: "list-runs", Tags: []string{tag}, Summary: "List runs, newest first",
		Description: "Decided here: a page holds at most 8 MiB of parameters, so it may be shorter than limit; next_cursor leads to the next page.",
	}, a.listRuns)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/runs/{id}", OperationID: "get-run", Tags: []string{tag}, Summary: "Get a run's status and timing",
		Description: "Decided here: the timing fields are created_at, started_at, finished_at, duration_ms and cancel_requested_at. A run ends as success; as failed " +
			"when a task finally failed; or, after a cancel, as cancelled, whatever the results of its tasks.",
	}, a.getRun)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/runs/{id}/cancel", OperationID: "cancel-run", Tags: []string{tag}, Summary: "Cancel a run",
		Errors: []int{http.StatusConflict},
		Description: "Pending and queued tasks are cancelled at once. The processes of running tasks get SIGTERM, then SIGKILL. A run that is over, or is already being cancelled, is 409.\n\n" +
			"Decided here: the answer is 200 with the run. It stays running, with cancel_requested_at, until its last process has ended. Then it is cancelled.",
	}, a.cancelRun)
	operate(a, huma.Operation{
		Method: http.MethodPost, Path: "/runs/{id}/repair", OperationID: "repair-run", Tags: []string{tag},
		Summary: "Run unsuccessful tasks again in the same run", Errors: []int{http.StatusConflict},
		Description: "For a run that failed or was cancelled. The tasks that did not succeed, and those that depend on them, run again. retry_count continues to rise. The run counts toward max_running_runs.",
	}, a.repairRun)
}

func (a *api) startRun(ctx context.Context, s domain.Scope, in *struct {
	JobPath
	Once
	Body *StartRun `example:"{\"parameters\":{\"REGION\":\"eu\"}}"`
},
) (*created[StartedRun], error) {
	var parameters []job.Variable
	if in.Body != nil {
		parameters = in.Body.Parameters
	}
	run, err := a.Runs.Start(ctx, s, domain.JobID(in.ID), parameters, in.Once.domain())
	if err != nil {
		return nil, err
	}
	started := StartedRun{RunID: string(run.ID), Status: string(job.RunPending)}
	return &created[StartedRun]{Location: Prefix + "/runs/" + string(run.ID), Body: started}, nil
}

func (a *api) listRuns(ctx context.Context, s domain.Scope, in *struct {
	RunQuery
	JobID string `query:"job_id" doc:"Only runs of this job."`
},
) (*answer[List[Run]], error) {
	return a.runs(ctx, s, domain.JobID(in.JobID), in.RunQuery)
}

func (a *api) runs(ctx context.Context, s domain.Scope, j domain.JobID, q RunQuery) (*answer[List[Run]], error) {
	runs, err := a.Runs.List(ctx, s, job.RunFilter{JobID: j, Status: q.statuses()}, q.page())
	if err != nil {
		return nil, err
	}
	return list(runs, a.showRun), nil
}

func (a *api) getRun(ctx context.Context, s domain.Scope, in *RunPath) (*answer[Run], error) {
	run, err := a.Runs.Get(ctx, s, domain.RunID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[Run]{a.showRun(run)}, nil
}

func (a *api) cancelRun(ctx context.Context, s domain.Scope, in *RunPath) (*answer[Run], error) {
	run, err := a.Runs.Cancel(ctx, s, domain.RunID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[Run]{a.showRun(*run)}, nil
}

func (a *api) repairRun(ctx context.Context, s domain.Scope, in *struct {
	RunPath
	Once
},
) (*answer[Run], error) {
	run, err := a.Runs.Repair(ctx, s, domain.RunID(in.ID), in.Once.domain())
	if err != nil {
		return nil, err
	}
	return &answer[Run]{a.showRun(*run)}, nil
}
