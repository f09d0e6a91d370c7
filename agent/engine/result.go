package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// A batch has at most so many rows, and is sent when it has so many bytes.
const (
	batchRows  = 64 << 10
	batchBytes = 1 << 20
	batchLimit = 64 << 20 // of one message, unless a single row has more
)

// frames takes what is sent.
type frames interface {
	Frame(kind agent.FrameKind, payload ...[]byte) error
}

// result sends what a statement answers, in batches of Arrow.
type result struct {
	out      frames
	schema   *arrow.Schema
	huge     []bool // of each column, whether its digits are counted
	maxRows  int64
	maxBytes int64

	held      []arrow.RecordBatch // not sent yet
	heldRows  int64
	heldBytes int64
	message   bytes.Buffer

	rows, bytes int64
	truncated   bool
}

// send streams the result; it ends early where a limit is reached.
func (r *result) send(from *duckdb.Result, options duckdb.ArrowOptions) error {
	defer r.drop()
	if err := r.sendSchema(); err != nil {
		return err
	}
	for !r.truncated {
		chunk := duckdb.FetchChunk(*from)
		if chunk.Ptr == nil {
			if text := duckdb.ResultError(from); text != "" {
				return parseDuckError(text)
			}
			break
		}
		batch, err := arrowBatch(options, r.schema, chunk)
		duckdb.DestroyDataChunk(&chunk)
		if err != nil {
			return err
		}
		if err := r.hold(batch); err != nil {
			return err
		}
	}
	return r.flush()
}

func (r *result) drop() {
	for _, b := range r.held {
		b.Release()
	}
	r.held, r.heldRows, r.heldBytes = nil, 0, 0
}

// hold keeps a batch until there is enough to send.
func (r *result) hold(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		b.Release()
		return nil
	}
	for i, huge := range r.huge {
		if !huge {
			continue
		}
		if err := checkHuge(b.Column(i), r.schema.Field(i).Name); err != nil {
			b.Release()
			return err
		}
	}
	if left := r.maxRows - r.rows - r.heldRows; r.maxRows > 0 && b.NumRows() > left {
		whole := b
		b = whole.NewSlice(0, left)
		whole.Release()
		r.truncated = true
	}
	r.held = append(r.held, b)
	r.heldRows += b.NumRows()
	r.heldBytes += sizeOf(b)
	if r.heldRows >= batchRows || r.heldBytes >= batchBytes {
		return r.flush()
	}
	return nil
}

// flush sends what is held as one batch.
func (r *result) flush() error {
	if r.heldRows == 0 {
		return nil
	}
	defer r.drop()
	if len(r.held) == 1 {
		return r.sendBatch(r.held[0])
	}
	columns := make([]arrow.Array, r.schema.NumFields())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	parts := make([]arrow.Array, len(r.held))
	for i := range columns {
		for j, b := range r.held {
			parts[j] = b.Column(i)
		}
		column, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		columns[i] = column
	}
	whole := array.NewRecordBatch(r.schema, columns, r.heldRows)
	defer whole.Release()
	return r.sendBatch(whole)
}

// sendBatch sends a batch, in pieces where it is large, and cut where it would pass the limit of bytes.
func (r *result) sendBatch(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		return nil
	}
	r.message.Reset()
	payload, err := ipc.GetRecordBatchPayload(b, ipc.WithSchema(r.schema))
	if err != nil {
		return err
	}
	_, err = payload.WritePayload(&r.message)
	payload.Release()
	if err != nil {
		return err
	}
	size := int64(r.message.Len())
	over := r.maxBytes > 0 && r.bytes+size > r.maxBytes
	if b.NumRows() > 1 && (over || size > batchLimit) {
		return r.sendHalves(b)
	}
	if over {
		r.truncated = true
		return nil
	}
	if size > maxRow {
		return refuse(-1, "A row of the result has %d bytes; at most %d can be sent. Select less of it.", size, maxRow)
	}
	r.rows += b.NumRows()
	r.bytes += size
	count := binary.LittleEndian.AppendUint32(nil, uint32(b.NumRows()))
	return r.out.Frame(agent.FrameBatch, count, r.message.Bytes())
}

// maxRow bounds the message of one row: a frame holds 256 MiB.
const maxRow = 255 << 20

func (r *result) sendHalves(b arrow.RecordBatch) error {
	half := b.NumRows() / 2
	for _, bounds := range [][2]int64{{0, half}, {half, b.NumRows()}} {
		if r.truncated {
			return nil
		}
		piece := b.NewSlice(bounds[0], bounds[1])
		err := r.sendBatch(piece)
		piece.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// maxLevels is how deep a column may nest: readers of Arrow follow no deeper.
const maxLevels = 63

func checkLevels(f arrow.Field, level int) error {
	nested, ok := f.Type.(arrow.NestedType)
	switch {
	case !ok:
		return nil
	case level == maxLevels:
		return refuse(-1, "A column of the result nests deeper than %d levels. Cast it, to JSON for example.", maxLevels)
	}
	for _, child := range nested.Fields() {
		if err := checkLevels(child, level+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *result) sendSchema() error {
	for _, f := range r.schema.Fields() {
		if err := checkLevels(f, 0); err != nil {
			return err
		}
	}
	var message bytes.Buffer
	w := ipc.NewWriterWithPayloadWriter(&schemaWriter{&message}, ipc.WithSchema(r.schema))
	if err := w.Close(); err != nil { // which writes the schema of a stream without batches
		return err
	}
	if message.Len() == 0 {
		return fmt.Errorf("the schema of the result was not written")
	}
	return r.out.Frame(agent.FrameSchema, message.Bytes())
}

// schemaWriter writes the messages of a stream, and no end.
type schemaWriter struct{ to *bytes.Buffer }

func (w *schemaWriter) Start() error { return nil }
func (w *schemaWriter) Close() error { return nil }

func (w *schemaWriter) WritePayload(p ipc.Payload) error {
	_, err := p.WritePayload(w.to)
	return err
}

// sizeOf is about how many bytes the rows of a batch have.
func sizeOf(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		n += int64(c.Data().SizeInBytes())
	}
	return n
}
