package job

import (
	"fmt"
	"strings"

	"github.com/millpond/millpond/domain"
)

// TaskSpec declares one task of a DAG.
type TaskSpec struct {
	Key            string
	Command        string
	DependsOn      []string
	MaxRetries     int
	TimeoutSeconds int
	Environment    []Variable
	Compute        string // overrides the job's
}

// maxTasks bounds a DAG; split larger ones into several jobs.
const maxTasks = 1000

// maxTaskKey bounds a key's length in bytes.
const maxTaskKey = 100

// validTasks refuses a DAG that cannot run: bad or duplicate keys, unknown dependencies, cycles.
func validTasks(tasks []TaskSpec) error {
	if len(tasks) > maxTasks {
		return domain.Invalid("tasks", "The job has %d tasks; use at most %d.", len(tasks), maxTasks)
	}
	index := make(map[string]int, len(tasks))
	for i, t := range tasks {
		if err := t.validate(fmt.Sprintf("tasks[%d]", i)); err != nil {
			return err
		}
		if first, twice := index[t.Key]; twice {
			return domain.Invalid(fmt.Sprintf("tasks[%d].key", i), "The key %q is used by tasks %d and %d; keys are unique in a job.", t.Key, first+1, i+1)
		}
		index[t.Key] = i
	}
	for i, t := range tasks {
		if err := t.validDependencies(fmt.Sprintf("tasks[%d].depends_on", i), index); err != nil {
			return err
		}
	}
	if cycle := findCycle(tasks, index); cycle != nil {
		return domain.Invalid("tasks", "The tasks depend on each other in a circle: %s.", strings.Join(cycle, " → "))
	}
	return nil
}

func (t TaskSpec) validate(field string) error {
	if !taskKey(t.Key) {
		return domain.Invalid(field+".key", "%q is not a key; use 1 to %d letters, digits, '_', '-' and '.', not '.' first.", t.Key, maxTaskKey)
	}
	if strings.TrimSpace(t.Command) == "" {
		return domain.Invalid(field+".command", "The task %q has no command.", t.Key)
	}
	if err := domain.ValidText(field+".command", t.Command, maxCommand); err != nil {
		return err
	}
	if err := domain.ValidBound(field+".max_retries", t.MaxRetries, maxRetries); err != nil {
		return err
	}
	if err := domain.ValidBound(field+".timeout_seconds", t.TimeoutSeconds, maxTimeoutSeconds); err != nil {
		return err
	}
	if err := domain.ValidText(field+".compute", t.Compute, domain.MaxNamed); err != nil {
		return err
	}
	return validVariables(field+".environment", t.Environment)
}

func (t TaskSpec) validDependencies(field string, index map[string]int) error {
	seen := make(map[string]bool, len(t.DependsOn))
	for _, d := range t.DependsOn {
		_, known := index[d]
		switch {
		case !known:
			return domain.Invalid(field, "The task %q depends on %q, which is not a task of this job.", t.Key, d)
		case seen[d]:
			return domain.Invalid(field, "The task %q names %q twice in depends_on.", t.Key, d)
		}
		seen[d] = true
	}
	return nil
}

// taskKey reports whether s is a valid key. Keys appear in URLs and on screens.
func taskKey(s string) bool {
	if s == "" || len(s) > maxTaskKey || s[0] == '.' {
		return false
	}
	for _, r := range s {
		ok := r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !ok {
			return false
		}
	}
	return true
}

// findCycle returns the keys of a cycle, with the first one repeated at the end, or nil. It
// searches depth first and visits each task once.
func findCycle(tasks []TaskSpec, index map[string]int) []string {
	const open, done = 1, 2
	state := make([]int, len(tasks))
	var path []string
	var visit func(i int) []string
	visit = func(i int) []string {
		state[i] = open
		path = append(path, tasks[i].Key)
		for _, d := range tasks[i].DependsOn {
			switch j := index[d]; state[j] {
			case open:
				return append(cut(path, d), d)
			case 0:
				if cycle := visit(j); cycle != nil {
					return cycle
				}
			}
		}
		state[i] = done
		path = path[:len(path)-1]
		return nil
	}
	for i := range tasks {
		if state[i] == 0 {
			if cycle := visit(i); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}

func cut(path []string, from string) []string {
	for i, k := range path {
		if k == from {
			return append([]string(nil), path[i:]...)
		}
	}
	return path
}
