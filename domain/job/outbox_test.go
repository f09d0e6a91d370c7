package job

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// messenger is a fleet with a silent agent, which answers nothing.
type messenger struct {
	silent domain.AgentID
	got    chan domain.AttemptID
	under  chan struct{} // receives once for each message in progress to the silent agent
}

func (m *messenger) Start(ctx context.Context, agent domain.AgentID, d Delivery) error {
	return m.Cancel(ctx, agent, d.Attempt.ID)
}

func (m *messenger) Cancel(ctx context.Context, agent domain.AgentID, attempt domain.AttemptID) error {
	if agent != m.silent {
		m.got <- attempt
		return nil
	}
	m.under <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestASilentAgentHoldsUpNobody(t *testing.T) {
	m := &messenger{silent: "agt_silent", got: make(chan domain.AttemptID, 10), under: make(chan struct{}, 10*outboxSize)}
	var mu sync.Mutex
	dropped := 0
	o := NewOutbox(m, func(error) { mu.Lock(); dropped++; mu.Unlock() })
	o.cancel([]Attempt{{ID: "att_early", AgentID: "agt_fine"}}) // before Run
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	require.Equal(t, domain.AttemptID("att_early"), <-m.got)

	for range outboxWorkers { // each occupies a worker
		o.cancel([]Attempt{{ID: "att_stuck", AgentID: m.silent}})
		<-m.under
	}
	for range outboxSize + 5 {
		o.cancel([]Attempt{{ID: "att_stuck", AgentID: m.silent}})
	}
	mu.Lock()
	require.Equal(t, 5, dropped, "messages without room are dropped, and nobody waits")
	mu.Unlock()
	o.cancel([]Attempt{{ID: "att_fine", AgentID: "agt_fine"}})
	select {
	case id := <-m.got:
		require.Equal(t, domain.AttemptID("att_fine"), id)
	case <-time.After(delivered / 2):
		t.Fatal("the message waits for an agent that does not answer")
	}
	require.Empty(t, m.under, "so many messages are under way to one agent, and no more")
	end()
	running.Wait()
	o.cancel([]Attempt{{ID: "att_late", AgentID: "agt_fine"}})
	require.Empty(t, m.got)
}
