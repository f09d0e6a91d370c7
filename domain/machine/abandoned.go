package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millpond/millpond/domain"
)

// Abandoned fails starts and stops that no server handles: no server has the provider any more, or
// the machine's host is down.
func (r *Reconciler) Abandoned(ctx context.Context) error {
	now := r.Clock.Now()
	refs, err := r.System.OverdueMachines(ctx, now.Add(-r.Times.Start-claimTime), now.Add(-r.Times.Stop-claimTime))
	for _, ref := range refs {
		err = errors.Join(err, r.abandon(ctx, domain.SystemScope(ref.Workspace, "machines"), ref.Machine, now))
	}
	return err
}

func (r *Reconciler) abandon(ctx context.Context, s domain.Scope, id domain.MachineID, now time.Time) error {
	var failed Machine
	err := changeMachine(ctx, r.Store, s, id, func(_ Tx, m *Machine, _ Agent) error {
		if m.State != Starting && m.State != Stopping {
			return nil
		}
		if err := m.Apply(EventLate, fmt.Sprintf("No server with the provider %s handled it.", m.Provider), now); err != nil {
			return err
		}
		failed = *m
		if m.Host != "" || m.Made {
			return nil // parts of it may remain on its host
		}
		return m.Apply(EventReleased, "", now)
	})
	if err != nil || failed.ID == "" {
		return err
	}
	return r.Work.Failed(ctx, s, failed)
}

// Sweep removes what providers hold of machines that no longer exist. Whatever a provider lists
// before the rows are read either has a row or never gets one.
func (r *Reconciler) Sweep(ctx context.Context) error {
	var failed []error
	for _, p := range r.Providers {
		refs, err := p.Machines(ctx)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, r.removeUnknown(ctx, p, refs))
	}
	return errors.Join(failed...)
}

func (r *Reconciler) removeUnknown(ctx context.Context, p Provider, refs []Ref) error {
	ids := make([]domain.MachineID, len(refs))
	for i, ref := range refs {
		ids[i] = ref.Machine
	}
	known, err := r.System.KnownMachines(ctx, ids)
	if err != nil {
		return err
	}
	exists := map[domain.MachineID]bool{}
	for _, id := range known {
		exists[id] = true
	}
	var failed []error
	for _, ref := range refs {
		if !exists[ref.Machine] {
			failed = append(failed, p.Remove(ctx, ref))
		}
	}
	return errors.Join(failed...)
}
