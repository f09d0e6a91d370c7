// Package result sends what a statement returns: its rows in batches of Arrow, or its failure. The
// supervisor and its processes use it.
package result

import (
	"bytes"
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
	"github.com/millpond/millpond/domain/rows"
)

// Limits of a batch: its rows, and the bytes from which it is sent.
const (
	BatchRows  = 64 << 10
	batchBytes = 1 << 20
	batchLimit = 64 << 20 // bytes of one message, unless a single row is larger
	BatchJSON  = 4 << 20  // bytes of one message's rows as JSON, unless a single row is larger
	maxRowJSON = 16 << 20 // bytes of a row as JSON; a larger row ends its statement
)

// Frames receives what is sent.
type Frames interface {
	Frame(kind agent.FrameKind, payload ...[]byte) error
}

// Sender sends the rows of a statement in batches of Arrow.
type Sender struct {
	Out      Frames
	Schema   *arrow.Schema
	MaxRows  int64 // 0 means no limit
	MaxBytes int64 // of Arrow; 0 means no limit

	held      []arrow.RecordBatch // not sent yet
	heldRows  int64
	heldBytes int64
	message   bytes.Buffer

	Rows, Bytes int64 // sent
	Truncated   bool  // by MaxRows or MaxBytes
}

// Drop releases the buffered batches.
func (r *Sender) Drop() {
	for _, b := range r.held {
		b.Release()
	}
	r.held, r.heldRows, r.heldBytes = nil, 0, 0
}

// Hold buffers a batch until there is enough to send. It releases the batch.
func (r *Sender) Hold(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		b.Release()
		return nil
	}
	if left := r.MaxRows - r.Rows - r.heldRows; r.MaxRows > 0 && b.NumRows() > left {
		whole := b
		b = whole.NewSlice(0, left)
		whole.Release()
		r.Truncated = true
	}
	r.held = append(r.held, b)
	r.heldRows += b.NumRows()
	r.heldBytes += sizeOf(b)
	if r.heldRows >= BatchRows || r.heldBytes >= batchBytes {
		return r.Flush()
	}
	return nil
}

// Flush sends the buffered batches as one.
func (r *Sender) Flush() error {
	if r.heldRows == 0 {
		return nil
	}
	defer r.Drop()
	if len(r.held) == 1 {
		return r.sendBatch(r.held[0])
	}
	columns := make([]arrow.Array, r.Schema.NumFields())
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
	whole := array.NewRecordBatch(r.Schema, columns, r.heldRows)
	defer whole.Release()
	return r.sendBatch(whole)
}

// sendBatch sends a batch, split if it is large in Arrow or JSON. It truncates the batch at the
// byte limit.
func (r *Sender) sendBatch(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		return nil
	}
	r.message.Reset()
	payload, err := ipc.GetRecordBatchPayload(b, ipc.WithSchema(r.Schema))
	if err != nil {
		return err
	}
	_, err = payload.WritePayload(&r.message)
	payload.Release()
	if err != nil {
		return err
	}
	size := int64(r.message.Len())
	over := r.MaxBytes > 0 && r.Bytes+size > r.MaxBytes
	if b.NumRows() > 1 && (over || size > batchLimit) {
		return r.sendHalves(b)
	}
	if size > maxRow {
		return r.refuseRow()
	}
	if over {
		r.Truncated = true
		return nil
	}
	json := rows.Size(b)
	switch {
	case b.NumRows() > 1 && json > BatchJSON:
		return r.sendHalves(b)
	case json > maxRowJSON:
		return r.refuseRow()
	}
	r.Rows += b.NumRows()
	r.Bytes += size
	count := binary.LittleEndian.AppendUint32(nil, uint32(b.NumRows()))
	count = binary.LittleEndian.AppendUint32(count, uint32(json))
	return r.Out.Frame(agent.FrameBatch, count, r.message.Bytes())
}

// maxRow bounds the message of one row, so that a larger one is not measured in JSON. 16-byte zeros
// are an eighth of that size in JSON.
const maxRow = 8*maxRowJSON + 1<<20

// refuseRow refuses the first unsent row.
func (r *Sender) refuseRow() error {
	return sqltext.Refuse(-1, "Row %d of the result has more than %d MiB in JSON, which is the most that a row may have. Select less of it.", r.Rows+1, maxRowJSON>>20)
}

func (r *Sender) sendHalves(b arrow.RecordBatch) error {
	half := b.NumRows() / 2
	for _, bounds := range [][2]int64{{0, half}, {half, b.NumRows()}} {
		if r.Truncated {
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

// maxLevels bounds the nesting of a column; Arrow readers support no more.
const maxLevels = 63

func checkLevels(f arrow.Field, level int) error {
	nested, ok := f.Type.(arrow.NestedType)
	switch {
	case !ok:
		return nil
	case level == maxLevels:
		return sqltext.Refuse(-1, "A column of the result nests deeper than %d levels. Cast it, to JSON for example.", maxLevels)
	}
	for _, child := range nested.Fields() {
		if err := checkLevels(child, level+1); err != nil {
			return err
		}
	}
	return nil
}

// SendSchema sends the schema. It refuses columns that nest too deep.
func (r *Sender) SendSchema() error {
	for _, f := range r.Schema.Fields() {
		if err := checkLevels(f, 0); err != nil {
			return err
		}
	}
	var message bytes.Buffer
	payload := ipc.GetSchemaPayload(r.Schema, memory.DefaultAllocator)
	defer payload.Release()
	if _, err := payload.WritePayload(&message); err != nil {
		return err
	}
	return r.Out.Frame(agent.FrameSchema, message.Bytes())
}

// sizeOf estimates the size of a batch's rows in bytes.
func sizeOf(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		n += int64(c.Data().SizeInBytes())
	}
	return n
}
