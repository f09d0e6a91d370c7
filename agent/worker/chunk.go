package worker

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/millpond/millpond/agent"
)

const (
	mergeWithin = 10 * time.Millisecond  // marks of one stream this close together share a chunk …
	mergeMost   = 100 * time.Millisecond // … and up to this where the log is late by as much
	tailWait    = 50 * time.Millisecond  // for the rest of a rune
	chunkCost   = 256                    // what a chunk costs beside its bytes, against MaxBatchBytes
	marksRead   = 256                    // records read at once
)

// cutter cuts what an attempt's log has from one offset on into chunks.
type cutter struct {
	id    string
	data  []byte // of the log, from offset at
	at    int64
	end   int64 // of the log; data may end before
	whole bool  // nothing follows end: an incomplete rune there is sent as it is
	now   int64 // unix nanoseconds
	first bool  // no chunk was cut yet
	marks markReader
}

// next cuts the next chunk. It answers false when there is none, or none yet: tail says that the rest is an incomplete
// rune whose other bytes may still come.
func (c *cutter) next() (chunk agent.Chunk, ok, tail bool, err error) {
	if len(c.data) == 0 {
		return chunk, false, false, nil
	}
	m, err := c.marks.find(c.at)
	if err != nil {
		return chunk, false, false, err
	}
	n, tail, err := c.length(m)
	if err != nil || n == 0 {
		return chunk, false, tail, err
	}
	chunk = agent.Chunk{Attempt: c.id, Offset: c.at, Stream: m.Stream, Time: time.Unix(0, m.Time), Data: c.data[:n]}
	c.data, c.at, c.first = c.data[n:], c.at+int64(n), false
	return chunk, true, false, nil
}

// length is how many bytes the chunk that begins at c.at under mark m has.
func (c *cutter) length(m mark) (n int, tail bool, err error) {
	most := min(len(c.data), agent.MaxChunkBytes)
	n, hard, err := c.extent(m, most)
	if err != nil || hard {
		return n, false, err // the other stream goes on here, in the midst of a rune or not
	}
	if n < most { // a pause in the stream
		if t := incomplete(c.data[:n]); t < n {
			return n - t, false, nil
		}
	}
	if c.at+int64(most) < c.end { // there is more: end with a line, or a rune
		if i := bytes.LastIndexByte(c.data[:most], '\n'); i >= 0 {
			return i + 1, false, nil
		}
		if most < agent.MaxChunkBytes && !c.first {
			return 0, false, nil // the next batch reads on, and may find the line's end
		}
		return most - incomplete(c.data[:most]), false, nil
	}
	if c.whole {
		return most, false, nil
	}
	n = most - incomplete(c.data[:most])
	return n, n < most, nil
}

// extent is how far mark m reaches, with the marks that may be merged into it; hard when the other stream follows.
//
// A log that is late is cut more coarsely, by no more than its lateness: so many attempts that write single lines cost
// the control plane fewer rows the more of them there are.
func (c *cutter) extent(m mark, most int) (n int, hard bool, err error) {
	within := max(mergeWithin, min(mergeMost, time.Duration(c.now-m.Time)))
	for i := c.marks.hint + 1; ; i++ {
		next, ok, err := c.marks.record(i)
		if err != nil || !ok || next.Offset >= c.at+int64(most) {
			return most, false, err
		}
		n = int(next.Offset - c.at)
		if next.Stream != m.Stream {
			return n, true, nil
		}
		if time.Duration(next.Time-m.Time) > within && n >= utf8.UTFMax {
			return n, false, nil
		}
	}
}

// incomplete is how many bytes at the end of b are the beginning of a rune whose rest is missing.
func incomplete(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if utf8.RuneStart(b[len(b)-i]) {
			if utf8.FullRune(b[len(b)-i:]) {
				return 0
			}
			return i
		}
	}
	return 0
}

// markReader finds marks in an attempt's marks file.
type markReader struct {
	file io.ReaderAt
	hint int64 // a record at or before the next one looked for, most likely
	buf  []byte
	from int64 // the record at which buf begins
}

// record answers record i; false beyond the last.
func (r *markReader) record(i int64) (mark, bool, error) {
	at := (i - r.from) * markSize
	if at < 0 || at+markSize > int64(len(r.buf)) {
		if r.buf == nil {
			r.buf = make([]byte, 0, marksRead*markSize)
		}
		n, err := r.file.ReadAt(r.buf[:cap(r.buf)], i*markSize)
		if err != nil && err != io.EOF {
			return mark{}, false, err
		}
		r.buf, r.from, at = r.buf[:n-n%markSize], i, 0
		if len(r.buf) == 0 {
			return mark{}, false, nil
		}
	}
	return decodeMark(r.buf[at:]), true, nil
}

// find answers the mark that covers an offset, and leaves hint on it.
func (r *markReader) find(offset int64) (mark, error) {
	m, ok, err := r.record(r.hint)
	if err != nil {
		return m, err
	}
	if !ok || m.Offset > offset || r.hint == 0 && offset > 0 {
		if err := r.search(offset); err != nil {
			return m, err
		}
		if m, ok, err = r.record(r.hint); err != nil || !ok {
			return m, fmt.Errorf("no mark for byte %d of the log: %w", offset, err)
		}
	}
	for {
		next, ok, err := r.record(r.hint + 1)
		if err != nil || !ok || next.Offset > offset {
			return m, err
		}
		m = next
		r.hint++
	}
}

// search finds the last mark at or before an offset by halving. Records that were freed read as offset 0, which fits.
func (r *markReader) search(offset int64) error {
	var failed error
	count := sort.Search(1<<40, func(i int) bool {
		m, ok, err := r.record(int64(i))
		failed = err
		return err != nil || !ok || m.Offset > offset
	})
	r.hint = int64(max(count-1, 0))
	return failed
}
