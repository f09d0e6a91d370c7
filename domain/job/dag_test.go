package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
)

func TestDAGsThatCannotRun(t *testing.T) {
	task := func(key string, on ...string) TaskSpec { return TaskSpec{Key: key, Command: "true", DependsOn: on} }
	for name, c := range map[string]struct {
		tasks   []TaskSpec
		field   string
		message string
	}{
		"itself":     {[]TaskSpec{task("a", "a")}, "tasks", "circle: a → a."},
		"two":        {[]TaskSpec{task("a", "b"), task("b", "a")}, "tasks", "circle: a → b → a."},
		"behind":     {[]TaskSpec{task("x", "a"), task("a", "b"), task("b", "c"), task("c", "a")}, "tasks", "circle: a → b → c → a."},
		"unknown":    {[]TaskSpec{task("a"), task("b", "c")}, "tasks[1].depends_on", `The task "b" depends on "c", which is not a task of this job.`},
		"twice":      {[]TaskSpec{task("a"), task("b", "a", "a")}, "tasks[1].depends_on", `names "a" twice`},
		"same key":   {[]TaskSpec{task("a"), task("b"), task("a")}, "tasks[2].key", `The key "a" is used by tasks 1 and 3`},
		"no command": {[]TaskSpec{{Key: "a", Command: " \n"}}, "tasks[0].command", `The task "a" has no command.`},
		"no key":     {[]TaskSpec{{Command: "true"}}, "tasks[0].key", `"" is not a key`},
		"NUL":        {[]TaskSpec{{Key: "a", Command: "echo \x00"}}, "tasks[0].command", "NUL"},
		"not UTF-8":  {[]TaskSpec{{Key: "a", Command: "echo \xff"}}, "tasks[0].command", "UTF-8"},
		"long":       {[]TaskSpec{{Key: "a", Command: strings.Repeat("x", maxCommand+1)}}, "tasks[0].command", "use at most 102400"},
		"retries":    {[]TaskSpec{{Key: "a", Command: "true", MaxRetries: -1}}, "tasks[0].max_retries", "from 0 to 100"},
		"time-out":   {[]TaskSpec{{Key: "a", Command: "true", TimeoutSeconds: 1 << 40}}, "tasks[0].timeout_seconds", "from 0 to 2592000"},
		"variable":   {[]TaskSpec{{Key: "a", Command: "true", Environment: []Variable{{Name: "1X"}}}}, "tasks[0].environment", `"1X" is not a name`},
	} {
		t.Run(name, func(t *testing.T) {
			err := validTasks(c.tasks)
			require.True(t, domain.IsCode(err, domain.CodeInvalid), "%v", err)
			require.Equal(t, c.field, domain.AsError(err).Field)
			require.Contains(t, domain.AsError(err).Message, c.message)
		})
	}
}

func TestTaskKeys(t *testing.T) {
	for key, want := range map[string]bool{
		"a": true, "A-1_b.c": true, "0": true, strings.Repeat("k", 100): true, "-": true, "_.": true,
		"": false, ".": false, "..": false, ".hidden": false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a\n": false, "a%2f": false,
		strings.Repeat("k", 101): false,
	} {
		require.Equal(t, want, taskKey(key), "%q", key)
	}
}

// chain returns n tasks, each depending on the one before it.
func chain(n int) []TaskSpec {
	tasks := make([]TaskSpec, n)
	for i := range tasks {
		tasks[i] = TaskSpec{Key: fmt.Sprintf("t%d", i), Command: "true"}
		if i > 0 {
			tasks[i].DependsOn = []string{fmt.Sprintf("t%d", i-1)}
		}
	}
	return tasks
}

func TestAThousandTasks(t *testing.T) {
	tasks := chain(1000)
	require.NoError(t, validTasks(tasks))
	r := begun(Job{Spec: Spec{Tasks: tasks}})
	for i := range tasks {
		require.Len(t, r.Ready(at(1)), 1)
		finish(r, fmt.Sprintf("t%d", i), AttemptSuccess)
	}
	require.Equal(t, RunSuccess, r.Status)

	tasks[0].DependsOn = []string{"t999"}
	require.ErrorContains(t, validTasks(tasks), "in a circle: t0 → t999 → t998")
	err := validTasks(chain(1001))
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	require.ErrorContains(t, err, "The job has 1001 tasks; use at most 1000.")
}

// TestAnyCircleIsFound checks that a DAG with one reversed edge is refused, and that the reported
// cycle is a cycle.
func TestAnyCircleIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := anyDAG(t)
		from := rapid.SampledFrom(job.Tasks).Draw(t, "from")
		if len(from.DependsOn) == 0 {
			return
		}
		index := map[string]int{}
		for i, task := range job.Tasks {
			index[task.Key] = i
		}
		back := &job.Tasks[index[from.DependsOn[0]]]
		back.DependsOn = append(back.DependsOn, from.Key)
		cycle := findCycle(job.Tasks, index)
		if len(cycle) < 2 || cycle[0] != cycle[len(cycle)-1] {
			t.Fatalf("not a circle: %v", cycle)
		}
		for i, key := range cycle[:len(cycle)-1] {
			on := job.Tasks[index[key]].DependsOn
			if !strings.Contains(" "+strings.Join(on, " ")+" ", " "+cycle[i+1]+" ") {
				t.Fatalf("%s does not depend on %s", key, cycle[i+1])
			}
		}
	})
}
