package domain

import (
	"context"
	"sync"
	"time"
)

// LogWant asks for what an attempt's log has from Offset on.
type LogWant struct {
	Attempt AttemptID
	Offset  int64
}

// LogNews answers a LogWant.
type LogNews struct {
	Chunks []LogChunk // in order; the first one may begin before the offset
	More   bool       // there may be others after them
	Over   bool       // the attempt is over, or there is none
}

// desk gathers what the tails of a replica want to read, so that one read serves all that ask while another is under way: with hundreds of logs growing at
// once, a transaction for each of them would cost more than everything else. Whoever asks first reads; when it has its answer, the
// next one in line reads for all that have come meanwhile.
type desk struct {
	mu    sync.Mutex
	lines map[WorkspaceID]*line
}

// line is what is asked in one workspace. Somebody reads as long as there is a line.
type line struct{ waiting []*question }

type question struct {
	want   LogWant
	lead   chan struct{} // holds a token when it is this one's turn to read
	done   chan struct{} // closed with the answer
	answer LogNews
	err    error
}

// Bounds of one read.
const (
	newsQuestions = 1000
	newsBytes     = 4 << 20 // of all logs together, about
	newsTime      = 10 * time.Second
)

// ask returns what read answers, for this question and those that came with it.
func (d *desk) ask(ws WorkspaceID, want LogWant, read func([]LogWant) (map[AttemptID]LogNews, error)) (LogNews, error) {
	q := &question{want: want, lead: make(chan struct{}, 1), done: make(chan struct{})}
	d.enter(ws, q)
	select {
	case <-q.done:
	case <-q.lead:
		answer(d.take(ws), read)
		d.leave(ws)
	}
	return q.answer, q.err
}

// enter stands in line; the first one leads.
func (d *desk) enter(ws WorkspaceID, q *question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[ws]
	if l == nil {
		if d.lines == nil {
			d.lines = map[WorkspaceID]*line{}
		}
		l = &line{}
		d.lines[ws] = l
		q.lead <- struct{}{}
	}
	l.waiting = append(l.waiting, q)
}

// take returns the questions in line, of which the leader's is the first.
func (d *desk) take(ws WorkspaceID) []*question {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lines[ws]
	n := min(len(l.waiting), newsQuestions)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// leave lets the next one lead.
func (d *desk) leave(ws WorkspaceID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lines[ws]; len(l.waiting) > 0 {
		l.waiting[0].lead <- struct{}{}
		return
	}
	delete(d.lines, ws)
}

// answer reads for all questions. An attempt that is asked for twice has one answer, from the lower offset.
func answer(batch []*question, read func([]LogWant) (map[AttemptID]LogNews, error)) {
	at := map[AttemptID]int{}
	var wants []LogWant
	for _, q := range batch {
		i, known := at[q.want.Attempt]
		if !known {
			at[q.want.Attempt] = len(wants)
			wants = append(wants, q.want)
			continue
		}
		wants[i].Offset = min(wants[i].Offset, q.want.Offset)
	}
	news, err := read(wants)
	for _, q := range batch {
		found := false
		if q.answer, found = news[q.want.Attempt]; !found {
			q.answer = LogNews{Over: true}
		}
		q.err = err
		close(q.done)
	}
}

// news reads what an attempt's log has from offset on, together with whatever else is wanted in the workspace.
func (l *Logs) news(ctx context.Context, s Scope, id AttemptID, offset int64) (LogNews, error) {
	return l.desk.ask(s.workspace, LogWant{Attempt: id, Offset: offset}, func(wants []LogWant) (news map[AttemptID]LogNews, err error) {
		// The end of one that asks must not fail the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), newsTime)
		defer cancel()
		err = l.Store.In(ctx, s, func(tx Tx) error {
			news, err = tx.LogNews(ctx, wants, min(MaxLogPage, newsBytes/len(wants)))
			return err
		})
		return news, err
	})
}
