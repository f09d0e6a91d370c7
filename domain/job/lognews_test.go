package job

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// queued returns the number of requests in the workspace's queue.
func (b *newsBatcher) queued(ws domain.WorkspaceID) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.queues[ws]; l != nil {
		return len(l.waiting)
	}
	return 0
}

// TestRequestsGatherWhileOneIsAnswered checks that requests queue while a read runs, and that the
// next read answers all of them. Other workspaces do not wait.
func TestRequestsGatherWhileOneIsAnswered(t *testing.T) {
	var b newsBatcher
	var mu sync.Mutex
	var reads [][]LogWant
	begun, release := make(chan struct{}, 1), make(chan struct{})
	read := func(wants []LogWant) (map[domain.AttemptID]LogNews, error) {
		mu.Lock()
		reads = append(reads, slices.Clone(wants))
		first := len(reads) == 1
		mu.Unlock()
		if first {
			begun <- struct{}{}
			<-release
		}
		news := map[domain.AttemptID]LogNews{}
		for _, w := range wants {
			if w.Attempt != "gone" {
				news[w.Attempt] = LogNews{Chunks: []LogChunk{{Offset: w.Offset, Data: []byte(w.Attempt)}}}
			}
		}
		return news, nil
	}
	var asking sync.WaitGroup
	ask := func(ws domain.WorkspaceID, id domain.AttemptID, offset int64, check func(LogNews, error)) {
		asking.Go(func() { check(b.ask(ws, LogWant{Attempt: id, Offset: offset}, read)) })
	}
	own := func(id domain.AttemptID) func(LogNews, error) {
		return func(n LogNews, err error) {
			require.NoError(t, err)
			require.Equal(t, string(id), string(n.Chunks[0].Data))
		}
	}
	ask("ws", "first", 0, own("first"))
	<-begun
	for i := range 100 {
		id := domain.AttemptID(fmt.Sprint(i))
		ask("ws", id, 7, own(id))
	}
	ask("ws", "twice", 9, own("twice"))
	ask("ws", "twice", 5, func(n LogNews, err error) {
		require.NoError(t, err)
		require.EqualValues(t, 5, n.Chunks[0].Offset, "the lower offset of the two")
	})
	ask("ws", "gone", 0, func(n LogNews, err error) {
		require.NoError(t, err)
		require.True(t, n.Over)
	})
	require.Eventually(t, func() bool { return b.queued("ws") == 103 }, time.Minute, time.Millisecond)
	elsewhere, err := b.ask("other", LogWant{Attempt: "x"}, read)
	own("x")(elsewhere, err)
	close(release)
	asking.Wait()
	require.Len(t, reads, 3)
	require.Len(t, reads[2], 102, "an attempt that is asked for twice is read once")
	require.Empty(t, b.queues)
}

// TestAFailedReadFailsThoseItWasFor checks that a failed read fails no other requests.
func TestAFailedReadFailsThoseItWasFor(t *testing.T) {
	var b newsBatcher
	broken := errors.New("the database is away")
	_, err := b.ask("ws", LogWant{Attempt: "a"}, func([]LogWant) (map[domain.AttemptID]LogNews, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	news, err := b.ask("ws", LogWant{Attempt: "a"}, func([]LogWant) (map[domain.AttemptID]LogNews, error) {
		return map[domain.AttemptID]LogNews{"a": {More: true}}, nil
	})
	require.NoError(t, err)
	require.True(t, news.More)
}

// TestALongQueueIsServedInBatches checks that more requests than one read's maximum get answers.
func TestALongQueueIsServedInBatches(t *testing.T) {
	var b newsBatcher
	most := 0
	begun, release := make(chan struct{}, 1), make(chan struct{})
	read := func(wants []LogWant) (map[domain.AttemptID]LogNews, error) {
		if wants[0].Attempt == "first" {
			begun <- struct{}{}
			<-release
		}
		most = max(most, len(wants)) // one read at a time
		return nil, nil
	}
	var asking sync.WaitGroup
	ask := func(id domain.AttemptID) {
		asking.Go(func() {
			_, err := b.ask("ws", LogWant{Attempt: id}, read)
			require.NoError(t, err)
		})
	}
	ask("first")
	<-begun
	for i := range 3 * newsRequests {
		ask(domain.AttemptID(fmt.Sprint(i)))
	}
	require.Eventually(t, func() bool { return b.queued("ws") == 3*newsRequests }, time.Minute, time.Millisecond)
	close(release)
	asking.Wait()
	require.Equal(t, newsRequests, most)
}
