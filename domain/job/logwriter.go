package job

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/millpond/millpond/domain"
)

// LogWriter stores the logs from one connection of an agent. It knows each log's end, so it accepts
// or refuses chunks without a read. The session fences it: a replaced connection stores nothing.
type LogWriter struct {
	logs    *Logs
	scope   domain.Scope
	session string

	mu      sync.Mutex // one batch at a time: offsets are dense
	ends    map[domain.AttemptID]LogEnd
	unknown map[domain.AttemptID]bool // an earlier batch of these attempts may or may not be stored
}

// Writer returns a writer for the connection of the scope's agent.
func (l *Logs) Writer(s domain.Scope, session string) *LogWriter {
	return &LogWriter{logs: l, scope: s, session: session, ends: map[domain.AttemptID]LogEnd{}, unknown: map[domain.AttemptID]bool{}}
}

// LogReceipt answers a batch: the next offset of each attempt's log, and the attempts whose logs
// are refused.
type LogReceipt struct {
	Next   map[domain.AttemptID]int64
	Forget []domain.AttemptID
}

// Append stores the chunks that continue their attempts' logs, in one transaction. It skips chunks
// that leave a gap, and bytes that are already stored; the receipt names the next offset. Cost: one
// fence, one insert for all chunks, and one read for each attempt's first appearance on the
// connection.
func (w *LogWriter) Append(ctx context.Context, chunks []LogAppend) (LogReceipt, error) {
	if err := domain.Authorize(ctx, w.logs.Store, w.scope, domain.AgentConnect); err != nil {
		return LogReceipt{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var fitted []LogAppend
	ends := map[domain.AttemptID]LogEnd{}
	err := w.logs.Store.In(ctx, w.scope, func(tx Tx) error {
		current, live, err := tx.FenceSession(ctx, domain.AgentID(w.scope.Actor().ID), w.session)
		if err != nil {
			return err
		}
		if !current {
			return ErrSuperseded
		}
		if err := w.learn(ctx, tx, live, chunks); err != nil {
			return err
		}
		fitted, ends = w.Fit(chunks)
		if len(fitted) == 0 {
			return nil
		}
		return tx.InsertLog(ctx, fitted)
	})
	if err != nil {
		clear(w.ends) // the commit may have happened: read the ends again
		for _, c := range fitted {
			w.unknown[c.Attempt] = true
		}
		return LogReceipt{}, err
	}
	w.publish(fitted)
	w.invalidateUnknown(chunks)
	return w.receipt(chunks, ends), nil
}

// learn reads the ends of logs of live attempts that are new on this connection. Attempts that have
// ended, or belong to another agent, stay unknown.
func (w *LogWriter) learn(ctx context.Context, tx Tx, live []domain.AttemptID, chunks []LogAppend) error {
	maps.DeleteFunc(w.ends, func(id domain.AttemptID, _ LogEnd) bool { return !slices.Contains(live, id) })
	var fresh []domain.AttemptID
	for _, c := range chunks {
		if _, known := w.ends[c.Attempt]; !known && slices.Contains(live, c.Attempt) && !slices.Contains(fresh, c.Attempt) {
			fresh = append(fresh, c.Attempt)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	ends, err := tx.LogEnds(ctx, fresh)
	maps.Copy(w.ends, ends)
	return err
}

// Fit returns the chunks that continue their logs, with line numbers, and the resulting ends.
func (w *LogWriter) Fit(chunks []LogAppend) ([]LogAppend, map[domain.AttemptID]LogEnd) {
	ends := map[domain.AttemptID]LogEnd{}
	var fitted []LogAppend
	for _, c := range chunks {
		end, moved := ends[c.Attempt]
		if !moved {
			known := false
			if end, known = w.ends[c.Attempt]; !known {
				continue
			}
		}
		if c.Offset > end.Offset || c.End() <= end.Offset {
			ends[c.Attempt] = end
			continue
		}
		c.LogChunk = c.from(end.Offset)
		c.FirstLine = end.Line
		ends[c.Attempt] = LogEnd{Offset: c.End(), Line: c.NextLine()}
		fitted = append(fitted, c)
	}
	return fitted, ends
}

// publish passes the committed chunks to followers here, and wakes followers on other replicas.
func (w *LogWriter) publish(fitted []LogAppend) {
	for i := 0; i < len(fitted); {
		id := fitted[i].Attempt
		var run []LogChunk
		for ; i < len(fitted) && fitted[i].Attempt == id; i++ {
			run = append(run, fitted[i].LogChunk)
		}
		w.logs.publish(id, run)
		w.logs.Topics.WakeOthers(domain.LogTopic(id))
	}
}

// invalidateUnknown makes followers read what an earlier batch may have stored without publishing
// it.
func (w *LogWriter) invalidateUnknown(chunks []LogAppend) {
	for _, c := range chunks {
		if w.unknown[c.Attempt] {
			delete(w.unknown, c.Attempt)
			w.logs.invalidate(c.Attempt)
		}
	}
}

func (w *LogWriter) receipt(chunks []LogAppend, ends map[domain.AttemptID]LogEnd) LogReceipt {
	r := LogReceipt{Next: map[domain.AttemptID]int64{}}
	refused := map[domain.AttemptID]bool{}
	for id, end := range ends {
		w.ends[id] = end
		r.Next[id] = end.Offset
	}
	for _, c := range chunks {
		if _, known := w.ends[c.Attempt]; !known && !refused[c.Attempt] {
			refused[c.Attempt] = true
			r.Forget = append(r.Forget, c.Attempt)
		}
	}
	return r
}
