package worker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
)

// sendMetrics sends metrics until the session ends or the control plane refuses them. It does not
// resend failed metrics, because the next ones replace them.
func (s *session) sendMetrics(ctx context.Context) error {
	m := newMeter(s.w.options, s.w.gpus)
	m.begin(s.w.taskProcesses())
	tick := time.NewTicker(s.w.options.metricsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		err := s.sendMetricsOnce(ctx, m)
		if refusal, ok := errors.AsType[*refusedError](err); ok && refusal.status == http.StatusNotFound {
			s.w.log.Info("the control plane does not accept metrics from this agent")
			return nil
		}
		if err != nil && ctx.Err() == nil {
			s.w.log.Debug("metrics were not sent", "error", err)
		}
	}
}

func (s *session) sendMetricsOnce(ctx context.Context, m *meter) error {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	metrics, err := m.measure(ctx, s.w.taskProcesses())
	if err != nil {
		return err
	}
	return s.callJSON(ctx, http.MethodPost, agent.MetricsPath, metrics, nil)
}

const metricsTimeout = 2 * agent.MetricsEvery

// taskProcesses are the first processes of the running attempts.
func (w *worker) taskProcesses() []int {
	var pids []int
	for _, a := range w.held() {
		a.mu.Lock()
		if a.final == nil && a.proc.Pid > 0 {
			pids = append(pids, a.proc.Pid)
		}
		a.mu.Unlock()
	}
	return pids
}
