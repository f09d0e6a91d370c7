package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// TaskRow is the state of one task of a run.
type TaskRow struct {
	Key        string `json:"key" example:"load"`
	Status     string `json:"status" enum:"pending,queued,running,success,failed,cancelled,skipped"`
	RetryCount int    `json:"retry_count" doc:"Attempts after the first; a repair counts as well."`
	Attempts   int    `json:"attempts" doc:"Attempts so far."`
	Compute    string `json:"compute" doc:"Id of the compute instance that it runs on; empty for the workspace's agent."`
	Message    string `json:"message" doc:"Why it failed or was skipped, or what it waits for; else empty."`
	NotBefore  *Time  `json:"not_before" nullable:"true" doc:"The earliest time at which a retry may start."`
	StartedAt  *Time  `json:"started_at" nullable:"true"`
	FinishedAt *Time  `json:"finished_at" nullable:"true"`
	DurationMS *int64 `json:"duration_ms" nullable:"true" doc:"In milliseconds, to now while it runs."`
}

// Attempt is one attempt of a task.
type Attempt struct {
	ID                string `json:"id"`
	TaskKey           string `json:"task_key" doc:"Empty for a single command."`
	Number            int    `json:"number" doc:"From 1; the attempt parameter of the logs."`
	Status            string `json:"status" enum:"starting,running,success,failed,cancelled,lost"`
	AgentID           string `json:"agent_id" doc:"The agent that it runs on: the workspace's, or that of a compute instance."`
	ExitCode          *int   `json:"exit_code" nullable:"true"`
	Signal            string `json:"signal" doc:"The signal that ended the process; else empty."`
	Message           string `json:"message"`
	Held              string `json:"held" doc:"Why the process is blocked, while it is."`
	CreatedAt         Time   `json:"created_at"`
	StartedAt         *Time  `json:"started_at" nullable:"true"`
	FinishedAt        *Time  `json:"finished_at" nullable:"true"`
	DurationMS        *int64 `json:"duration_ms" nullable:"true"`
	CancelRequestedAt *Time  `json:"cancel_requested_at" nullable:"true"`
}

func (a *api) showTask(t job.Task) TaskRow {
	return TaskRow{
		Key: t.Key, Status: string(t.Status), RetryCount: t.RetryCount, Attempts: t.Attempts, Compute: string(t.Compute), Message: t.Message,
		NotBefore: optionalTime(t.NotBefore), StartedAt: optionalTime(t.StartedAt), FinishedAt: optionalTime(t.FinishedAt),
		DurationMS: a.duration(t.StartedAt, t.FinishedAt),
	}
}

func (a *api) showAttempt(at job.Attempt) Attempt {
	return Attempt{
		ID: string(at.ID), TaskKey: at.TaskKey, Number: at.Number, Status: string(at.Status), AgentID: string(at.AgentID),
		ExitCode: at.ExitCode, Signal: at.Signal, Message: at.Message, Held: at.Held,
		CreatedAt: Time(at.CreatedAt), StartedAt: optionalTime(at.StartedAt), FinishedAt: optionalTime(at.FinishedAt),
		DurationMS: a.duration(at.StartedAt, at.FinishedAt), CancelRequestedAt: optionalTime(at.CancelRequestedAt),
	}
}

func (a *api) taskRoutes() {
	const tag = "Runs"
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/runs/{id}/tasks", OperationID: "list-tasks", Tags: []string{tag}, Summary: "Get a run's task rows",
		Description: "All task rows, in the order of the job, as a bare array. Empty for a single command.\n\n" +
			"Decided here: a task is pending, queued, running, success, failed, cancelled or skipped, and retry_count is in every row.",
	}, a.listTasks)
	operate(a, huma.Operation{
		Method: http.MethodGet, Path: "/runs/{id}/attempts", OperationID: "list-attempts", Tags: []string{tag},
		Summary: "Get every attempt of a run's tasks", Description: "All attempts, oldest first, as a bare array. Attempts of a single command are included.",
	}, a.listAttempts)
}

func (a *api) listTasks(ctx context.Context, s domain.Scope, in *RunPath) (*answer[[]TaskRow], error) {
	tasks, err := a.Runs.Tasks(ctx, s, domain.RunID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[[]TaskRow]{each(tasks, a.showTask)}, nil
}

func (a *api) listAttempts(ctx context.Context, s domain.Scope, in *RunPath) (*answer[[]Attempt], error) {
	if _, err := a.Runs.Get(ctx, s, domain.RunID(in.ID)); err != nil {
		return nil, err
	}
	attempts, err := a.Runs.Attempts(ctx, s, domain.RunID(in.ID))
	if err != nil {
		return nil, err
	}
	return &answer[[]Attempt]{each(attempts, a.showAttempt)}, nil
}
