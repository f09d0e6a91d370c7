package domain

import (
	"context"
	"errors"
	"fmt"
)

// errand is one thing to be done about a machine, as it was when that was decided.
type errand struct {
	r        *Reconciler
	scope    Scope
	provider Provider
	settings ProviderSettings
	machine  Machine
	token    string
	live     []Attempt
}

func (w errand) ref() MachineRef {
	return MachineRef{Workspace: w.scope.workspace, Machine: w.machine.ID, Incarnation: w.machine.Incarnation}
}

// done applies fn unless the machine has moved on since the decision.
func (w errand) done(ctx context.Context, fn func(Tx, *Machine, Agent) error) error {
	return w.r.change(context.WithoutCancel(ctx), w.scope, w.machine.ID, func(tx Tx, m *Machine, agent Agent) error {
		if m.Incarnation != w.machine.Incarnation || m.State != w.machine.State {
			return nil
		}
		return fn(tx, m, agent)
	})
}

// later is a call that failed for a passing reason: it is made again.
func (w errand) later(ctx context.Context, cause error) error {
	return errors.Join(cause, w.soon(ctx, "The provider "+string(w.machine.Provider)+" cannot do it now, and is asked again. The server's log says why."))
}

// soon has the machine looked at again soon, and says why where it starts.
func (w errand) soon(ctx context.Context, why string) error {
	return w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
		m.DueAt = new(w.r.Clock.Now().Add(retryPause))
		if m.State != MachineStarting {
			return nil // its message says more
		}
		m.Message = why
		if late := m.StateSince.Add(w.r.Times.Start); late.Before(*m.DueAt) {
			m.DueAt = &late
		}
		return nil
	})
}

// make has the provider make this incarnation.
func (w errand) make(ctx context.Context) error {
	told := w.r.Runs.eachWaiting(ctx, w.scope, w.machine, func(*Run) {}) // that it is starting now
	spec, err := w.spec(ctx)
	if err == nil {
		err = w.provider.Ensure(ctx, spec)
	}
	if IsCode(err, CodeConflict) { // there is no room now
		return w.soon(ctx, AsError(err).Message)
	}
	if IsCode(err, CodeInvalid) {
		return w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
			m.ImageRef = w.machine.ImageRef // one that never started is not pinned
			return m.Apply(EventRefused, AsError(err).Message, w.r.Clock.Now())
		})
	}
	if err != nil {
		return w.later(ctx, err)
	}
	return errors.Join(told, w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
		m.Made, m.DueAt = true, new(w.r.Clock.Now().Add(lookAgain))
		return nil
	}))
}

// spec pins the image at the first start.
func (w errand) spec(ctx context.Context) (MachineSpec, error) {
	all, err := w.provider.Flavors(ctx, w.settings)
	if err != nil {
		return MachineSpec{}, err
	}
	f, err := flavor(w.machine.Kind, all, w.machine.Flavor)
	if err != nil {
		return MachineSpec{}, err
	}
	image := w.machine.ImageRef
	if image == "" {
		if image, err = w.provider.Resolve(ctx, w.settings, w.machine.Image); err != nil {
			return MachineSpec{}, err
		}
		err = w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
			m.ImageRef = image
			return nil
		})
	}
	return MachineSpec{
		MachineRef: w.ref(), Provider: w.settings, Flavor: f, ImageRef: image, Slots: w.machine.Slots, WriteEngine: w.machine.WriteEngine, Server: w.r.Server, Bootstrap: w.token,
	}, err
}

// look asks whether the machine is there.
func (w errand) look(ctx context.Context) error {
	alive, detail, err := w.provider.Alive(ctx, w.ref())
	if err != nil {
		return w.later(ctx, err)
	}
	return w.done(ctx, func(tx Tx, m *Machine, agent Agent) error {
		now := w.r.Clock.Now()
		switch {
		case !alive:
			return w.r.again(ctx, tx, m, agent, "Its agent ended. "+shown(detail), now)
		case m.State == MachineRunning:
			m.DueAt = w.r.next(m, agent, now)
		default:
			m.DueAt = new(now.Add(lookAgain))
		}
		return nil
	})
}

// evict cancels what runs on a machine that stops.
func (w errand) evict(ctx context.Context) error {
	why := fmt.Sprintf("The %s %s was stopped while this ran. %s", w.machine.Kind.noun(), w.machine.Name, w.machine.Message)
	err := w.r.Store.In(ctx, w.scope, func(tx Tx) error {
		_, err := tx.Evict(ctx, attemptIDs(w.live), why, w.r.Clock.Now())
		return err
	})
	if err == nil {
		w.r.Runs.Outbox.cancel(w.live)
	}
	return err
}

// clean ends what is left of a machine that has failed, and says to the tasks that wait for it that it has: before it can be started again.
func (w errand) clean(ctx context.Context) error {
	if err := w.provider.Release(ctx, w.ref()); err != nil {
		return w.later(ctx, err)
	}
	told := w.r.Runs.failWaiting(ctx, w.scope, w.machine)
	return errors.Join(told, w.released(ctx))
}

// release ends all that is left of the machine.
func (w errand) release(ctx context.Context) error {
	if err := w.provider.Release(ctx, w.ref()); err != nil {
		return w.later(ctx, err)
	}
	return w.released(ctx)
}

// released notes that nothing is left of the machine. What ran on it is over then, whatever its agent has not told.
func (w errand) released(ctx context.Context) error {
	var live []Attempt
	err := w.done(ctx, func(tx Tx, m *Machine, agent Agent) (err error) {
		if live, err = tx.LiveAttempts(ctx, agent.ID); err != nil {
			return err
		}
		m.DueAt = new(w.r.Clock.Now())
		return disconnect(ctx, tx, agent)
	})
	if err != nil {
		return err
	}
	why := fmt.Sprintf("The %s %s was ended while this ran. %s", w.machine.Kind.noun(), w.machine.Name, w.machine.Message)
	for _, a := range live {
		err = errors.Join(err, w.r.Runs.endAttempt(ctx, w.scope, a.ID, AttemptEnd{Status: AttemptLost, Message: why, Evicted: true}))
	}
	if err != nil {
		return w.later(ctx, err)
	}
	err = w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
		if err := m.Apply(EventReleased, "", w.r.Clock.Now()); err != nil {
			return err
		}
		m.DueAt = nil
		return nil
	})
	if err != nil || w.machine.HeldAt == nil {
		return err
	}
	return w.r.Runs.holdWaiting(ctx, w.scope, w.machine)
}
