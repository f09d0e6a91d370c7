package job

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// StartSample adds the workspace's sample job and starts its first run, if the workspace still
// waits for its sample.
func (r *Runs) StartSample(ctx context.Context, s domain.Scope, job Job) error {
	if err := domain.Authorize(ctx, r.Store, s, domain.JobCreate); err != nil {
		return err
	}
	if err := job.validate(); err != nil {
		return err
	}
	var run *Run
	err := r.Store.In(ctx, s, func(tx Tx) error {
		run = nil // left by a try that lost a deadlock
		due, err := tx.TakeSample(ctx)
		if err != nil || !due {
			return err
		}
		if err := insertJob(ctx, tx, job); err != nil {
			return err
		}
		run, err = r.start(ctx, tx, s, job, nil, TriggerSample)
		return err
	})
	if err == nil && run != nil {
		r.deliver(s, run)
	}
	return err
}

// RemoveSamples removes the workspace's sample jobs and returns their number. If there is one, and
// none is running, it calls removeRest before, so that a failure can be retried. Without a sample
// job, what has the sample's names belongs to a user.
func (j *Jobs) RemoveSamples(ctx context.Context, s domain.Scope, removeRest func() error) (removed int, err error) {
	if err := domain.Authorize(ctx, j.Store, s, domain.SampleRemove); err != nil {
		return 0, err
	}
	ids, err := j.idleSamples(ctx, s)
	if err != nil {
		return 0, err
	}
	if len(ids) > 0 {
		if err := removeRest(); err != nil {
			return 0, err
		}
	}
	err = j.Store.In(ctx, s, func(tx Tx) error {
		ids, err := tx.SampleJobs(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := deleteJob(ctx, tx, id); err != nil {
				return err
			}
		}
		removed = len(ids)
		return domain.Audited(ctx, tx, s, domain.SampleRemove, "workspace", s.Workspace())
	})
	return removed, err
}

// idleSamples returns the sample jobs. It returns CodeConflict while one is pending or running.
func (j *Jobs) idleSamples(ctx context.Context, s domain.Scope) (ids []domain.JobID, err error) {
	err = j.Store.In(ctx, s, func(tx Tx) error {
		if ids, err = tx.SampleJobs(ctx); err != nil {
			return err
		}
		for _, id := range ids {
			if err := lockIdle(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return ids, err
}
