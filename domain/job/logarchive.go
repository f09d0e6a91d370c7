package job

import (
	"context"
	"fmt"
	"sort"

	"github.com/millpond/millpond/domain"
)

// archived reads a page of the archive. If the object is missing or broken, it reads the rows,
// which stay for some days.
func (l *Logs) archived(ctx context.Context, s domain.Scope, id domain.AttemptID, seg LogSegment, offset int64, limit int) ([]LogChunk, error) {
	chunks, broken := l.sealed(ctx, seg, offset, limit)
	if broken == nil || ctx.Err() != nil {
		return chunks, broken
	}
	err := l.Store.In(ctx, s, func(tx Tx) (err error) {
		chunks, err = tx.LogChunks(ctx, id, offset, limit)
		return err
	})
	if err == nil && len(chunks) == 0 {
		err = broken
	}
	return chunks, err
}

// sealed reads a page from a segment's object.
func (l *Logs) sealed(ctx context.Context, seg LogSegment, offset int64, limit int) ([]LogChunk, error) {
	chunks, err := l.segment(ctx, seg)
	if err != nil {
		return nil, fmt.Errorf("log segment %s: %w", seg.Key, err)
	}
	first := sort.Search(len(chunks), func(i int) bool { return chunks[i].End() > offset })
	last := first
	for size := 0; last < len(chunks) && size < limit; last++ {
		size += len(chunks[last].Data)
	}
	return append([]LogChunk(nil), chunks[first:last]...), nil
}

// segment unpacks an object. It caches the last one, because readers request a segment's pages one
// after the other.
func (l *Logs) segment(ctx context.Context, seg LogSegment) ([]LogChunk, error) {
	l.lastMu.Lock()
	defer l.lastMu.Unlock()
	if l.lastKey == seg.Key {
		return l.lastSegment, nil
	}
	chunks, err := l.open(ctx, seg)
	if err != nil {
		return nil, err
	}
	l.lastKey, l.lastSegment = seg.Key, chunks
	return chunks, nil
}

// open reads the segment's object and verifies that it holds the segment's range.
func (l *Logs) open(ctx context.Context, seg LogSegment) ([]LogChunk, error) {
	object, err := l.Objects.Get(ctx, seg.Key)
	if err != nil {
		return nil, err
	}
	chunks, err := l.Archive.Unpack(object)
	if err != nil {
		return nil, err
	}
	end := seg.Start
	for _, c := range chunks {
		if c.Offset != end {
			return nil, fmt.Errorf("the object has no chunk at %d", end)
		}
		end = c.End()
	}
	if end != seg.End {
		return nil, fmt.Errorf("the object ends at %d and not at %d", end, seg.End)
	}
	return chunks, nil
}
