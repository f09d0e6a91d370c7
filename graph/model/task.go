package model

import (
	"github.com/millpond/millpond/domain/job"
)

// Task is a task of a run: its state, and its frozen declaration.
type Task struct {
	job.Task
	Spec job.TaskSpec
}

// NewTasks joins a run's tasks to their declarations. A missing declaration is empty.
func NewTasks(declared []job.TaskSpec, tasks []job.Task) []Task {
	joined := make([]Task, len(tasks))
	for i, t := range tasks {
		joined[i].Task = t
		if t.Position < len(declared) {
			joined[i].Spec = declared[t.Position]
		}
	}
	return joined
}

// ID returns an id that is unique across runs.
func (t Task) ID() string { return string(t.RunID) + "/" + t.Key }

// Command returns the task's command.
func (t Task) Command() string { return t.Spec.Command }

// DependsOn returns the keys of the tasks that must succeed first.
func (t Task) DependsOn() []string { return t.Spec.DependsOn }

// MaxRetries returns how many times the task is retried.
func (t Task) MaxRetries() int { return t.Spec.MaxRetries }

// TimeoutSeconds returns the time limit of one attempt; 0 means no limit.
func (t Task) TimeoutSeconds() int { return t.Spec.TimeoutSeconds }

// ComputeID returns the task's compute instance; nil for the workspace's agent.
func (t Task) ComputeID() *string { return optional(string(t.Compute)) }
