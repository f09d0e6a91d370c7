package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// queue holds attempts with pending work, each at most once, in the order of their requests. Its
// length is bounded by the number of attempts.
type queue struct {
	mu     sync.Mutex
	list   []*attempt
	queued map[*attempt]bool
	wake   chan struct{} // holds a token while the list is not empty
}

func newQueue() *queue { return &queue{queued: map[*attempt]bool{}, wake: make(chan struct{}, 1)} }

func (q *queue) add(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.queued[a] {
		return
	}
	q.queued[a] = true
	q.list = append(q.list, a)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for the next attempt; nil when ctx has ended.
func (q *queue) take(ctx context.Context) *attempt {
	for {
		if a := q.poll(); a != nil {
			return a
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// poll returns the next attempt, or nil.
func (q *queue) poll() *attempt {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return nil
	}
	a := q.list[0]
	q.list[0] = nil
	q.list = q.list[1:]
	delete(q.queued, a)
	if len(q.list) > 0 {
		q.signal() // for another goroutine
	}
	return a
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// backoff waits longer after each consecutive failure, with full jitter so that agents do not
// reconnect all at once.
type backoff struct {
	failures int
	most     time.Duration // an upper bound less than lastDelay; 0 means lastDelay
}

const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 10 * time.Second
)

func (b *backoff) reset() { b.failures = 0 }

// wait waits. It reports false if ctx has ended.
func (b *backoff) wait(ctx context.Context) bool {
	most := min(firstDelay<<min(b.failures, 10), cmp.Or(b.most, lastDelay), lastDelay)
	b.failures++
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
