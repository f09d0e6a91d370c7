package trino

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// workers are the nodes of a cluster beside its coordinator.
type workers struct {
	server      *Server
	coordinator layout
	of          int // nodes among which the memory is divided
	number      int // of the one that was started last

	all     []*worker
	changed chan struct{} // wakes when one is ready or gone
	pause   time.Duration // before another takes the place of one that ended
	next    time.Time     // when another may
}

// worker is one of them.
type worker struct {
	*node
	began   time.Time
	ready   bool // valid once its started channel is closed
	leaving bool
	started chan struct{}
}

func (w *workers) news() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{}, 1)
	}
	return w.changed
}

func (w *workers) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// adjust clears those that are gone, and starts or sends away as many as there are too few or too many.
func (w *workers) adjust(nodes int) {
	w.news()
	kept := w.all[:0]
	staying := 0
	for _, one := range w.all {
		if !one.alive() {
			if !one.leaving {
				w.lost(one)
			}
			_ = os.RemoveAll(one.dir) // else what it has spilled stays
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
			return // the next look tries again
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

// lost says that a worker has ended, and has the one in its place wait the longer, the more of them end soon.
func (w *workers) lost(one *worker) {
	if time.Since(one.began) > steadyRun {
		w.pause = 0
	}
	w.server.o.Log.Warn("a worker of Trino has ended; another takes its place", "worker", one.id, "why", one.obituary(), "pause", w.pause)
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
	n, err := startNode(w.server.o, l)
	if err != nil {
		return err
	}
	one := &worker{node: n, began: time.Now(), started: make(chan struct{})}
	w.all = append(w.all, one)
	w.server.work.Go(func() {
		one.ready = w.server.ready(n) == nil && w.joined(n)
		close(one.started)
		w.wake()
		<-n.gone
		w.wake()
	})
	return nil
}

// joined waits until the coordinator gives a node work.
func (w *workers) joined(n *node) bool {
	ctx, cancel := context.WithTimeout(w.server.ctx, startTime)
	defer cancel()
	own := &Session{server: w.server, caller: w.server.caller(platformUser), address: w.coordinator.url()}
	return n.await(ctx, func(ctx context.Context) (known bool, err error) {
		active := Statement{ID: platformUser, Query: "SELECT node_id FROM system.runtime.nodes WHERE state = 'active' AND node_id = " + literal(n.id)}
		_, err = own.Query(ctx, active, func(_ []Column, rows []json.RawMessage) error {
			known = known || len(rows) > 0
			return nil
		})
		return known, err
	}) == nil
}

// leaveTime is how long a worker that leaves may go on with what it runs.
const leaveTime = 24 * time.Hour

// leave has a worker end when what it runs has ended.
func (w *workers) leave(one *worker) {
	ctx, cancel := context.WithTimeout(w.server.ctx, checkTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, one.url()+"/v1/info/state", strings.NewReader(`"SHUTTING_DOWN"`))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		err = w.server.caller(platformUser).do(r, nil)
	}
	if err != nil {
		w.server.o.Log.Warn("a worker of Trino that is to leave does not answer, and is ended", "worker", one.id, "error", err)
		one.end()
		return
	}
	select {
	case <-one.gone:
	case <-w.server.ctx.Done():
	case <-time.After(leaveTime):
		one.end()
	}
}

// taking are the workers that take part.
func (w *workers) taking() (n int) {
	for _, one := range w.all {
		select {
		case <-one.started:
			if one.ready && !one.leaving && one.alive() {
				n++
			}
		default:
		}
	}
	return n
}

// doing says what goes on with the workers; empty where nothing does.
func (w *workers) doing(nodes int) string {
	leaving := 0
	for _, one := range w.all {
		if one.leaving {
			leaving++
		}
	}
	switch missing := min(nodes, w.of) - 1 - w.taking(); {
	case nodes > w.of:
		return fmt.Sprintf("%d more nodes come when nothing runs here any more.", nodes-w.of)
	case missing > 0:
		return fmt.Sprintf("%d of %d nodes are being started.", missing, nodes)
	case leaving > 0:
		return fmt.Sprintf("%d nodes leave when what they run has ended.", leaving)
	}
	return ""
}

// end ends all of them.
func (w *workers) end() {
	for _, one := range w.all {
		one.kill()
	}
	for _, one := range w.all {
		one.end()
	}
}
