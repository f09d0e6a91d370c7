package job

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// LogStream is the output that log bytes came from.
type LogStream int16

// The streams. Both share one sequence of offsets, in the order of arrival.
const (
	Stdout LogStream = 1
	Stderr LogStream = 2
)

// String returns stdout or stderr.
func (s LogStream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// LogChunk is a piece of an attempt's log: bytes of one stream, emitted at one time.
type LogChunk struct {
	Offset    int64 // offset of Data's first byte
	Stream    LogStream
	FirstLine int64 // number of the line in which Data begins, from 1
	EmittedAt time.Time
	Data      []byte
}

// End returns the offset after the chunk's last byte.
func (c LogChunk) End() int64 { return c.Offset + int64(len(c.Data)) }

// NextLine returns the number of the line that follows the chunk's last byte.
func (c LogChunk) NextLine() int64 { return c.FirstLine + int64(bytes.Count(c.Data, []byte{'\n'})) }

// from returns the part of the chunk at and after offset.
func (c LogChunk) from(offset int64) LogChunk {
	if offset <= c.Offset {
		return c
	}
	skipped := c.Data[:offset-c.Offset]
	c.FirstLine += int64(bytes.Count(skipped, []byte{'\n'}))
	c.Offset, c.Data = offset, c.Data[offset-c.Offset:]
	return c
}

// LogEnd is the end of an attempt's stored log.
type LogEnd struct {
	Offset int64 // bytes stored
	Line   int64 // number of the next line, from 1
}

// LogSegment is an archived part of an attempt's log: compressed chunks in one object.
type LogSegment struct {
	Start, End int64
	FirstLine  int64
	NextLine   int64
	Key        string // in the object store
	Size       int64  // compressed, in bytes
}

// LogAppend is a chunk with the attempt it belongs to.
type LogAppend struct {
	Attempt domain.AttemptID
	LogChunk
}

// logTx reads and writes the logs of attempts.
type logTx interface {
	// FenceSession locks the agent's session against replacement until the transaction ends. It
	// returns whether the session is current, and the agent's attempts that have not ended.
	FenceSession(ctx context.Context, agent domain.AgentID, session string) (current bool, live []domain.AttemptID, err error)
	// LogEnds returns the ends of the logs. An attempt without a log ends at offset 0 before line
	// 1.
	LogEnds(ctx context.Context, ids []domain.AttemptID) (map[domain.AttemptID]LogEnd, error)
	InsertLog(ctx context.Context, chunks []LogAppend) error
	// LogChunks returns stored chunks that reach past offset, in order: about limit bytes, and at
	// least one chunk.
	LogChunks(ctx context.Context, id domain.AttemptID, offset int64, limit int) ([]LogChunk, error)
	// LogNews returns each attempt's chunks from its offset on, except those that are only
	// archived. It returns about limit bytes for each, and at least one chunk. A missing attempt
	// has no entry.
	LogNews(ctx context.Context, wants []LogWant, limit int) (map[domain.AttemptID]LogNews, error)
	// LogSegmentAt returns the segment that holds the offset; nil if it is not archived.
	LogSegmentAt(ctx context.Context, id domain.AttemptID, offset int64) (*LogSegment, error)
	// LockSealing locks the attempt's archiving for the transaction and returns its progress; false
	// if another replica holds the lock.
	LockSealing(ctx context.Context, id domain.AttemptID) (sealed LogEnd, free bool, err error)
	InsertLogSegment(ctx context.Context, id domain.AttemptID, s LogSegment) error
	// SetSealed records that the log of an ended attempt is archived completely.
	SetSealed(ctx context.Context, id domain.AttemptID) error
}

// Archive packs chunks into an object's bytes and back.
type Archive interface {
	Pack(chunks []LogChunk) []byte
	Unpack(object []byte) ([]LogChunk, error)
}

// Logs stores the output of processes, and returns it byte for byte from any offset, while it grows
// and afterwards.
type Logs struct {
	Store   domain.Store[Tx]
	Topics  domain.Topics
	Clock   domain.Clock
	Objects domain.Objects
	Archive Archive

	tails   tails
	batcher newsBatcher

	lastMu      sync.Mutex
	lastKey     string
	lastSegment []LogChunk
}

// LogPage is a piece of an attempt's log.
type LogPage struct {
	Chunks []LogChunk
	Next   int64 // the offset after the page
	Size   int64 // bytes stored so far
	EOF    bool  // the attempt has ended and nothing follows Next
}

// MaxLogPage bounds what one read returns, in bytes.
const MaxLogPage = 1 << 20

// Read returns about limit bytes of an attempt's log from offset on. At the end of the log it
// returns an empty page; beyond it, CodeRange.
func (l *Logs) Read(ctx context.Context, s domain.Scope, id domain.AttemptID, offset int64, limit int) (LogPage, error) {
	if err := domain.Authorize(ctx, l.Store, s, domain.RunRead); err != nil {
		return LogPage{}, err
	}
	if limit < 1 || limit > MaxLogPage {
		return LogPage{}, domain.Invalid("max_bytes", "A page of a log has from 1 to %d bytes.", MaxLogPage)
	}
	return l.read(ctx, s, id, offset, limit)
}

func (l *Logs) read(ctx context.Context, s domain.Scope, id domain.AttemptID, offset int64, limit int) (page LogPage, err error) {
	if offset < 0 {
		return LogPage{}, domain.Invalid("offset", "offset is %d; it cannot be negative.", offset)
	}
	var segment *LogSegment
	over := false
	err = l.Store.In(ctx, s, func(tx Tx) error {
		attempt, err := tx.Attempt(ctx, id)
		if err != nil {
			return err
		}
		ends, err := tx.LogEnds(ctx, []domain.AttemptID{id})
		if err != nil {
			return err
		}
		page = LogPage{Next: offset, Size: ends[id].Offset}
		over = attempt.Status.Final()
		if offset > page.Size {
			return domain.Errorf(domain.CodeRange, "offset is %d and the log ends at %d.", offset, page.Size)
		}
		if offset == page.Size {
			return nil
		}
		if segment, err = tx.LogSegmentAt(ctx, id, offset); err != nil || segment != nil {
			return err
		}
		page.Chunks, err = tx.LogChunks(ctx, id, offset, limit)
		return err
	})
	if err == nil && segment != nil {
		page.Chunks, err = l.archived(ctx, s, id, *segment, offset, limit)
	}
	if err != nil {
		return LogPage{}, err
	}
	page.cut(offset, limit)
	page.EOF = over && page.Next == page.Size
	return page, nil
}

// cut trims the chunks to limit bytes. It keeps part of one chunk at least, so that readers always
// advance.
func (p *LogPage) cut(offset int64, limit int) {
	end := offset + int64(limit)
	for i := range p.Chunks {
		c := p.Chunks[i].from(offset)
		if c.Offset >= end {
			p.Chunks = p.Chunks[:i]
			break
		}
		c.Data = c.Data[:min(int64(len(c.Data)), end-c.Offset)]
		p.Chunks[i] = c
	}
	if n := len(p.Chunks); n > 0 {
		p.Next = p.Chunks[n-1].End()
	}
}

// Sizes returns how many bytes of the attempts' logs are stored.
func (l *Logs) Sizes(ctx context.Context, s domain.Scope, ids []domain.AttemptID) (sizes map[domain.AttemptID]int64, err error) {
	if err := domain.Authorize(ctx, l.Store, s, domain.RunRead); err != nil {
		return nil, err
	}
	sizes = make(map[domain.AttemptID]int64, len(ids))
	err = l.Store.In(ctx, s, func(tx Tx) error {
		ends, err := tx.LogEnds(ctx, ids)
		for id, end := range ends {
			sizes[id] = end.Offset
		}
		return err
	})
	return sizes, err
}

// Tail returns the last bytes of an attempt's log, at most limit, which is from 1 to MaxLogPage.
func (l *Logs) Tail(ctx context.Context, s domain.Scope, id domain.AttemptID, limit int) ([]byte, error) {
	if limit < 1 || limit > MaxLogPage {
		return nil, domain.Invalid("bytes", "The end of a log has from 1 to %d bytes.", MaxLogPage)
	}
	sizes, err := l.Sizes(ctx, s, []domain.AttemptID{id})
	if err != nil || sizes[id] == 0 {
		return nil, err
	}
	var tail []byte
	for offset := max(0, sizes[id]-int64(limit)); offset < sizes[id]; {
		page, err := l.Read(ctx, s, id, offset, min(limit, MaxLogPage))
		if err != nil {
			return nil, err
		}
		for _, c := range page.Chunks {
			tail = append(tail, c.Data...)
		}
		offset = page.Next
	}
	return tail, nil
}
