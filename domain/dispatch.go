package domain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Delivery is an attempt on its way to an agent, with everything its process needs.
type Delivery struct {
	Attempt        Attempt
	Command        string
	Environment    map[string]string
	TimeoutSeconds int
	GraceSeconds   int
	Files          []File
}

// stopGrace is the time between SIGTERM and SIGKILL.
const stopGrace = 10

// Fleet reaches agents wherever they are connected. Messages are hints: what is not delivered is made good by the next heartbeat or hello.
type Fleet interface {
	// Start gives the attempt to its agent. CodeInvalid says that the agent will never take it.
	Start(ctx context.Context, agent AgentID, d Delivery) error
	Cancel(ctx context.Context, agent AgentID, attempt AttemptID) error
}

// Tokens mints the credential of an attempt's process.
type Tokens interface {
	// RunToken is the attempt's bearer token: valid while the attempt is alive and for nothing else.
	RunToken(ws WorkspaceID, attempt AttemptID) string
	// Environment is what every process needs to find the platform: its addresses, by the names that clients read.
	Environment(ws WorkspaceID, token string) map[string]string
}

// update changes the run under its lock and gives its ready tasks to the workspace's agent while that has free slots. Where other runs have tasks that
// wait, it leaves the slots to Dispatch, which goes by age.
func (r *Runs) update(ctx context.Context, tx Tx, s Scope, id RunID, fn func(*Run) error) (*Run, error) {
	return r.change(ctx, tx, s, id, true, fn)
}

// change is update; without fair the run takes free slots whoever else waits.
func (r *Runs) change(ctx context.Context, tx Tx, s Scope, id RunID, fair bool, fn func(*Run) error) (*Run, error) {
	run, err := tx.UpdateRun(ctx, id, func(run *Run) error {
		if err := lockPlaces(ctx, tx, run); err != nil {
			return err
		}
		if err := fn(run); err != nil {
			return err
		}
		return r.assign(ctx, tx, s, run, fair)
	})
	if err != nil {
		return nil, err
	}
	tx.Notify(RunTopic(id), RunsTopic(s.workspace))
	if run.Status.Final() {
		tx.Notify(ScheduleTopic, DispatchTopic) // a place in the quota is free, and perhaps in the job's own limit
	}
	return run, nil
}

// assign gives the run's ready tasks to agents: those of machines first, in the order of their ids, as some of theirs may fall to the workspace's agent.
func (r *Runs) assign(ctx context.Context, tx Tx, s Scope, run *Run, fair bool) error {
	now := r.Clock.Now()
	var machines []MachineID
	for _, t := range run.Ready(now) {
		if t.Compute != "" && !slices.Contains(machines, t.Compute) {
			machines = append(machines, t.Compute)
		}
	}
	slices.Sort(machines)
	for _, machine := range append(machines, "") {
		ready := slices.DeleteFunc(run.Ready(now), func(t *Task) bool { return t.Compute != machine })
		if len(ready) == 0 {
			continue
		}
		agent, reason, err := r.place(ctx, tx, s, run, machine, now)
		if err != nil {
			return err
		}
		if reason != "" {
			wait(run, ready, reason)
			continue
		}
		if err := r.fill(ctx, tx, s, run, ready, agent, fair, now); err != nil {
			return err
		}
	}
	if len(run.assigned) > 0 && run.files == nil {
		var err error
		if run.files, err = loadFiles(ctx, tx, run.Spec.Files); err != nil {
			return err
		}
	}
	return nil
}

// fill gives the tasks to the agent while it has free slots.
func (r *Runs) fill(ctx context.Context, tx Tx, s Scope, run *Run, ready []*Task, agent Agent, fair bool, now time.Time) (err error) {
	others := false
	if fair && agent.Busy > 0 {
		if others, err = tx.OtherReadyRuns(ctx, run.ID, agent.MachineID, now); err != nil {
			return err
		}
	}
	free := agent.Slots - agent.Busy
	if others {
		free = 0
		tx.Notify(DispatchTopic)
	}
	for i, t := range ready {
		if i >= free {
			wait(run, ready[i:], fmt.Sprintf("Waits for a free slot of the %s %s, which has %d.", agent.noun(), agent.Name, agent.Slots))
			break
		}
		a := run.Assign(t, agent.ID, now)
		if err := tx.InsertAttempt(ctx, a); err != nil {
			return err
		}
		run.assigned = append(run.assigned, a)
	}
	tx.Notify(AgentsTopic(s.workspace))
	return nil
}

// wait says on the tasks, and on a run that has not begun or has nothing else, what they wait for.
func wait(run *Run, tasks []*Task, message string) {
	for _, t := range tasks {
		t.Message = message
	}
	if run.Status == RunPending || run.Single() {
		run.Message = message
	}
}

// deliver sends the attempts that were just assigned, after the commit.
func (r *Runs) deliver(s Scope, run *Run) {
	for _, a := range run.assigned {
		d := run.delivery(a, r.Tokens, s.workspace)
		d.Files = run.files
		r.Outbox.send(a.AgentID, func(ctx context.Context) error { return r.launch(ctx, s, d) })
	}
	run.assigned = nil
}

// redeliver sends an attempt that its agent has not got. What its process needs is read when the message's turn comes, one attempt at a time, if it is still
// to be started then.
func (r *Runs) redeliver(s Scope, a Attempt) {
	r.Outbox.send(a.AgentID, func(ctx context.Context) error {
		var d Delivery
		wanted := false
		err := r.Store.In(ctx, s, func(tx Tx) error {
			now, err := tx.Attempt(ctx, a.ID)
			wanted = now.Status == AttemptStarting && now.CancelRequestedAt == nil
			if err != nil || !wanted {
				return err
			}
			d, err = r.delivery(ctx, tx, s, a)
			return err
		})
		if err != nil || !wanted {
			return err
		}
		return r.launch(ctx, s, d)
	})
}

// delivery reads what the attempt's process needs.
func (r *Runs) delivery(ctx context.Context, tx Tx, s Scope, a Attempt) (Delivery, error) {
	run, err := tx.Run(ctx, a.RunID)
	if err != nil {
		return Delivery{}, err
	}
	if run.Tasks, err = tx.Tasks(ctx, []RunID{run.ID}); err != nil {
		return Delivery{}, err
	}
	d := run.delivery(a, r.Tokens, s.workspace)
	d.Files, err = loadFiles(ctx, tx, run.Spec.Files)
	return d, err
}

// launch gives the attempt to its agent. One that the agent will never take has failed.
func (r *Runs) launch(ctx context.Context, s Scope, d Delivery) error {
	size := 0
	for _, f := range d.Files {
		size += len(f.Content)
	}
	bounded, cancel := context.WithTimeout(ctx, delivered+time.Duration(size/slowLink)*time.Second)
	defer cancel()
	err := r.Outbox.fleet.Start(bounded, d.Attempt.AgentID, d)
	if !IsCode(err, CodeInvalid) {
		return err
	}
	end := AttemptEnd{Status: AttemptFailed, Message: shown("The agent refuses the attempt: " + AsError(err).Message)}
	return errors.Join(err, r.endAttempt(ctx, SystemScope(s.workspace, "refused attempt"), d.Attempt.ID, end))
}

func (r *Run) delivery(a Attempt, tokens Tokens, ws WorkspaceID) Delivery {
	t := r.spec(r.Task(a.TaskKey))
	token := tokens.RunToken(ws, a.ID)
	env := tokens.Environment(ws, token)
	for _, vars := range [][]Variable{r.Spec.Environment, t.Environment, r.Parameters} {
		for _, v := range vars {
			env[v.Name] = v.Value
		}
	}
	maps.Copy(env, map[string]string{
		"MILLPOND_TOKEN":       token,
		"MILLPOND_WORKSPACE":   string(ws),
		"MILLPOND_JOB_ID":      string(r.JobID),
		"MILLPOND_RUN_ID":      string(r.ID),
		"MILLPOND_TASK_KEY":    a.TaskKey,
		"MILLPOND_ATTEMPT_ID":  string(a.ID),
		"MILLPOND_ATTEMPT":     fmt.Sprint(a.Number),
		"MILLPOND_RETRY_COUNT": fmt.Sprint(r.Task(a.TaskKey).RetryCount),
	})
	return Delivery{Attempt: a, Command: t.Command, Environment: env, TimeoutSeconds: t.TimeoutSeconds, GraceSeconds: stopGrace}
}

// Dispatch gives to agents what can start: retries whose back-off is over, tasks that waited for a slot or for their agent.
// Every replica may do it at any time. It returns when the next back-off ends, the zero time when none runs.
func (r *Runs) Dispatch(ctx context.Context) (next time.Time, err error) {
	due, err := r.System.DueRuns(ctx, r.Clock.Now(), MaxLimit)
	if err != nil {
		return time.Time{}, err
	}
	var failed []error
	for _, ref := range due {
		failed = append(failed, r.dispatchRun(ctx, ref))
	}
	if next, err = r.System.NextRetry(ctx, r.Clock.Now()); err != nil {
		failed = append(failed, err)
	}
	return next, errors.Join(failed...)
}

func (r *Runs) dispatchRun(ctx context.Context, ref RunRef) error {
	s := SystemScope(ref.Workspace, "dispatch")
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) error {
		waiting, err := tx.Run(ctx, ref.Run)
		if err != nil {
			return err
		}
		held, err := r.held(ctx, tx, &waiting)
		if err != nil {
			return err
		}
		run, err = r.change(ctx, tx, s, ref.Run, false, func(run *Run) error {
			if !held {
				run.Admit(r.Clock.Now())
			}
			return nil
		})
		return err
	})
	if err == nil {
		r.deliver(s, run)
	}
	return err
}
