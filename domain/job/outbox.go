package job

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// Outbox sends messages to agents after the commit that caused them. Messages are hints: the
// agent's next heartbeat or hello replaces lost ones. Each agent has its own queue, so a silent
// agent does not delay others.
type Outbox struct {
	fleet  Fleet
	report func(error)

	mu      sync.Mutex
	life    context.Context // Run's context; nil before Run
	over    bool            // Run has ended
	queues  map[domain.AgentID]*outboxQueue
	working sync.WaitGroup
}

// outboxQueue holds the messages for one agent; guarded by Outbox.mu.
type outboxQueue struct {
	waiting []func(context.Context) error
	workers int
}

const (
	outboxSize    = 1024             // messages in one agent's queue
	outboxWorkers = 8                // concurrent sends to one agent
	delivered     = 10 * time.Second // timeout of one message, plus
	slowLink      = 64 << 10         // a second for each so many bytes of files
)

// NewOutbox returns an outbox; Run sends its messages. It reports undelivered messages for the log.
func NewOutbox(fleet Fleet, report func(error)) *Outbox {
	return &Outbox{fleet: fleet, report: report, queues: map[domain.AgentID]*outboxQueue{}}
}

// Run sends messages until ctx ends, and waits for those in progress.
func (o *Outbox) Run(ctx context.Context) {
	o.mu.Lock()
	o.life = ctx
	for agent, q := range o.queues {
		o.carry(agent, q)
	}
	o.mu.Unlock()
	<-ctx.Done()
	o.mu.Lock()
	o.over = true
	o.mu.Unlock()
	o.working.Wait()
}

func (o *Outbox) send(agent domain.AgentID, message func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[agent]
	if q == nil {
		q = &outboxQueue{}
		o.queues[agent] = q
	}
	if len(q.waiting) >= outboxSize {
		o.report(fmt.Errorf("agent %s: %d messages wait for it; one more is dropped until its next heartbeat", agent, outboxSize))
		return
	}
	q.waiting = append(q.waiting, message)
	o.carry(agent, q)
}

func (o *Outbox) cancel(attempts []Attempt) {
	for _, a := range attempts {
		o.send(a.AgentID, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, delivered)
			defer cancel()
			return o.fleet.Cancel(ctx, a.AgentID, a.ID)
		})
	}
}

// carry starts workers for the queued messages.
func (o *Outbox) carry(agent domain.AgentID, q *outboxQueue) {
	if o.life == nil || o.over {
		return
	}
	for range min(outboxWorkers-q.workers, len(q.waiting)) {
		q.workers++
		o.working.Go(func() { o.work(agent, q) })
	}
}

func (o *Outbox) work(agent domain.AgentID, q *outboxQueue) {
	for message := o.next(agent, q); message != nil; message = o.next(agent, q) {
		if err := message(o.life); err != nil && o.life.Err() == nil {
			o.report(err)
		}
	}
}

// next removes a message from the queue; nil ends the worker.
func (o *Outbox) next(agent domain.AgentID, q *outboxQueue) (message func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(q.waiting) > 0 && !o.over {
		message, q.waiting = q.waiting[0], q.waiting[1:]
		return message
	}
	if q.workers--; q.workers == 0 && len(q.waiting) == 0 {
		delete(o.queues, agent)
	}
	return nil
}
