package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millpond/millpond/agent"
)

// reportStatus reports the status of attempts to the control plane. It runs in several goroutines,
// but never in two for one attempt.
func (s *session) reportStatus(ctx context.Context) error {
	for pause := (backoff{}); ; {
		a := s.w.reports.take(ctx)
		if a == nil {
			return ctx.Err()
		}
		err := s.report(ctx, a)
		if err == nil {
			pause.reset()
			continue
		}
		if ctx.Err() != nil || isFinal(err) {
			s.w.reports.add(a)
			return err
		}
		s.w.log.Warn("reporting a status failed; it is retried", "attempt", a.id, "error", err)
		waited := pause.wait(ctx)
		s.w.reports.add(a)
		if !waited {
			return ctx.Err()
		}
	}
}

func (s *session) report(ctx context.Context, a *attempt) error {
	version, ok := a.due()
	if !ok {
		return nil
	}
	status := a.status()
	err := s.callJSON(ctx, http.MethodPut, fmt.Sprintf(agent.StatusPath, a.id), status, nil)
	more := a.reportDone(version, err == nil)
	if unwanted(err) {
		s.w.forget(a)
		return nil
	}
	if err != nil {
		return err
	}
	if status.State == agent.Exited {
		s.w.remove(a)
		return nil
	}
	if more {
		s.w.reports.add(a)
	}
	return nil
}

// unwanted reports whether the control plane no longer wants an attempt.
func unwanted(err error) bool {
	var r *refusedError
	return errors.As(err, &r) && (r.status == http.StatusNotFound || r.status == http.StatusGone)
}
