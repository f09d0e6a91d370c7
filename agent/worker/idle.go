package worker

import "github.com/millpond/millpond/agent"

// busy notes that something has run here until now.
func (w *worker) busy() { w.busyAt.Store(bootNow()) }

// idle is for how long nothing has run here; 0 while an attempt is held that has not exited, or a statement runs. The machine's sleep counts, and nobody can set its clock.
func (w *worker) idle() agent.Duration {
	w.mu.Lock()
	starting := len(w.starting) > 0
	w.mu.Unlock()
	if starting || w.statements.Load() > 0 {
		return 0
	}
	for _, a := range w.held() {
		if !a.exited() {
			return 0
		}
	}
	return agent.Duration(bootNow() - w.busyAt.Load()) // read last: whoever ends an attempt stores it first
}
