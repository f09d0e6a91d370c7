package agent

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Stream is the output of a process that bytes came from.
type Stream uint8

// The streams. Both share one sequence of offsets, in the order of arrival.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Bounds of a log batch. ReadBatch enforces them.
const (
	MaxBatchBytes = 1 << 20  // approximate sum of Data in one batch
	MaxChunkBytes = 64 << 10 // Data of one chunk
)

// Chunk is a piece of one attempt's log: bytes of one stream, emitted at one time. It ends at the
// end of a line if it contains one, else at a rune boundary if the bytes are UTF-8.
type Chunk struct {
	Attempt string
	Offset  int64 // of Data's first byte in the attempt's log
	Stream  Stream
	Time    time.Time // when the first byte was read from the process
	Data    []byte
}

// ErrBatch is wrapped by every error of ReadBatch that the sender caused.
var ErrBatch = errors.New("malformed log batch")

// AppendChunk appends the wire form of c to b: the attempt's length and bytes, offset, stream, time
// in nanoseconds, the data's length and bytes; all integers as varints.
func AppendChunk(b []byte, c Chunk) []byte {
	b = binary.AppendUvarint(b, uint64(len(c.Attempt)))
	b = append(b, c.Attempt...)
	b = binary.AppendUvarint(b, uint64(c.Offset))
	b = append(b, byte(c.Stream))
	b = binary.AppendVarint(b, c.Time.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(c.Data)))
	return append(b, c.Data...)
}

// ReadBatch reads chunks until EOF. A batch over the bounds is an error that wraps ErrBatch.
func ReadBatch(r io.Reader) ([]Chunk, error) {
	br := bufio.NewReaderSize(r, 64<<10)
	var chunks []Chunk
	total := 0
	for {
		if _, err := br.Peek(1); errors.Is(err, io.EOF) {
			return chunks, nil
		}
		c, err := readChunk(br)
		if err != nil {
			return nil, err
		}
		if total += len(c.Data); total > 2*MaxBatchBytes {
			return nil, fmt.Errorf("%w: over %d bytes", ErrBatch, 2*MaxBatchBytes)
		}
		chunks = append(chunks, c)
	}
}

func readChunk(br *bufio.Reader) (Chunk, error) {
	id, err := readBytes(br, 64)
	if err != nil {
		return Chunk{}, err
	}
	off, err := binary.ReadUvarint(br)
	if err != nil {
		return Chunk{}, cut(err)
	}
	stream, err := br.ReadByte()
	if err != nil {
		return Chunk{}, cut(err)
	}
	at, err := binary.ReadVarint(br)
	if err != nil {
		return Chunk{}, cut(err)
	}
	data, err := readBytes(br, MaxChunkBytes)
	if err != nil {
		return Chunk{}, err
	}
	c := Chunk{Attempt: string(id), Offset: int64(off), Stream: Stream(stream), Time: time.Unix(0, at).UTC(), Data: data}
	if c.Stream != Stdout && c.Stream != Stderr || c.Offset < 0 || len(c.Data) == 0 {
		return Chunk{}, fmt.Errorf("%w: stream %d, offset %d, %d bytes", ErrBatch, c.Stream, c.Offset, len(c.Data))
	}
	return c, nil
}

func readBytes(br *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(br)
	if err != nil {
		return nil, cut(err)
	}
	if n > limit {
		return nil, fmt.Errorf("%w: a field of %d bytes, at most %d", ErrBatch, n, limit)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(br, b); err != nil {
		return nil, cut(err)
	}
	return b, nil
}

func cut(err error) error { return fmt.Errorf("%w: %w", ErrBatch, err) }
