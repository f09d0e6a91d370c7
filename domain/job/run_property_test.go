package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
)

// anyDAG draws a job of up to 12 tasks in any order. Tasks depend only on earlier ones, so there
// are no cycles.
func anyDAG(t *rapid.T) Job {
	n := rapid.IntRange(1, 12).Draw(t, "tasks")
	job := Job{ID: "job_1", Name: "any"}
	for i := range n {
		spec := TaskSpec{Key: fmt.Sprintf("t%d", i), Command: "true", MaxRetries: rapid.IntRange(0, 2).Draw(t, "retries")}
		for d := range i {
			if rapid.IntRange(0, 3).Draw(t, "edge") == 0 {
				spec.DependsOn = append(spec.DependsOn, fmt.Sprintf("t%d", d))
			}
		}
		job.Tasks = append(job.Tasks, spec)
	}
	job.Tasks = rapid.Permutation(job.Tasks).Draw(t, "order")
	return job
}

// living is a run with the state that an agent would have.
type living struct {
	t     *rapid.T
	run   *Run
	now   time.Time
	alive map[string]domain.AttemptID
	ended []Attempt
	tries map[string]int
}

func (l *living) tick() time.Time {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(l.t, "seconds")) * time.Second)
	return l.now
}

func (l *living) assign() {
	for _, task := range l.run.Ready(l.tick()) {
		if rapid.Bool().Draw(l.t, "slot") {
			continue
		}
		if _, twice := l.alive[task.Key]; twice {
			l.t.Fatalf("%s has an attempt alive and is given another", task.Key)
		}
		for _, d := range l.run.spec(task).DependsOn {
			if s := l.run.Task(d).Status; s != TaskSuccess {
				l.t.Fatalf("%s is ready although %s is %s", task.Key, d, s)
			}
		}
		a := l.run.Assign(task, "agt_1", l.now)
		l.tries[task.Key]++
		if a.Number != l.tries[task.Key] {
			l.t.Fatalf("attempt %d of %s has the number %d", l.tries[task.Key], task.Key, a.Number)
		}
		l.alive[task.Key] = a.ID
	}
}

// pick draws a live attempt, or an empty id.
func (l *living) pick() (string, domain.AttemptID) {
	keys := make([]string, 0, len(l.alive))
	for k := range l.alive {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return "", ""
	}
	slices.Sort(keys)
	key := rapid.SampledFrom(keys).Draw(l.t, "alive")
	return key, l.alive[key]
}

func (l *living) end(status AttemptStatus) {
	key, a := l.pick()
	if a == "" {
		return
	}
	delete(l.alive, key)
	l.ended = append(l.ended, Attempt{ID: a, TaskKey: key})
	l.run.AttemptEnded(a, key, AttemptEnd{Status: status}, l.tick())
}

// again repeats a report of an ended attempt, which must change nothing.
func (l *living) again(status AttemptStatus) {
	if len(l.ended) == 0 {
		return
	}
	a := rapid.SampledFrom(l.ended).Draw(l.t, "over")
	before := fmt.Sprintf("%+v", *l.run)
	l.run.AttemptStarted(a.ID, a.TaskKey, l.now)
	l.run.AttemptEnded(a.ID, a.TaskKey, AttemptEnd{Status: status}, l.now)
	if after := fmt.Sprintf("%+v", *l.run); after != before {
		l.t.Fatalf("an attempt that is over changed the run:\n%s\n%s", before, after)
	}
}

func (l *living) cancel() {
	live, err := l.run.Cancel(l.tick())
	if err == nil && len(live) != len(l.alive) {
		l.t.Fatalf("cancel asks for the end of %d attempts, %d are alive", len(live), len(l.alive))
	}
}

func (l *living) repair() {
	if l.run.Repair() == nil {
		l.run.Admit(l.tick())
	}
}

// check asserts the invariants of a run.
func (l *living) check(retries map[string]int) {
	final := l.run.Status.Final()
	for i := range l.run.Tasks {
		task := &l.run.Tasks[i]
		if a := l.alive[task.Key]; a != task.Current {
			l.t.Fatalf("%s has the attempt %q alive and says %q", task.Key, a, task.Current)
		}
		if task.RetryCount < retries[task.Key] {
			l.t.Fatalf("the retries of %s fell from %d to %d", task.Key, retries[task.Key], task.RetryCount)
		}
		if retries[task.Key] = task.RetryCount; task.RetryCount > task.Attempts {
			l.t.Fatalf("%s has %d retries and %d attempts", task.Key, task.RetryCount, task.Attempts)
		}
		if final && !task.Status.Final() {
			l.t.Fatalf("the run is %s and %s is %s", l.run.Status, task.Key, task.Status)
		}
		if (task.Status == TaskRunning) && task.Current == "" {
			l.t.Fatalf("%s runs without an attempt", task.Key)
		}
	}
	if final != (l.run.FinishedAt != nil) {
		l.t.Fatalf("the run is %s and its end is %v", l.run.Status, l.run.FinishedAt)
	}
	if l.run.Status == RunSuccess && slices.ContainsFunc(l.run.Tasks, func(t Task) bool { return t.Status != TaskSuccess }) {
		l.t.Fatalf("a success with %s", statuses(l.run))
	}
}

// drain ends all live and ready attempts until there are none. The run must have ended then.
func (l *living) drain() {
	for range 200 {
		for l.now = l.now.Add(2 * time.Minute); ; {
			key, a := l.pick()
			if a == "" {
				break
			}
			delete(l.alive, key)
			l.run.AttemptStarted(a, key, l.now)
			l.run.AttemptEnded(a, key, AttemptEnd{Status: rapid.SampledFrom(attemptEnds).Draw(l.t, "end")}, l.now)
		}
		ready := l.run.Ready(l.now.Add(time.Minute))
		if len(ready) == 0 {
			break
		}
		for _, task := range ready {
			l.alive[task.Key] = l.run.Assign(task, "agt_1", l.now).ID
		}
	}
	if !l.run.Status.Final() {
		l.t.Fatalf("nothing is alive and nothing can start, and the run is not over: %s", statuses(l.run))
	}
}

var attemptEnds = []AttemptStatus{AttemptSuccess, AttemptSuccess, AttemptSuccess, AttemptFailed, AttemptLost, AttemptCancelled}

// TestAnyOrderOfEvents checks the invariants for any DAG and any order of events. No task runs
// before its dependencies have succeeded or has two live attempts. Retry counts never fall, ended
// attempts never change, and a run ends with its attempts.
func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := anyDAG(t)
		if err := validTasks(job.Tasks); err != nil {
			t.Fatalf("the DAG is refused: %v", err)
		}
		l := &living{t: t, now: epoch, alive: map[string]domain.AttemptID{}, tries: map[string]int{}}
		l.run = newRun(job, domain.Actor{Kind: domain.ActorUser}, nil, TriggerManual, epoch)
		retries := map[string]int{}
		actions := map[string]func(){
			"admit":    func() { l.run.Admit(l.tick()) },
			"assign":   l.assign,
			"start":    func() { key, a := l.pick(); l.run.AttemptStarted(a, key, l.tick()) },
			"succeed":  func() { l.end(AttemptSuccess) },
			"succeeds": func() { l.end(AttemptSuccess) },
			"fail":     func() { l.end(AttemptFailed) },
			"lose":     func() { l.end(AttemptLost) },
			"again":    func() { l.again(rapid.SampledFrom(attemptEnds).Draw(t, "end")) },
			"cancel": func() {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					l.cancel()
				}
			},
			"repair": l.repair,
		}
		names := make([]string, 0, len(actions))
		for name := range actions {
			names = append(names, name)
		}
		slices.Sort(names)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			actions[rapid.SampledFrom(names).Draw(t, "event")]()
			l.check(retries)
		}
		l.run.Admit(l.tick())
		l.drain()
		l.check(retries)
	})
}
