package model

import (
	"github.com/millpond/millpond/domain"
)

// Task is a task of a run: how far it has come, and its frozen declaration.
type Task struct {
	domain.Task
	Spec domain.TaskSpec
}

// NewTasks joins a run's tasks to their declarations, which are empty where there are none.
func NewTasks(declared []domain.TaskSpec, tasks []domain.Task) []Task {
	joined := make([]Task, len(tasks))
	for i, t := range tasks {
		joined[i].Task = t
		if t.Position < len(declared) {
			joined[i].Spec = declared[t.Position]
		}
	}
	return joined
}

// ID is unique across runs.
func (t Task) ID() string { return string(t.RunID) + "/" + t.Key }

// Command is what the task runs.
func (t Task) Command() string { return t.Spec.Command }

// DependsOn are the keys of the tasks that must have succeeded before.
func (t Task) DependsOn() []string { return t.Spec.DependsOn }

// MaxRetries is how often the task is tried again.
func (t Task) MaxRetries() int { return t.Spec.MaxRetries }

// TimeoutSeconds is how long one try may take; 0 means as long as it wants.
func (t Task) TimeoutSeconds() int { return t.Spec.TimeoutSeconds }

// ComputeID is that of the compute instance that the task runs on; nil for the workspace's agent.
func (t Task) ComputeID() *string { return optional(string(t.Compute)) }
