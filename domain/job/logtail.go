package job

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// tails holds one tail for each attempt that is followed on this replica. A log with many followers
// is read from the database once, and never if this replica stored it.
type tails struct {
	mu   sync.Mutex
	open map[domain.AttemptID]*tail
}

// tailBytes bounds the bytes in one tail. Followers that fall further behind read the table.
const tailBytes = 1 << 20

// tail is the newest part of one attempt's log, without gaps up to end.
type tail struct {
	followers int // guarded by tails.mu
	cancel    context.CancelFunc
	done      chan struct{} // the watcher has ended

	mu      sync.Mutex
	chunks  []LogChunk
	size    int           // bytes in chunks
	end     int64         // end of the log as known here
	eof     bool          // the attempt has ended and its log ends at end
	changed chan struct{} // closed at the next change
	stale   chan struct{} // wakes the watcher to read the table
}

// Follow calls yield with an attempt's log from offset on, as it grows. It ends with the attempt,
// after a last page with EOF set, or when ctx ends. If yield returns an error, Follow returns it.
// Every page but the last has at least one byte.
func (l *Logs) Follow(ctx context.Context, s domain.Scope, id domain.AttemptID, offset int64, yield func(LogPage) error) error {
	page, err := l.Read(ctx, s, id, offset, followPage)
	if err != nil {
		return err
	}
	t := l.acquire(s.Workspace(), id, page.Size)
	defer l.release(id, t)
	for {
		if len(page.Chunks) > 0 || page.EOF {
			if err := yield(page); err != nil || page.EOF {
				return err
			}
		}
		if page, err = l.next(ctx, s, id, t, page.Next); err != nil {
			return err
		}
	}
}

// followPage bounds one page of a follower, in bytes.
const followPage = 256 << 10

// next waits for bytes at offset, or for the end.
func (l *Logs) next(ctx context.Context, s domain.Scope, id domain.AttemptID, t *tail, offset int64) (LogPage, error) {
	for {
		page, kept, wait := t.page(offset)
		switch {
		case wait == nil && kept:
			return page, nil
		case wait == nil:
			return l.read(ctx, s, id, offset, followPage)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return LogPage{}, ctx.Err()
		}
	}
}

// acquire opens the attempt's tail and its watcher; the caller releases it.
func (l *Logs) acquire(ws domain.WorkspaceID, id domain.AttemptID, end int64) *tail {
	l.tails.mu.Lock()
	defer l.tails.mu.Unlock()
	if l.tails.open == nil {
		l.tails.open = map[domain.AttemptID]*tail{}
	}
	t := l.tails.open[id]
	if t == nil {
		ctx, cancel := context.WithCancel(context.Background())
		t = &tail{cancel: cancel, done: make(chan struct{}), end: end, changed: make(chan struct{}), stale: make(chan struct{}, 1)}
		l.tails.open[id] = t
		go l.watch(ctx, domain.SystemScope(ws, "log tail"), id, t)
	}
	t.followers++
	return t
}

// release closes the tail with its last follower, and waits for its watcher.
func (l *Logs) release(id domain.AttemptID, t *tail) {
	l.tails.mu.Lock()
	t.followers--
	last := t.followers == 0
	if last {
		delete(l.tails.open, id)
	}
	l.tails.mu.Unlock()
	if last {
		t.cancel()
		<-t.done
	}
}

// watchRetry is the pause before the watcher retries a failed read.
const watchRetry = 250 * time.Millisecond

// watch reads what other replicas store, and detects the end of the attempt.
func (l *Logs) watch(ctx context.Context, s domain.Scope, id domain.AttemptID, t *tail) {
	defer close(t.done)
	wake, stop := l.Topics.Subscribe(domain.LogTopic(id))
	defer stop()
	for !t.over() {
		var retry <-chan time.Time
		if err := l.catchUp(ctx, s, id, t); err != nil {
			retry = time.After(watchRetry)
		}
		select {
		case <-wake:
		case <-t.stale:
		case <-retry:
		case <-ctx.Done():
			return
		}
	}
}

// catchUp reads what is stored beyond the tail. It detects the end by the same read as pages, which
// includes archived chunks.
func (l *Logs) catchUp(ctx context.Context, s domain.Scope, id domain.AttemptID, t *tail) error {
	for {
		news, err := l.news(ctx, s, id, t.known())
		if err != nil {
			return err
		}
		t.add(news.Chunks, false)
		if news.Over {
			return l.finish(ctx, s, id, t)
		}
		if !news.More {
			return nil
		}
	}
}

func (l *Logs) finish(ctx context.Context, s domain.Scope, id domain.AttemptID, t *tail) error {
	for {
		page, err := l.read(ctx, s, id, t.known(), MaxLogPage)
		if err != nil {
			return err
		}
		t.add(page.Chunks, page.EOF)
		if page.Next >= page.Size {
			return nil
		}
	}
}

// invalidate makes all followers of the attempt, on all replicas, read the table: something may be
// stored that was not published.
func (l *Logs) invalidate(id domain.AttemptID) {
	l.tails.mu.Lock()
	t := l.tails.open[id]
	l.tails.mu.Unlock()
	if t != nil {
		t.markStale()
	}
	l.Topics.WakeOthers(domain.LogTopic(id))
}

// publish adds chunks that this replica has just committed to the tail here, if there is one.
func (l *Logs) publish(id domain.AttemptID, chunks []LogChunk) {
	l.tails.mu.Lock()
	t := l.tails.open[id]
	l.tails.mu.Unlock()
	if t != nil {
		t.add(chunks, false)
	}
}

func (t *tail) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.eof
}

func (t *tail) known() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// add appends the chunks that continue the tail, and wakes the followers.
func (t *tail) add(chunks []LogChunk, eof bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.end
	for _, c := range chunks {
		if c.Offset > t.end {
			t.markStale()
			break
		}
		if c.End() > t.end {
			c = c.from(t.end)
			t.chunks, t.size, t.end = append(t.chunks, c), t.size+len(c.Data), c.End()
		}
	}
	t.trim()
	if t.end > before || eof {
		t.eof = t.eof || eof
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

func (t *tail) markStale() {
	select {
	case t.stale <- struct{}{}:
	default:
	}
}

func (t *tail) trim() {
	drop := 0
	for t.size > tailBytes && drop < len(t.chunks)-1 {
		t.size -= len(t.chunks[drop].Data)
		drop++
	}
	clear(t.chunks[:drop]) // followers have copies; append copies the rest when the array is full
	t.chunks = t.chunks[drop:]
}

// PageOf returns the tail's bytes at offset, or a channel to wait on if there are none yet. If the
// tail does not reach back to offset, kept is false and wait is nil.
func (t *tail) page(offset int64) (page LogPage, kept bool, wait <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if offset >= t.end {
		if t.eof {
			return LogPage{Next: offset, Size: t.end, EOF: true}, true, nil
		}
		return LogPage{}, false, t.changed
	}
	if len(t.chunks) == 0 || offset < t.chunks[0].Offset {
		return LogPage{}, false, nil
	}
	return LogPage{Chunks: t.slice(offset), Next: t.next(offset), Size: t.end}, true, nil
}

// slice returns about followPage bytes from offset on. The tail must hold offset.
func (t *tail) slice(offset int64) []LogChunk {
	first := t.index(offset)
	chunks := slices.Clone(t.chunks[first:t.limit(first)])
	chunks[0] = chunks[0].from(offset)
	return chunks
}

func (t *tail) next(offset int64) int64 { return t.chunks[t.limit(t.index(offset))-1].End() }

// index returns the index of the chunk that holds offset.
func (t *tail) index(offset int64) int {
	i, _ := slices.BinarySearchFunc(t.chunks, offset, func(c LogChunk, at int64) int {
		if c.End() <= at {
			return -1
		}
		return 1
	})
	return i
}

// limit returns the index after the last chunk of a page that begins with chunk first.
func (t *tail) limit(first int) int {
	size, i := 0, first
	for ; i < len(t.chunks) && (i == first || size+len(t.chunks[i].Data) <= followPage); i++ {
		size += len(t.chunks[i].Data)
	}
	return i
}

// Followed returns the number of attempts whose logs are followed on this replica.
func (l *Logs) Followed() int {
	l.tails.mu.Lock()
	defer l.tails.mu.Unlock()
	return len(l.tails.open)
}
