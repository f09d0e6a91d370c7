package worker

import (
	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// busy records that something has run until now.
func (w *worker) busy() { w.busyAt.Store(shim.BootNow()) }

// idle is how long nothing has run; 0 while an attempt has not exited or a statement runs. It
// includes the machine's sleep. Its clock cannot be set.
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
	return agent.Duration(shim.BootNow() - w.busyAt.Load()) // read last: the end of an attempt stores it first
}
