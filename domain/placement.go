package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// resolveCompute puts ids in the place of names, and refuses what is no compute instance of the workspace.
func (s *JobSpec) resolveCompute(ctx context.Context, tx Tx) error {
	found := map[string]string{"": ""}
	resolve := func(field string, ref *string) error {
		if id, known := found[*ref]; known {
			*ref = id
			return nil
		}
		m, err := findMachine(ctx, tx, KindCompute, *ref)
		if IsCode(err, CodeNotFound) {
			return Invalid(field, "There is no compute instance %q in this workspace; make it first, or leave %s out to run on the workspace's agent.", *ref, field)
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

// findMachine finds a machine of the kind by its id or its name.
func findMachine(ctx context.Context, tx Tx, kind MachineKind, ref string) (Machine, error) {
	if strings.HasPrefix(ref, kind.prefix()+"_") {
		m, err := tx.Machine(ctx, MachineID(ref))
		if !IsCode(err, CodeNotFound) {
			return m, err
		}
	}
	return tx.MachineByName(ctx, kind, ref)
}

// lockPlaces locks what the run's tasks are on or may come onto, where that is more than the workspace's agent: machines in the order of their ids, and that agent
// last, as everywhere.
func lockPlaces(ctx context.Context, tx Tx, run *Run) error {
	machines, own := run.places()
	for _, id := range machines {
		if _, _, err := tx.LockMachine(ctx, id); err != nil && !IsCode(err, CodeNotFound) {
			return err
		}
	}
	if len(machines) == 0 || !own {
		return nil
	}
	_, err := tx.LockWorkspaceAgent(ctx)
	return err
}

// places are the machines of the tasks that are not over, in order, and whether one may run on the workspace's agent.
func (r *Run) places() (machines []MachineID, own bool) {
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

// liftHold lets the machines of a run that a person repairs be started for it.
func liftHold(ctx context.Context, tx Tx, run *Run) error {
	machines, _ := run.places()
	for _, id := range machines {
		m, _, err := tx.LockMachine(ctx, id)
		if IsCode(err, CodeNotFound) {
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

// place is the agent that tasks of the machine, or of the workspace's agent, can be given to now, or the reason why they wait. A machine that is stopped is
// started for them.
func (r *Runs) place(ctx context.Context, tx Tx, s Scope, run *Run, machine MachineID, now time.Time) (agent Agent, reason string, err error) {
	if machine == "" {
		if agent, err = tx.LockWorkspaceAgent(ctx); err == nil && agent.Session == "" {
			reason = "Waits for the agent " + agent.Name + " to connect."
		}
		return agent, reason, err
	}
	m, agent, err := tx.LockMachine(ctx, machine)
	if IsCode(err, CodeNotFound) {
		gone := fmt.Sprintf("Its compute instance %s was deleted.", machine)
		run.PlaceGone(machine, gone, now)
		return agent, gone, nil
	}
	if err != nil {
		return agent, "", err
	}
	switch {
	case m.resting() && m.HeldAt != nil && !run.CreatedAt.After(*m.HeldAt):
		return agent, m.held(), nil
	case m.resting():
		return agent, fmt.Sprintf("Waits for the compute instance %s, which is being started.", m.Name),
			startMachine(ctx, tx, s, &m, "Started for a task that waits.", now)
	case m.State != MachineRunning:
		return agent, strings.TrimSpace(fmt.Sprintf("Waits for the compute instance %s, which is %s. %s", m.Name, m.State, m.Message)), nil
	case agent.Session == "":
		return agent, fmt.Sprintf("Waits for the agent of the compute instance %s to connect.", m.Name), nil
	}
	m.IdleSince, m.DueAt, m.LastUsedAt = nil, nil, &now
	tx.Notify(MachinesTopic(s.workspace))
	return agent, "", tx.UpdateMachine(ctx, m)
}

// machineIdle notes that an attempt on the machine has ended. One that has nothing left is idle, or, when it stops, can go.
func (r *Runs) machineIdle(ctx context.Context, tx Tx, s Scope, id MachineID, now time.Time) error {
	m, agent, err := tx.LockMachine(ctx, id)
	if IsCode(err, CodeNotFound) {
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
	case MachineRunning:
		m.IdleSince = &now
		m.DueAt = m.AutoStopAt()
	case MachineStopping:
		m.DueAt = &now
	}
	tx.Notify(ReconcileTopic, MachinesTopic(s.workspace))
	return tx.UpdateMachine(ctx, m)
}

// failWaiting says to the tasks that wait for a machine that it has failed.
func (r *Runs) failWaiting(ctx context.Context, s Scope, m Machine) error {
	message := fmt.Sprintf("The %s %s failed. %s", m.Kind.noun(), m.Name, m.Message)
	return r.eachWaiting(ctx, s, m, func(run *Run) { run.PlaceFailed(m.ID, message, r.Clock.Now()) })
}

// holdWaiting says to the tasks that wait for a machine that a person has stopped it.
func (r *Runs) holdWaiting(ctx context.Context, s Scope, m Machine) error {
	return r.eachWaiting(ctx, s, m, func(run *Run) {
		for i := range run.Tasks {
			if t := &run.Tasks[i]; t.Compute == m.ID && t.Status == TaskQueued && t.Current == "" {
				wait(run, []*Task{t}, m.held())
			}
		}
	})
}

// held is what tasks wait for that were there when a person stopped the machine.
func (m *Machine) held() string {
	return fmt.Sprintf("Waits for the compute instance %s, which was stopped. Start it, or cancel the run.", m.Name)
}

// eachWaiting applies fn to the runs that have tasks which wait for the machine.
func (r *Runs) eachWaiting(ctx context.Context, s Scope, m Machine, fn func(*Run)) error {
	var waiting []RunID
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
