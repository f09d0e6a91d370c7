package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
)

// arrowEnd ends an Arrow IPC stream.
const arrowEnd = "\xff\xff\xff\xff\x00\x00\x00\x00"

// rowResult is the largest result that is stored in its statement's row, in bytes.
const rowResult = 64 << 10

func chunkKey(ws domain.WorkspaceID, id domain.StatementID, n int) string {
	return fmt.Sprintf("%s/statements/%s/%d.arrow", ws, id, n)
}

// grow adds rows to the current chunk. Once the chunk exceeds rowResult, its buffer grows fourfold
// up to a full chunk's size.
func (x *execution) grow(b ResultBatch) {
	if x.chunk == nil {
		x.chunk = append(make([]byte, 0, len(x.st.Schemata)+len(b.Data)+len(arrowEnd)), x.st.Schemata...)
	}
	if need := len(x.chunk) + len(b.Data) + len(arrowEnd); need > cap(x.chunk) && need > rowResult {
		x.chunk = slices.Grow(x.chunk, max(need, min(4*cap(x.chunk), ChunkBytes+ChunkBytes/8))-len(x.chunk))
	}
	x.chunk = append(x.chunk, b.Data...)
	x.rows += b.Rows
	x.json += b.JSON
}

// chunkRows bounds a chunk's rows, besides ChunkBytes.
const chunkRows = 1 << 20

// full reports whether the current chunk is large enough to cut. Small values and nulls are far
// larger in JSON than in Arrow. A chunk has the same rows in every format, so both sizes count.
func (x *execution) full() bool {
	return len(x.chunk) >= ChunkBytes || x.json >= ChunkBytes || x.rows >= chunkRows
}

// cut ends the current chunk and stores it while the engine continues with the next. Callers wait
// for the first full chunk.
func (x *execution) cut(last bool) error {
	x.mu.Lock()
	chunk, rows, first := append(x.chunk, arrowEnd...), x.rows, x.firstChunk == nil
	x.chunk, x.rows, x.json = nil, 0, 0
	if first {
		x.firstChunk, x.onlyChunk = chunk, last
	}
	inRow := first && last && len(chunk) <= rowResult
	if inRow {
		x.st.Chunks = []ResultChunk{{Rows: rows, Bytes: int64(len(chunk))}}
	}
	x.mu.Unlock()
	if first && !last {
		x.answered()
	}
	if err := x.allStored(); err != nil || inRow {
		return err
	}
	kept := make(chan error, 1)
	x.storing = kept
	go func() { kept <- x.store(chunk, rows, last) }()
	return nil
}

// allStored waits until the previous chunk is stored.
func (x *execution) allStored() error {
	if x.storing == nil {
		return nil
	}
	err := <-x.storing
	x.storing = nil
	return err
}

// store writes a chunk to the object store and records it, so that others can read it.
func (x *execution) store(chunk []byte, rows int64, last bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	x.mu.Lock()
	n := len(x.st.Chunks)
	chunks := append(x.st.Chunks[:n:n], ResultChunk{Rows: rows, Bytes: int64(len(chunk))})
	x.mu.Unlock()
	if err := x.t.Objects.Put(ctx, chunkKey(x.scope.Workspace(), x.id, n), chunk); err != nil {
		_ = x.t.Objects.Delete(ctx, chunkKey(x.scope.Workspace(), x.id, n)) // no row refers to it
		return fmt.Errorf("storing chunk %d of the result: %w", n, err)
	}
	if last { // finalize records it with the end
		x.mu.Lock()
		defer x.mu.Unlock()
		x.st.Chunks = chunks
		return nil
	}
	x.note(ctx, func(st *Statement) { st.Chunks = chunks })
	return nil
}

// concludeTime is how long this server retries to store a statement's end while the database is
// away. After that, Sweep finalizes the statement.
const concludeTime = time.Minute

// conclude stores the rest of the result and the statement's end.
func (x *execution) conclude(end End) error {
	if err := x.rest(end); err != nil {
		end = notKept(err)
		x.t.Report(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	var result []byte
	if x.firstChunk != nil && len(x.firstChunk) <= rowResult && len(x.st.Chunks) == 1 {
		result = x.firstChunk
	}
	return untilWritten(ctx, func() error { return x.finalize(ctx, end, result) })
}

// untilWritten retries while the database is away, until ctx ends.
func untilWritten(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !IsPassing(err) {
			return err
		}
		select {
		case <-time.After(retryDelay):
		case <-ctx.Done():
			return err
		}
	}
}

// rest stores the last chunk of a statement that has ended. The chunk is empty if the previous one
// was full, because readers were promised another.
func (x *execution) rest(end End) error {
	if end.Failure == nil && x.st.Schemata != nil {
		if x.chunk == nil {
			x.grow(ResultBatch{})
		}
		if err := x.cut(true); err != nil {
			return err
		}
	}
	return x.allStored()
}
