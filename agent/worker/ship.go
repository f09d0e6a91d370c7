package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// batch is the log chunks of one request.
type batch struct {
	body  []byte
	cost  int
	parts map[*attempt]part
}

// part is a batch's range of one attempt's log.
type part struct {
	from, to int64
	hint     int64 // the mark of its last chunk
}

// shipLogs sends the logs of all attempts, one batch at a time. While a batch is sent, the next
// bytes gather: batches grow with the load, and a single line is sent at once.
func (s *session) shipLogs(ctx context.Context) error {
	scratch := make([]byte, agent.MaxBatchBytes)
	for pause := (backoff{}); ; {
		first := s.w.ship.take(ctx)
		if first == nil {
			return ctx.Err()
		}
		b := s.w.gather(first, scratch)
		moved, err := s.send(ctx, b)
		if err != nil {
			for a := range b.parts {
				s.w.ship.add(a)
			}
			if ctx.Err() != nil || isFinal(err) {
				return err
			}
			s.w.log.Warn("sending logs failed; it is retried", "error", err)
		}
		if moved || len(b.parts) == 0 {
			pause.reset()
			continue
		}
		if !pause.wait(ctx) {
			return ctx.Err()
		}
	}
}

// gather fills a batch from the attempts with unsent log. Each attempt gets an equal share.
func (w *worker) gather(first *attempt, scratch []byte) batch {
	b := batch{parts: map[*attempt]part{}}
	waiting := w.ship.len() + 1
	share := max(agent.MaxBatchBytes/waiting, agent.MaxChunkBytes)
	for a := first; a != nil; a = w.ship.poll() {
		if err := w.gatherFrom(a, &b, scratch[:share]); err != nil {
			w.log.Error("the log of an attempt cannot be read; it is retried", "attempt", a.id, "error", err)
			time.AfterFunc(time.Second, func() { w.ship.add(a) })
		}
		if waiting--; waiting == 0 || b.cost >= agent.MaxBatchBytes-agent.MaxChunkBytes {
			break
		}
	}
	return b
}

// gatherFrom appends chunks of one attempt to the batch.
func (w *worker) gatherFrom(a *attempt, b *batch, scratch []byte) error {
	c, err := a.cutter(scratch)
	if err != nil {
		return err
	}
	if c == nil {
		w.askMore(a, a.acked)
		return nil
	}
	start := c.at
	for b.cost < agent.MaxBatchBytes {
		chunk, ok, tail, err := c.next()
		if err != nil {
			return err
		}
		if !ok {
			if tail {
				w.awaitTail(a, c.at)
			}
			break
		}
		b.body = agent.AppendChunk(b.body, chunk)
		b.cost += len(chunk.Data) + chunkCost
	}
	if c.at == start {
		w.askMore(a, c.end)
		return nil
	}
	b.parts[a] = part{from: start, to: c.at, hint: c.marks.hint}
	return nil
}

// askMore queues an attempt again when its log grows beyond end.
func (w *worker) askMore(a *attempt, end int64) {
	a.mu.Lock()
	asked := a.forgotten || a.log == nil || a.ask(end)
	a.mu.Unlock()
	if !asked {
		w.ship.add(a)
	}
}

// cutter reads the log after the acknowledged bytes. It returns nil if there is nothing to read or
// the log is not wanted.
func (a *attempt) cutter(scratch []byte) (*cutter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forgotten || a.log == nil {
		return nil, nil
	}
	end := a.logEnd() // read before the marks, so every byte up to here has its mark
	if end <= a.acked {
		return nil, nil
	}
	n := min(int64(len(scratch)), end-a.acked)
	if lost := min(a.punched, end) - a.acked; lost > 0 {
		return a.lostCutter(lost, scratch), nil
	}
	read, err := a.log.ReadAt(scratch[:n], a.acked)
	if err != nil && err != io.EOF {
		return nil, err
	}
	late := a.tailAt == a.acked && !a.tailSince.IsZero() && time.Since(a.tailSince) >= tailWait
	return &cutter{
		id: a.id, data: scratch[:read], at: a.acked, end: end, first: true, whole: a.final != nil || late,
		now: time.Now().UnixNano(), marks: markReader{file: a.marks, hint: a.hint},
	}, nil
}

// lostCutter replaces bytes that were acknowledged and freed, but are requested again because the
// control plane lost them. It fills their range with a line that says so.
func (a *attempt) lostCutter(lost int64, scratch []byte) *cutter {
	n := min(int64(len(scratch)), lost)
	line := fmt.Sprintf("[millpond] %d bytes of log are missing here", lost)
	data := append([]byte(line), bytes.Repeat([]byte(" "), int(max(n-int64(len(line)), 0)))...)[:n]
	data[n-1] = '\n'
	return &cutter{
		id: a.id, data: data, at: a.acked, end: a.acked + n, first: true, whole: true,
		marks: markReader{file: bytes.NewReader(shim.Mark{Offset: a.acked, Stream: agent.Stderr, Time: time.Now().UnixNano()}.Encode())},
	}
}

// awaitTail queues an attempt again after tailWait, in case the rest of a rune does not arrive.
func (w *worker) awaitTail(a *attempt, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tailAt == at && !a.tailSince.IsZero() {
		return
	}
	a.tailAt, a.tailSince = at, time.Now()
	time.AfterFunc(tailWait, func() { w.ship.add(a) })
}

// send posts a batch and applies the answer. It reports whether any log advanced.
func (s *session) send(ctx context.Context, b batch) (moved bool, err error) {
	if len(b.parts) == 0 {
		return false, nil
	}
	var reply agent.LogReply
	if err := s.call(ctx, http.MethodPost, agent.LogsPath, b.body, &reply); err != nil {
		return false, err
	}
	for _, id := range reply.Forget {
		if a := s.w.find(id); a != nil {
			s.w.forget(a)
			moved = true
		}
	}
	for a, p := range b.parts {
		next, ok := reply.Next[a.id]
		if !ok {
			s.w.ship.add(a)
			continue
		}
		moved = moved || next != p.from
		if next == p.to {
			a.setHint(p.hint)
		}
		s.w.logged(a, next)
	}
	return moved, nil
}

// logged records how many bytes of a log the control plane has, and queues the next work.
func (w *worker) logged(a *attempt, next int64) {
	a.setAcked(next)
	a.mu.Lock()
	more := a.logEnd() > a.acked || !a.ask(a.acked)
	ended := a.final != nil && a.acked >= a.final.LogEnd
	a.mu.Unlock()
	if more {
		w.ship.add(a)
	}
	if ended {
		w.reports.add(a)
	}
}

// call makes one request to the control plane.
func (s *session) call(ctx context.Context, method, path string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout+time.Duration(len(body))*time.Second/slowest)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://control"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if path == agent.LogsPath {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	res, err := s.tunnel.Client().Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return refused(method, path, res)
	}
	if answer == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

const (
	callTimeout = time.Minute
	slowest     = 4 << 10 // bytes a second of the slowest supported link
)
