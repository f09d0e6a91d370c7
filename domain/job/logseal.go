package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/millpond/millpond/domain"
)

// sealBytes is the size of the log in one object.
const sealBytes = 8 << 20

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
