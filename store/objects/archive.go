package objects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/millpond/millpond/domain/job"
)

// Archive packs chunks of a log into one compressed object. Each chunk is its offset, stream, first
// line, time in nanoseconds and length as varints, then its bytes. The object is one zstd frame
// with a checksum. Archive implements job.Archive.
type Archive struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

var _ job.Archive = (*Archive)(nil)

// maxArchive bounds an unpacked object, in bytes.
const maxArchive = 64 << 20

// NewArchive returns an archive, which several goroutines may use.
func NewArchive() (*Archive, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(true), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxArchive), zstd.WithDecoderConcurrency(2))
	return &Archive{encoder: encoder, decoder: decoder}, err
}

// Pack implements job.Archive.
func (a *Archive) Pack(chunks []job.LogChunk) []byte {
	var b []byte
	for _, c := range chunks {
		b = binary.AppendUvarint(b, uint64(c.Offset))
		b = append(b, byte(c.Stream))
		b = binary.AppendUvarint(b, uint64(c.FirstLine))
		b = binary.AppendVarint(b, c.EmittedAt.UnixNano())
		b = binary.AppendUvarint(b, uint64(len(c.Data)))
		b = append(b, c.Data...)
	}
	return a.encoder.EncodeAll(b, nil)
}

var errArchive = errors.New("the object is not a log archive")

// Unpack implements job.Archive.
func (a *Archive) Unpack(object []byte) ([]job.LogChunk, error) {
	b, err := a.decoder.DecodeAll(object, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errArchive, err)
	}
	var chunks []job.LogChunk
	for r := (reader{b: b}); len(r.b) > 0; {
		c := job.LogChunk{Offset: int64(r.uvarint()), Stream: job.LogStream(r.byte()), FirstLine: int64(r.uvarint())}
		c.EmittedAt = time.Unix(0, r.varint()).UTC()
		c.Data = r.bytes(r.uvarint())
		if r.bad {
			return nil, errArchive
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// reader reads fields from the front of b, and sets bad when b is too short.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) took(n int) {
	if n <= 0 {
		r.b, r.bad = nil, true
		return
	}
	r.b = r.b[n:]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.took(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.took(n)
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	data := r.b[:n:n]
	r.b = r.b[n:]
	return data
}
