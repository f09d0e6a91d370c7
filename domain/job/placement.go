package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// resolveCompute replaces names by ids, and refuses anything that is no compute instance of the
// workspace.
func (s *Spec) resolveCompute(ctx context.Context, tx Tx) error {
	found := map[string]string{"": ""}
	resolve := func(field string, ref *string) error {
		if id, known := found[*ref]; known {
			*ref = id
			return nil
		}
		m, err := machine.Find(ctx, tx, machine.KindCompute, *ref)
		if domain.IsCode(err, domain.CodeNotFound) {
			return domain.Invalid(field, "There is no compute instance %q in this workspace; make it first, or leave %s out to run on the workspace's agent.", *ref, field)
		}
		if err == nil {
			found[*ref] = string(m.ID)
			*ref = string(m.ID)
		}
		return err
	}
	if err := resolve("compute", &s.Compute); err != nil {
		return err
	}
	for i := range s.Tasks {
		if err := resolve(fmt.Sprintf("tasks[%d].compute", i), &s.Tasks[i].Compute); err != nil {
			return err
		}
	}
	return nil
}

// lockTargets locks all agents that the run's tasks use or may fall back to, unless it is only the
// workspace's agent. Everywhere the order is: machines by id, then that agent.
func lockTargets(ctx context.Context, tx Tx, run *Run) error {
	machines, own := run.targets()
	for _, id := range machines {
		if _, _, err := tx.LockMachine(ctx, id); err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			return err
		}
	}
	if len(machines) == 0 || !own {
		return nil
	}
	_, err := tx.LockWorkspaceAgent(ctx)
	return err
}

// targets returns the machines of the unfinished tasks, in order, and whether a task may run on the
// workspace's agent.
func (r *Run) targets() (machines []domain.MachineID, own bool) {
	own = r.Spec.ComputeFallback
	for _, t := range r.Tasks {
		switch {
		case t.Status.Final():
		case t.Compute == "":
			own = true
		case !slices.Contains(machines, t.Compute):
			machines = append(machines, t.Compute)
		}
	}
	slices.Sort(machines)
	return machines, own
}

// liftHold lets the machines of a run start again that a person repairs.
func liftHold(ctx context.Context, tx Tx, run *Run) error {
	machines, _ := run.targets()
	for _, id := range machines {
		m, _, err := tx.LockMachine(ctx, id)
		if domain.IsCode(err, domain.CodeNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		m.HeldAt = nil
		if err := tx.UpdateMachine(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// target returns the agent for tasks of the machine, or the workspace's agent if the id is empty.
// If the tasks must wait, it returns the reason. It starts a stopped machine.
func (r *Runs) target(ctx context.Context, tx Tx, s domain.Scope, run *Run, id domain.MachineID, now time.Time) (agent machine.Agent, reason string, err error) {
	if id == "" {
		if agent, err = tx.LockWorkspaceAgent(ctx); err == nil && agent.Session == "" {
			reason = "Waits for the agent " + agent.Name + " to connect."
		}
		return agent, reason, err
	}
	m, agent, err := tx.LockMachine(ctx, id)
	if domain.IsCode(err, domain.CodeNotFound) {
		gone := fmt.Sprintf("Its compute instance %s was deleted.", id)
		run.TargetGone(id, gone, now)
		return agent, gone, nil
	}
	if err != nil {
		return agent, "", err
	}
	switch {
	case m.Resting() && m.HeldAt != nil && !run.CreatedAt.After(*m.HeldAt):
		return agent, m.Blocked(), nil
	case m.Resting():
		return agent, fmt.Sprintf("Waits for the compute instance %s, which is being started.", m.Name),
			machine.Start(ctx, tx, s, &m, "Started for a task that waits.", now)
	case m.State != machine.Running:
		return agent, strings.TrimSpace(fmt.Sprintf("Waits for the compute instance %s, which is %s. %s", m.Name, m.State, m.Message)), nil
	case agent.Session == "":
		return agent, fmt.Sprintf("Waits for the agent of the compute instance %s to connect.", m.Name), nil
	}
	m.IdleSince, m.DueAt, m.LastUsedAt = nil, nil, &now
	tx.Notify(domain.MachinesTopic(s.Workspace()))
	return agent, "", tx.UpdateMachine(ctx, m)
}

// machineIdle records that an attempt on the machine has ended. A machine without live attempts is
// idle or, if it is stopping, ready to be released.
func (r *Runs) machineIdle(ctx context.Context, tx Tx, s domain.Scope, id domain.MachineID, now time.Time) error {
	m, agent, err := tx.LockMachine(ctx, id)
	if domain.IsCode(err, domain.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	live, err := tx.LiveAttempts(ctx, agent.ID)
	if err != nil || len(live) > 0 {
		return err
	}
	m.LastUsedAt = &now
	switch m.State {
	case machine.Running:
		m.IdleSince = &now
		m.DueAt = m.AutoStopAt()
	case machine.Stopping:
		m.DueAt = &now
	}
	tx.Notify(domain.ReconcileTopic, domain.MachinesTopic(s.Workspace()))
	return tx.UpdateMachine(ctx, m)
}

// eachWaiting applies fn to the runs with tasks that wait for the machine.
func (r *Runs) eachWaiting(ctx context.Context, s domain.Scope, m machine.Machine, fn func(*Run)) error {
	var waiting []domain.RunID
	err := r.Store.In(ctx, s, func(tx Tx) (err error) {
		waiting, err = tx.WaitingRuns(ctx, m.ID)
		return err
	})
	for _, id := range waiting {
		var run *Run
		failed := r.Store.In(ctx, s, func(tx Tx) (err error) {
			run, err = r.update(ctx, tx, s, id, func(run *Run) error {
				fn(run)
				return nil
			})
			return err
		})
		if failed == nil {
			r.deliver(s, run)
		}
		err = errors.Join(err, failed)
	}
	return err
}
