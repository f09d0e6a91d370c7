package trino

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// workers are the nodes of a cluster except its coordinator.
type workers struct {
	server      *Server
	coordinator layout
	storage     Storage
	of          int // number of nodes that share the memory
	number      int // of the worker started last

	all     []*worker
	changed chan struct{} // signals that a worker is ready or has ended
	pause   time.Duration // before the next replacement
	next    time.Time     // earliest time of the next replacement
}

// worker is a node other than the coordinator.
type worker struct {
	*node
	began   time.Time
	ready   bool // valid once its started channel is closed
	leaving bool
	started chan struct{}
}

func (w *workers) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// adjust removes ended workers. It starts missing ones and drains surplus ones.
func (w *workers) adjust(nodes int) {
	kept := w.all[:0]
	staying := 0
	for _, one := range w.all {
		if !one.Alive() {
			if !one.leaving {
				w.lost(one)
			}
			_ = os.RemoveAll(one.dir) // removes its spill files
			continue
		}
		if !one.leaving {
			staying++
		}
		kept = append(kept, one)
	}
	w.all = kept
	for ; staying < nodes-1 && !time.Now().Before(w.next); staying++ {
		if err := w.start(); err != nil {
			w.server.o.Log.Error("a worker of Trino cannot be started", "error", err)
			return // the next check retries
		}
	}
	for i := len(w.all) - 1; i >= 0 && staying > nodes-1; i-- {
		if one := w.all[i]; !one.leaving {
			one.leaving = true
			staying--
			w.server.work.Go(func() { w.leave(one) })
		}
	}
}

// lost handles an unexpected end of a worker. Replacements wait longer if workers end soon after
// their start.
func (w *workers) lost(one *worker) {
	if time.Since(one.began) > steadyRun {
		w.pause = 0
	}
	w.server.o.Log.Warn("a worker of Trino has ended and is replaced", "worker", one.id, "why", one.obituary(), "pause", w.pause)
	w.next = time.Now().Add(w.pause)
	w.pause = min(max(2*w.pause, minPause), maxPause)
}

func (w *workers) start() error {
	w.number++
	l, err := w.server.layout(fmt.Sprintf("worker-%d", w.number), w.of)
	if err != nil {
		return err
	}
	l.coordinator = w.coordinator.port
	n, err := startNode(w.server.o, l, w.storage)
	if err != nil {
		return err
	}
	one := &worker{node: n, began: time.Now(), started: make(chan struct{})}
	w.all = append(w.all, one)
	w.server.work.Go(func() {
		one.ready = w.server.ready(n) == nil && w.joined(n)
		close(one.started)
		w.wake()
		<-n.Gone()
		w.wake()
	})
	return nil
}

// joined waits until the coordinator assigns work to a node.
func (w *workers) joined(n *node) bool {
	ctx, cancel := context.WithTimeout(w.server.ctx, startTime)
	defer cancel()
	own := &Session{server: w.server, caller: w.server.caller(platformUser), address: w.coordinator.url()}
	return n.await(ctx, func(ctx context.Context) (known bool, err error) {
		active := Statement{ID: platformUser, Query: "SELECT node_id FROM system.runtime.nodes WHERE state = 'active' AND node_id = " + sqltext.Literal(n.id)}
		_, err = own.Query(ctx, active, func(_ []Column, rows []json.RawMessage) error {
			known = known || len(rows) > 0
			return nil
		})
		return known, err
	}) == nil
}

// leaveTime is how long a leaving worker may continue its work.
const leaveTime = 24 * time.Hour

// leave drains a worker: it ends after its running work.
func (w *workers) leave(one *worker) {
	ctx, cancel := context.WithTimeout(w.server.ctx, checkTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, one.url()+"/v1/info/state", strings.NewReader(`"SHUTTING_DOWN"`))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		err = w.server.caller(platformUser).do(r, nil)
	}
	if err != nil {
		w.server.o.Log.Warn("a leaving worker of Trino does not respond and is stopped", "worker", one.id, "error", err)
		one.end()
		return
	}
	select {
	case <-one.Gone():
	case <-w.server.ctx.Done():
	case <-time.After(leaveTime):
		one.end()
	}
}

// active returns the number of workers that accept work.
func (w *workers) active() (n int) {
	for _, one := range w.all {
		select {
		case <-one.started:
			if one.ready && !one.leaving && one.Alive() {
				n++
			}
		default:
		}
	}
	return n
}

// doing returns a message about changes of the workers, or "".
func (w *workers) doing(nodes int) string {
	leaving := 0
	for _, one := range w.all {
		if one.leaving {
			leaving++
		}
	}
	switch missing := min(nodes, w.of) - 1 - w.active(); {
	case nodes > w.of:
		return fmt.Sprintf("%d more nodes start when no statement runs here.", nodes-w.of)
	case missing > 0:
		return fmt.Sprintf("%d of %d nodes are starting.", missing, nodes)
	case leaving > 0:
		return fmt.Sprintf("%d nodes stop when their work has ended.", leaving)
	}
	return ""
}

// end ends all workers.
func (w *workers) end() {
	for _, one := range w.all {
		one.Kill()
	}
	for _, one := range w.all {
		one.end()
	}
}
