package job

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/millpond/millpond/domain"
)

// sealBytes is the size of the log in one object.
const sealBytes = 8 << 20

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

// Seal archives logs of attempts: in parts of 8 MiB while they run, and the rest once they have
// ended.
func (l *Logs) Seal(ctx context.Context, system System) error {
	refs, err := system.UnsealedAttempts(ctx, domain.MaxLimit)
	if err != nil {
		return err
	}
	var failed []error
	for _, ref := range refs {
		if err := l.seal(ctx, domain.SystemScope(ref.Workspace, "log archive"), ref.Attempt); err != nil {
			failed = append(failed, fmt.Errorf("sealing the log of %s: %w", ref.Attempt, err))
		}
	}
	return errors.Join(failed...)
}

func (l *Logs) seal(ctx context.Context, s domain.Scope, id domain.AttemptID) error {
	for more := true; more; {
		err := l.Store.In(ctx, s, func(tx Tx) (err error) {
			more, err = l.sealNext(ctx, tx, s, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealNext archives one segment and returns whether there may be another. It writes the object
// before the row that names it, under a deterministic key. After a crash in between, the retry
// overwrites the object.
func (l *Logs) sealNext(ctx context.Context, tx Tx, s domain.Scope, id domain.AttemptID) (more bool, err error) {
	sealed, free, err := tx.LockSealing(ctx, id)
	if err != nil || !free {
		return false, err
	}
	attempt, err := tx.Attempt(ctx, id)
	if err != nil {
		return false, err
	}
	chunks, err := collect(ctx, tx, id, sealed.Offset)
	if err != nil {
		return false, err
	}
	end := sealed.Offset
	if n := len(chunks); n > 0 {
		end = chunks[n-1].End()
	}
	whole := end-sealed.Offset >= sealBytes
	if len(chunks) > 0 && (whole || attempt.Status.Final()) {
		if err := l.sealChunks(ctx, tx, s, id, chunks); err != nil {
			return false, err
		}
	}
	if attempt.Status.Final() && !whole {
		return false, tx.SetSealed(ctx, id)
	}
	return whole, nil
}

func collect(ctx context.Context, tx Tx, id domain.AttemptID, offset int64) (chunks []LogChunk, err error) {
	for start := offset; offset-start < sealBytes; {
		rows, err := tx.LogChunks(ctx, id, offset, MaxLogPage)
		if err != nil || len(rows) == 0 {
			return chunks, err
		}
		rows[0] = rows[0].from(offset)
		chunks = append(chunks, rows...)
		offset = rows[len(rows)-1].End()
	}
	return chunks, nil
}

func (l *Logs) sealChunks(ctx context.Context, tx Tx, s domain.Scope, id domain.AttemptID, chunks []LogChunk) error {
	first, last := chunks[0], chunks[len(chunks)-1]
	object := l.Archive.Pack(chunks)
	seg := LogSegment{
		Start: first.Offset, End: last.End(), FirstLine: first.FirstLine, NextLine: last.NextLine(),
		Key: fmt.Sprintf("%s/logs/%s/%020d", s.Workspace(), id, first.Offset), Size: int64(len(object)),
	}
	if err := l.Objects.Put(ctx, seg.Key, object); err != nil {
		return err
	}
	if _, err := l.open(ctx, seg); err != nil {
		return fmt.Errorf("the archive %s does not read back as written: %w", seg.Key, err) // the rows stay
	}
	return tx.InsertLogSegment(ctx, id, seg)
}
