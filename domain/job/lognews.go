package job

import (
	"context"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// LogWant requests an attempt's log from Offset on.
type LogWant struct {
	Attempt domain.AttemptID
	Offset  int64
}

// LogNews answers a LogWant.
type LogNews struct {
	Chunks []LogChunk // in order; the first one may begin before the offset
	More   bool       // more chunks may follow
	Over   bool       // the attempt has ended or does not exist
}

// newsBatcher combines the log reads of a replica's tails: while one read runs, the next ones
// gather in a queue. With hundreds of growing logs, a transaction for each would cost more than
// everything else. The first request in the queue performs the read for all of them, then hands
// over to the next.
type newsBatcher struct {
	mu     sync.Mutex
	queues map[domain.WorkspaceID]*newsQueue
}

// newsQueue holds the requests of one workspace. It exists as long as one of them performs a read.
type newsQueue struct{ waiting []*newsRequest }

type newsRequest struct {
	want   LogWant
	lead   chan struct{} // receives when this request must perform the read
	done   chan struct{} // closed once answer is set
	answer LogNews
	err    error
}

// Bounds of one read.
const (
	newsRequests = 1000
	newsBytes    = 4 << 20 // of all logs together, approximately
	newsTime     = 10 * time.Second
)

// ask returns read's answer to want. One call of read serves all requests that gathered meanwhile.
func (b *newsBatcher) ask(ws domain.WorkspaceID, want LogWant, read func([]LogWant) (map[domain.AttemptID]LogNews, error)) (LogNews, error) {
	q := &newsRequest{want: want, lead: make(chan struct{}, 1), done: make(chan struct{})}
	b.enqueue(ws, q)
	select {
	case <-q.done:
	case <-q.lead:
		answer(b.dequeue(ws), read)
		b.handOver(ws)
	}
	return q.answer, q.err
}

// enqueue adds the request; the first one in an empty queue performs the read.
func (b *newsBatcher) enqueue(ws domain.WorkspaceID, q *newsRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.queues[ws]
	if l == nil {
		if b.queues == nil {
			b.queues = map[domain.WorkspaceID]*newsQueue{}
		}
		l = &newsQueue{}
		b.queues[ws] = l
		q.lead <- struct{}{}
	}
	l.waiting = append(l.waiting, q)
}

// dequeue returns the next batch of requests, beginning with the caller's.
func (b *newsBatcher) dequeue(ws domain.WorkspaceID) []*newsRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.queues[ws]
	n := min(len(l.waiting), newsRequests)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// handOver lets the next request perform a read.
func (b *newsBatcher) handOver(ws domain.WorkspaceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.queues[ws]; len(l.waiting) > 0 {
		l.waiting[0].lead <- struct{}{}
		return
	}
	delete(b.queues, ws)
}

// answer performs one read for all requests. Requests for the same attempt share one answer, from
// the lowest offset.
func answer(batch []*newsRequest, read func([]LogWant) (map[domain.AttemptID]LogNews, error)) {
	at := map[domain.AttemptID]int{}
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

// news reads an attempt's log from offset on, batched with the workspace's other reads.
func (l *Logs) news(ctx context.Context, s domain.Scope, id domain.AttemptID, offset int64) (LogNews, error) {
	return l.batcher.ask(s.Workspace(), LogWant{Attempt: id, Offset: offset}, func(wants []LogWant) (news map[domain.AttemptID]LogNews, err error) {
		// The end of one caller must not fail the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), newsTime)
		defer cancel()
		err = l.Store.In(ctx, s, func(tx Tx) error {
			news, err = tx.LogNews(ctx, wants, min(MaxLogPage, newsBytes/len(wants)))
			return err
		})
		return news, err
	})
}
