package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Delivery is an attempt to send to an agent, with everything that its process needs.
type Delivery struct {
	Attempt        Attempt
	Command        string
	Environment    map[string]string
	TimeoutSeconds int
	GraceSeconds   int
	Files          []File
}

// stopGrace is the time between SIGTERM and SIGKILL, in seconds.
const stopGrace = 10

// Fleet reaches agents on any replica. Messages are hints: the next heartbeat or hello corrects for
// lost ones.
type Fleet interface {
	// Start sends the attempt to its agent. CodeInvalid says that the agent will never accept it.
	Start(ctx context.Context, agent domain.AgentID, d Delivery) error
	Cancel(ctx context.Context, agent domain.AgentID, attempt domain.AttemptID) error
}

// Tokens mints the credential of an attempt's process.
type Tokens interface {
	// RunToken returns the attempt's bearer token. It is valid only while the attempt is alive.
	RunToken(ws domain.WorkspaceID, attempt domain.AttemptID) string
	// Environment returns the variables by which every process finds the platform: its addresses,
	// under the names that clients read.
	Environment(ws domain.WorkspaceID, token string) map[string]string
}

// update changes the run under its lock, then assigns its ready tasks to free slots. If tasks of
// other runs wait, it leaves the slots to Dispatch, which assigns by age.
func (r *Runs) update(ctx context.Context, tx Tx, s domain.Scope, id domain.RunID, fn func(*Run) error) (*Run, error) {
	return r.change(ctx, tx, s, id, true, fn)
}

// change is update; without fair, the run uses free slots even if other runs wait.
func (r *Runs) change(ctx context.Context, tx Tx, s domain.Scope, id domain.RunID, fair bool, fn func(*Run) error) (*Run, error) {
	run, err := tx.UpdateRun(ctx, id, func(run *Run) error {
		if err := lockTargets(ctx, tx, run); err != nil {
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
	tx.Notify(domain.RunTopic(id), domain.RunsTopic(s.Workspace()))
	if run.Status.Final() {
		// the quota has room for another run, and perhaps the job's own limit
		tx.Notify(domain.ScheduleTopic, domain.DispatchTopic)
	}
	return run, nil
}

// assign gives the run's ready tasks to agents. Machines come first, in the order of their ids,
// because their tasks may fall back to the workspace's agent.
func (r *Runs) assign(ctx context.Context, tx Tx, s domain.Scope, run *Run, fair bool) error {
	now := r.Clock.Now()
	var machines []domain.MachineID
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
		agent, reason, err := r.target(ctx, tx, s, run, machine, now)
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

// fill gives the tasks to the agent until its slots are full.
func (r *Runs) fill(ctx context.Context, tx Tx, s domain.Scope, run *Run, ready []*Task, agent machine.Agent, fair bool, now time.Time) (err error) {
	others := false
	if fair && agent.Busy > 0 {
		if others, err = tx.OtherReadyRuns(ctx, run.ID, agent.MachineID, now); err != nil {
			return err
		}
	}
	free := agent.Slots - agent.Busy
	if others {
		free = 0
		tx.Notify(domain.DispatchTopic)
	}
	for i, t := range ready {
		if i >= free {
			wait(run, ready[i:], fmt.Sprintf("Waits for a free slot of the %s %s, which has %d.", agent.Noun(), agent.Name, agent.Slots))
			break
		}
		a := run.Assign(t, agent.ID, now)
		if err := tx.InsertAttempt(ctx, a); err != nil {
			return err
		}
		run.assigned = append(run.assigned, a)
	}
	tx.Notify(domain.AgentsTopic(s.Workspace()))
	return nil
}

// wait sets the message of waiting tasks. The run gets it too if it is pending or has a single
// task.
func wait(run *Run, tasks []*Task, message string) {
	for _, t := range tasks {
		t.Message = message
	}
	if run.Status == RunPending || run.Single() {
		run.Message = message
	}
}

// deliver sends the attempts that were just assigned. Call it after the commit.
func (r *Runs) deliver(s domain.Scope, run *Run) {
	for _, a := range run.assigned {
		d := run.delivery(a, r.Tokens, s.Workspace())
		d.Files = run.files
		r.Outbox.send(a.AgentID, func(ctx context.Context) error { return r.launch(ctx, s, d) })
	}
	run.assigned = nil
}

// redeliver sends an attempt again that its agent does not have. It reads what the process needs
// only when the message is sent, one attempt at a time. By then the attempt may need no start.
func (r *Runs) redeliver(s domain.Scope, a Attempt) {
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
func (r *Runs) delivery(ctx context.Context, tx Tx, s domain.Scope, a Attempt) (Delivery, error) {
	run, err := tx.Run(ctx, a.RunID)
	if err != nil {
		return Delivery{}, err
	}
	if run.Tasks, err = tx.Tasks(ctx, []domain.RunID{run.ID}); err != nil {
		return Delivery{}, err
	}
	d := run.delivery(a, r.Tokens, s.Workspace())
	d.Files, err = loadFiles(ctx, tx, run.Spec.Files)
	return d, err
}

// launch sends the attempt to its agent. If the agent will never accept it, the attempt fails.
func (r *Runs) launch(ctx context.Context, s domain.Scope, d Delivery) error {
	size := 0
	for _, f := range d.Files {
		size += len(f.Content)
	}
	bounded, cancel := context.WithTimeout(ctx, delivered+time.Duration(size/slowLink)*time.Second)
	defer cancel()
	err := r.Outbox.fleet.Start(bounded, d.Attempt.AgentID, d)
	if !domain.IsCode(err, domain.CodeInvalid) {
		return err
	}
	end := AttemptEnd{Status: AttemptFailed, Message: domain.Shown("The agent refuses the attempt: " + domain.AsError(err).Message)}
	return errors.Join(err, r.endAttempt(ctx, domain.SystemScope(s.Workspace(), "refused attempt"), d.Attempt.ID, end))
}

func (r *Run) delivery(a Attempt, tokens Tokens, ws domain.WorkspaceID) Delivery {
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

// Dispatch assigns all tasks that can start: retries after their back-off, and tasks that waited
// for a slot or for their agent. Any replica may call it at any time. It returns when the next
// back-off ends, or the zero time if there is none.
func (r *Runs) Dispatch(ctx context.Context) (next time.Time, err error) {
	due, err := r.System.DueRuns(ctx, r.Clock.Now(), domain.MaxLimit)
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

func (r *Runs) dispatchRun(ctx context.Context, ref domain.RunRef) error {
	s := domain.SystemScope(ref.Workspace, "dispatch")
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) error {
		waiting, err := tx.Run(ctx, ref.Run)
		if err != nil {
			return err
		}
		blocked, err := r.blocked(ctx, tx, &waiting)
		if err != nil {
			return err
		}
		run, err = r.change(ctx, tx, s, ref.Run, false, func(run *Run) error {
			if !blocked {
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
