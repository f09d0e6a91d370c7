package worker

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"time"
	"unicode/utf8"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

const (
	mergeWithin = 10 * time.Millisecond  // marks of one stream this close together share a chunk …
	mergeMost   = 100 * time.Millisecond // … and up to this if the log is late by as much
	tailWait    = 50 * time.Millisecond  // for the rest of a rune
	chunkCost   = 256                    // bytes that a chunk counts beside its data, against MaxBatchBytes
	marksRead   = 256                    // records read at once
)

// cutter cuts an attempt's log into chunks, starting at one offset.
type cutter struct {
	id    string
	data  []byte // of the log, from offset at
	at    int64
	end   int64 // of the log; data may end before
	whole bool  // nothing follows end: an incomplete rune there is sent unchanged
	now   int64 // unix nanoseconds
	first bool  // no chunk was cut yet
	marks markReader
}

// next cuts the next chunk. It returns false if there is no chunk yet. tail means that the rest is
// an incomplete rune, and more of its bytes may come.
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

// length is the length of the chunk that begins at c.at under mark m.
func (c *cutter) length(m shim.Mark) (n int, tail bool, err error) {
	most := min(len(c.data), agent.MaxChunkBytes)
	n, hard, err := c.extent(m, most)
	if err != nil || hard {
		return n, false, err // the other stream continues here, possibly within a rune
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

// extent is the number of bytes that mark m covers, with the marks that may be merged into it. hard
// means that the other stream follows.
//
// A late log is cut more coarsely, up to its lateness. So when many attempts write single lines,
// the control plane stores fewer rows.
func (c *cutter) extent(m shim.Mark, most int) (n int, hard bool, err error) {
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

// incomplete is the number of bytes of an incomplete rune at the end of b.
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
	hint int64 // a record probably at or before the next search
	buf  []byte
	from int64 // the record at which buf begins
}

// record returns record i; false beyond the last.
func (r *markReader) record(i int64) (shim.Mark, bool, error) {
	at := (i - r.from) * shim.MarkSize
	if at < 0 || at+shim.MarkSize > int64(len(r.buf)) {
		if r.buf == nil {
			r.buf = make([]byte, 0, marksRead*shim.MarkSize)
		}
		n, err := r.file.ReadAt(r.buf[:cap(r.buf)], i*shim.MarkSize)
		if err != nil && err != io.EOF {
			return shim.Mark{}, false, err
		}
		r.buf, r.from, at = r.buf[:n-n%shim.MarkSize], i, 0
		if len(r.buf) == 0 {
			return shim.Mark{}, false, nil
		}
	}
	return shim.DecodeMark(r.buf[at:]), true, nil
}

// find returns the mark that covers an offset, and sets hint to it.
func (r *markReader) find(offset int64) (shim.Mark, error) {
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

// search finds the last mark at or before an offset by binary search. Freed records read as offset
// 0, which keeps the order.
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
