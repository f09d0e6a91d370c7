package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
)

// RunStatus is a run's state, from the specification.
type RunStatus string

// The states of a run.
const (
	RunPending   RunStatus = "pending"
	RunRunning   RunStatus = "running"
	RunSuccess   RunStatus = "success"
	RunFailed    RunStatus = "failed"
	RunCancelled RunStatus = "cancelled"
)

// RunStatuses lists the states of a run.
var RunStatuses = []RunStatus{RunPending, RunRunning, RunSuccess, RunFailed, RunCancelled}

// Final reports whether the run has ended. Only a repair changes it again.
func (s RunStatus) Final() bool { return s == RunSuccess || s == RunFailed || s == RunCancelled }

// Trigger is what started a run.
type Trigger string

// The triggers.
const (
	TriggerManual   Trigger = "manual"
	TriggerSchedule Trigger = "schedule"
	TriggerSample   Trigger = "sample"
)

// TaskStatus is a task's state.
type TaskStatus string

// The states of a task. A queued task waits only for a free slot or for its back-off.
const (
	TaskPending   TaskStatus = "pending"
	TaskQueued    TaskStatus = "queued"
	TaskRunning   TaskStatus = "running"
	TaskSuccess   TaskStatus = "success"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
	TaskSkipped   TaskStatus = "skipped"
)

// Final reports whether the task has ended. Only a repair changes it again.
func (s TaskStatus) Final() bool {
	return s == TaskSuccess || s == TaskFailed || s == TaskCancelled || s == TaskSkipped
}

// Run is one execution of a job: a frozen copy of the job, and its progress.
type Run struct {
	ID                domain.RunID
	JobID             domain.JobID
	JobName           string
	Spec              Spec       // frozen; not always loaded
	Parameters        []Variable // not always loaded
	SpecSize          int        // stored bytes of Spec, known without loading it
	ParametersSize    int        // stored bytes of Parameters
	TaskCount         int        // as declared; 0 for a single command
	MaxConcurrentRuns int        // the job's own limit, frozen
	Status            RunStatus
	Trigger           Trigger
	StartedBy         domain.Actor
	Message           string
	Admitted          bool // its tasks may start; false while the job's own limit queues it
	CreatedAt         time.Time
	StartedAt         *time.Time
	FinishedAt        *time.Time
	CancelRequestedAt *time.Time
	Changed           domain.Change // set when read
	Tasks             []Task        // in the order of the spec; not always loaded

	assigned []Attempt // assigned since the last commit, to be delivered
	files    []File    // for assigned, with their contents
}

// LastChange implements domain.Changing.
func (r Run) LastChange() (domain.Change, string) { return r.Changed, string(r.ID) }

// Single reports whether the run has a single command. Such a run has one task with an empty key,
// which is not shown as a task.
func (r *Run) Single() bool { return r.TaskCount == 0 }

// Task is one task of a run.
type Task struct {
	RunID      domain.RunID
	Key        string           // empty for a single command
	Position   int              // in the spec
	Compute    domain.MachineID // the machine it runs on; empty for the workspace's agent
	Status     TaskStatus
	RetryCount int              // keeps counting through repairs
	RetryBase  int              // RetryCount at the last repair: retries are counted from there
	Attempts   int              // number of attempts so far
	Current    domain.AttemptID // the live attempt; empty if none
	Message    string
	NotBefore  *time.Time // the earliest time of a retry
	StartedAt  *time.Time // start of its first attempt since the last repair
	FinishedAt *time.Time
}

// AttemptStatus is the state of one try of a task.
type AttemptStatus string

// The states of an attempt.
const (
	AttemptStarting  AttemptStatus = "starting" // given to an agent
	AttemptRunning   AttemptStatus = "running"  // its process exists
	AttemptSuccess   AttemptStatus = "success"
	AttemptFailed    AttemptStatus = "failed"
	AttemptCancelled AttemptStatus = "cancelled"
	AttemptLost      AttemptStatus = "lost" // its agent is gone; it can change nothing any more
)

// Final reports whether the attempt has ended, which never changes.
func (s AttemptStatus) Final() bool { return s != AttemptStarting && s != AttemptRunning }

// Attempt is one try of a task on an agent. Its id fences: later reports of an ended attempt change
// nothing.
type Attempt struct {
	ID                domain.AttemptID
	RunID             domain.RunID
	TaskKey           string
	Number            int // from 1
	AgentID           domain.AgentID
	Status            AttemptStatus
	ExitCode          *int
	Signal            string
	Message           string
	Held              string // why the process is blocked, while it is
	CreatedAt         time.Time
	StartedAt         *time.Time
	FinishedAt        *time.Time
	CancelRequestedAt *time.Time
	CancelReason      string // set if something other than its run's cancellation cancelled it
	LogSize           int64  // bytes; final once the attempt has ended
}

// newRun returns a run of the job with a frozen copy of it.
func newRun(job Job, actor domain.Actor, params []Variable, trigger Trigger, now time.Time) *Run {
	r := &Run{
		ID: domain.NewID[domain.RunID](domain.PrefixRun), JobID: job.ID, JobName: job.Name, Spec: job.Spec, Parameters: params,
		TaskCount: len(job.Tasks), MaxConcurrentRuns: job.MaxConcurrentRuns,
		Status: RunPending, Trigger: trigger, StartedBy: actor, CreatedAt: now,
	}
	if r.Single() {
		r.Tasks = []Task{{RunID: r.ID, Status: TaskPending}}
	}
	for i, t := range r.Spec.Tasks {
		r.Tasks = append(r.Tasks, Task{RunID: r.ID, Key: t.Key, Position: i, Status: TaskPending})
	}
	for i := range r.Tasks {
		r.Tasks[i].Compute = r.compute(&r.Tasks[i])
	}
	return r
}

// spec returns the task's frozen declaration. For a single command it is derived from the job's
// fields.
func (r *Run) spec(t *Task) TaskSpec {
	if r.Single() {
		return TaskSpec{Command: r.Spec.Command, MaxRetries: r.Spec.MaxRetries, TimeoutSeconds: r.Spec.TimeoutSeconds}
	}
	return r.Spec.Tasks[t.Position]
}

// compute returns the machine that the task was declared for.
func (r *Run) compute(t *Task) domain.MachineID {
	return domain.MachineID(cmp.Or(r.spec(t).Compute, r.Spec.Compute))
}

// Task returns the task with the key, or nil.
func (r *Run) Task(key string) *Task {
	for i := range r.Tasks {
		if r.Tasks[i].Key == key {
			return &r.Tasks[i]
		}
	}
	return nil
}

// Admit lets the run's tasks start: the job's limit of concurrent runs no longer blocks it.
func (r *Run) Admit(now time.Time) {
	if r.Status != RunPending || r.Admitted {
		return
	}
	r.Admitted, r.Message = true, ""
	r.advance(now)
}

// Ready returns the queued tasks that can be assigned now.
func (r *Run) Ready(now time.Time) []*Task {
	if r.Status.Final() || !r.Admitted || r.CancelRequestedAt != nil {
		return nil
	}
	var ready []*Task
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Status == TaskQueued && t.Current == "" && (t.NotBefore == nil || !t.NotBefore.After(now)) {
			ready = append(ready, t)
		}
	}
	return ready
}

// Assign creates the task's next attempt, on the agent. The task stays queued until its process
// exists.
func (r *Run) Assign(t *Task, agent domain.AgentID, now time.Time) Attempt {
	t.Attempts++
	a := Attempt{
		ID: domain.NewID[domain.AttemptID](domain.PrefixAttempt), RunID: r.ID, TaskKey: t.Key, Number: t.Attempts,
		AgentID: agent, Status: AttemptStarting, CreatedAt: now,
	}
	t.Current, t.NotBefore, t.Message, r.Message = a.ID, nil, "", ""
	return a
}

// AttemptStarted records that the attempt's process started at the given time.
func (r *Run) AttemptStarted(a domain.AttemptID, key string, at time.Time) {
	t := r.Task(key)
	if t == nil || t.Current != a || t.Status != TaskQueued {
		return
	}
	t.Status = TaskRunning
	if t.StartedAt == nil {
		t.StartedAt = &at
	}
	if r.Status == RunPending {
		r.Status = RunRunning
	}
	if r.StartedAt == nil {
		r.StartedAt = &at
	}
}

// AttemptEnd is the end of an attempt.
type AttemptEnd struct {
	Status     AttemptStatus // a final one
	Message    string
	ExitCode   *int
	Signal     string
	StartedAt  *time.Time
	FinishedAt *time.Time
	LogEnd     int64
	Evicted    bool // its machine was stopped or has failed
}

// AttemptEnded advances the task and the run after the attempt's end. It ignores an attempt that is
// not the task's current one.
func (r *Run) AttemptEnded(a domain.AttemptID, key string, end AttemptEnd, now time.Time) {
	t := r.Task(key)
	if t == nil || t.Current != a {
		return
	}
	t.Current = ""
	at := now
	if end.FinishedAt != nil {
		at = *end.FinishedAt
	}
	switch {
	case end.Status == AttemptSuccess:
		t.end(TaskSuccess, "", at)
	case end.Status == AttemptCancelled && r.CancelRequestedAt == nil && !end.Evicted:
		r.failed(t, "Its agent cancelled it without a request.", at, now)
	default:
		if end.Evicted {
			r.fallBack(t)
		}
		r.failed(t, end.Message, at, now)
	}
	r.advance(now)
}

// fallBack moves the task to the workspace's agent if its job allows that.
func (r *Run) fallBack(t *Task) {
	if r.Spec.ComputeFallback {
		t.Compute = ""
	}
}

// TargetFailed handles the ready tasks of a machine that is not available. They fall back to the
// workspace's agent if the job allows that; otherwise they fail, with their usual retries.
func (r *Run) TargetFailed(machine domain.MachineID, message string, now time.Time) {
	r.leave(machine, now, func(t *Task) { r.failed(t, message, now, now) })
}

// TargetGone is TargetFailed for a deleted machine: its tasks fail without retries.
func (r *Run) TargetGone(machine domain.MachineID, message string, now time.Time) {
	r.leave(machine, now, func(t *Task) { t.end(TaskFailed, message, now) })
}

func (r *Run) leave(machine domain.MachineID, now time.Time, fail func(*Task)) {
	for _, t := range r.Ready(now) {
		if t.Compute != machine {
			continue
		}
		if r.fallBack(t); t.Compute == machine {
			fail(t)
		}
	}
	r.advance(now)
}

func (r *Run) failed(t *Task, message string, at, now time.Time) {
	switch {
	case r.CancelRequestedAt != nil:
		t.end(TaskCancelled, message, at)
	case t.RetryCount-t.RetryBase < r.spec(t).MaxRetries:
		notBefore := now.Add(backoff(t.RetryCount - t.RetryBase))
		t.Status, t.Message, t.NotBefore = TaskQueued, message, &notBefore
		t.RetryCount++
	default:
		t.end(TaskFailed, message, at)
	}
}

// backoff returns the pause before a retry: one second, doubled each time, up to a minute.
func backoff(retries int) time.Duration {
	return min(time.Second<<min(retries, 6), time.Minute)
}

func (t *Task) end(s TaskStatus, message string, at time.Time) {
	t.Status, t.Message, t.NotBefore, t.FinishedAt = s, message, nil, &at
}

// advance queues tasks whose dependencies have succeeded and skips tasks that can no longer run. It
// ends the run when all tasks have ended.
func (r *Run) advance(now time.Time) {
	if r.Status.Final() {
		return
	}
	if r.Admitted && r.CancelRequestedAt == nil {
		r.release(now)
	}
	for i := range r.Tasks {
		if !r.Tasks[i].Status.Final() {
			return
		}
	}
	r.finish(now)
}

// release repeats over the pending tasks until nothing changes, because a skipped task skips its
// dependents.
func (r *Run) release(now time.Time) {
	status := make(map[string]TaskStatus, len(r.Tasks))
	for i := range r.Tasks {
		status[r.Tasks[i].Key] = r.Tasks[i].Status
	}
	for changed := true; changed; {
		changed = false
		for i := range r.Tasks {
			t := &r.Tasks[i]
			if t.Status != TaskPending {
				continue
			}
			if next, blocker := dependencies(r.spec(t).DependsOn, status); next == TaskSkipped {
				t.end(TaskSkipped, "Skipped because "+blocker+" did not succeed.", now)
			} else {
				t.Status = next
			}
			changed = changed || t.Status == TaskSkipped
			status[t.Key] = t.Status
		}
	}
}

// dependencies returns the next status of a pending task.
func dependencies(on []string, status map[string]TaskStatus) (next TaskStatus, blocker string) {
	next = TaskQueued
	for _, d := range on {
		switch s := status[d]; {
		case s == TaskSuccess:
		case s.Final():
			return TaskSkipped, d
		default:
			next = TaskPending
		}
	}
	return next, ""
}

func (r *Run) finish(now time.Time) {
	r.FinishedAt, r.Status = &now, RunSuccess
	if i := slices.IndexFunc(r.Tasks, func(t Task) bool { return t.Status == TaskFailed }); i >= 0 {
		r.Status, r.Message = RunFailed, r.Tasks[i].Message
		if key := r.Tasks[i].Key; key != "" {
			r.Message = key + ": " + r.Message
		}
	}
	if r.CancelRequestedAt != nil {
		r.Status, r.Message = RunCancelled, ""
	}
}

// Cancel ends all tasks without a live attempt, and returns the attempts to cancel. A run without
// live attempts ends at once.
func (r *Run) Cancel(now time.Time) ([]domain.AttemptID, error) {
	if r.Status.Final() {
		return nil, domain.Errorf(domain.CodeConflict, "The run is over (%s); there is nothing to cancel.", r.Status)
	}
	if r.CancelRequestedAt != nil {
		return nil, domain.Errorf(domain.CodeConflict, "The run's cancellation was already requested at %s.", r.CancelRequestedAt.Format(time.RFC3339))
	}
	r.CancelRequestedAt = &now
	var live []domain.AttemptID
	for i := range r.Tasks {
		t := &r.Tasks[i]
		switch {
		case t.Current != "":
			live = append(live, t.Current)
		case !t.Status.Final():
			t.end(TaskCancelled, "", now)
		}
	}
	r.advance(now)
	return live, nil
}

// Repair makes the run pending again, with all tasks that did not succeed. Their dependents did not
// succeed either.
func (r *Run) Repair() error {
	if r.Status != RunFailed && r.Status != RunCancelled {
		return domain.Errorf(domain.CodeConflict, "The run is %s; only one that failed or was cancelled can be repaired.", r.Status)
	}
	r.Status, r.Message, r.FinishedAt, r.CancelRequestedAt, r.Admitted = RunPending, "", nil, nil, false
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if t.Status == TaskSuccess {
			continue
		}
		t.RetryCount = t.Attempts // so the next attempt counts as a retry
		t.RetryBase = t.RetryCount
		t.Compute = r.compute(t)
		t.Status, t.Message, t.NotBefore, t.StartedAt, t.FinishedAt = TaskPending, "", nil, nil, nil
	}
	return nil
}
