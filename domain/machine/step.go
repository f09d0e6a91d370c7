package machine

import (
	"context"
	"errors"
	"fmt"

	"github.com/millpond/millpond/domain"
)

// machineStep is one step of work on a machine, with the state that the decision was based on.
type machineStep struct {
	r        *Reconciler
	scope    domain.Scope
	provider Provider
	settings ProviderSettings
	machine  Machine
	token    string
}

func (w machineStep) ref() Ref {
	return Ref{Workspace: w.scope.Workspace(), Machine: w.machine.ID, Incarnation: w.machine.Incarnation}
}

// done applies fn unless the machine has moved on since the decision.
func (w machineStep) done(ctx context.Context, fn func(Tx, *Machine, Agent) error) error {
	_, err := w.applied(ctx, fn)
	return err
}

// applied is done, and reports whether it applied fn.
func (w machineStep) applied(ctx context.Context, fn func(Tx, *Machine, Agent) error) (applied bool, err error) {
	err = changeMachine(context.WithoutCancel(ctx), w.r.Store, w.scope, w.machine.ID, func(tx Tx, m *Machine, agent Agent) error {
		applied = m.Incarnation == w.machine.Incarnation && m.State == w.machine.State
		if !applied {
			return nil
		}
		return fn(tx, m, agent)
	})
	return applied, err
}

// later retries after a call that failed for a passing reason.
func (w machineStep) later(ctx context.Context, cause error) error {
	return errors.Join(cause, w.soon(ctx, "The provider "+string(w.machine.Provider)+" cannot do it now; the server retries. Its log says why."))
}

// soon makes the reconciler check the machine again soon. A starting machine gets why as its
// message.
func (w machineStep) soon(ctx context.Context, why string) error {
	return w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
		m.DueAt = new(w.r.Clock.Now().Add(retryPause))
		if m.State != Starting {
			return nil // keep its message, which is more specific
		}
		m.Message = why
		if late := m.StateSince.Add(w.r.Times.Start); late.Before(*m.DueAt) {
			m.DueAt = &late
		}
		return nil
	})
}

// make calls the provider to create this incarnation.
func (w machineStep) make(ctx context.Context) error {
	notified := w.r.Work.Starting(ctx, w.scope, w.machine)
	spec, err := w.spec(ctx)
	if err == nil {
		err = w.provider.Ensure(ctx, spec)
	}
	if domain.IsCode(err, domain.CodeConflict) { // no room now
		return w.soon(ctx, domain.AsError(err).Message)
	}
	if domain.IsCode(err, domain.CodeInvalid) {
		return w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
			m.ImageRef = w.machine.ImageRef // do not pin an image that never started
			return m.Apply(EventRefused, domain.AsError(err).Message, w.r.Clock.Now())
		})
	}
	if err != nil {
		return w.later(ctx, err)
	}
	return errors.Join(notified, w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
		m.Made, m.DueAt = true, new(w.r.Clock.Now().Add(lookAgain))
		return nil
	}))
}

// spec pins the image at the first start.
func (w machineStep) spec(ctx context.Context) (Spec, error) {
	all, err := w.provider.Flavors(ctx, w.settings)
	if err != nil {
		return Spec{}, err
	}
	f, err := flavor(w.machine.Kind, all, w.machine.Flavor)
	if err != nil {
		return Spec{}, err
	}
	image := w.machine.ImageRef
	if image == "" {
		if image, err = w.provider.Resolve(ctx, w.settings, w.machine.Image); err != nil {
			return Spec{}, err
		}
		err = w.done(ctx, func(_ Tx, m *Machine, _ Agent) error {
			m.ImageRef = image
			return nil
		})
	}
	return Spec{
		Ref: w.ref(), Provider: w.settings, Flavor: f, ImageRef: image, Slots: w.machine.Slots, WriteEngine: w.machine.WriteEngine, Server: w.r.Server, Bootstrap: w.token,
	}, err
}

// look checks whether the machine is alive.
func (w machineStep) look(ctx context.Context) error {
	alive, detail, err := w.provider.Alive(ctx, w.ref())
	if err != nil {
		return w.later(ctx, err)
	}
	return w.done(ctx, func(tx Tx, m *Machine, agent Agent) error {
		now := w.r.Clock.Now()
		switch {
		case !alive:
			return w.r.again(ctx, tx, m, agent, "Its agent ended. "+domain.Shown(detail), now)
		case m.State == Running:
			m.DueAt = w.r.next(m, agent, now)
		default:
			m.DueAt = new(now.Add(lookAgain))
		}
		return nil
	})
}

// evict cancels what runs on a machine that is stopping.
func (w machineStep) evict(ctx context.Context) error {
	why := fmt.Sprintf("The %s %s was stopped while this ran. %s", w.machine.Kind.Noun(), w.machine.Name, w.machine.Message)
	return w.r.Work.Evict(ctx, w.scope, w.machine, why)
}

// clean removes the remains of a failed machine and fails the tasks that wait for it, before it can
// start again.
func (w machineStep) clean(ctx context.Context) error {
	if err := w.provider.Release(ctx, w.ref()); err != nil {
		return w.later(ctx, err)
	}
	notified := w.r.Work.Failed(ctx, w.scope, w.machine)
	return errors.Join(notified, w.released(ctx))
}

// release removes everything that remains of the machine.
func (w machineStep) release(ctx context.Context) error {
	if err := w.provider.Release(ctx, w.ref()); err != nil {
		return w.later(ctx, err)
	}
	return w.released(ctx)
}

// released records that nothing remains of the machine. Its attempts end, even without a report
// from the agent.
func (w machineStep) released(ctx context.Context) error {
	applied, err := w.applied(ctx, func(tx Tx, m *Machine, agent Agent) error {
		m.DueAt = new(w.r.Clock.Now())
		return disconnect(ctx, tx, agent)
	})
	if err != nil || !applied {
		return err
	}
	why := fmt.Sprintf("The %s %s was ended while this ran. %s", w.machine.Kind.Noun(), w.machine.Name, w.machine.Message)
	if err := w.r.Work.End(ctx, w.scope, w.machine, why); err != nil {
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
	return w.r.Work.Held(ctx, w.scope, w.machine)
}
