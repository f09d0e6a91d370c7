package rest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// part is the requested range of the bytes stored so far.
type part struct {
	from, to int64 // to is the offset after the last byte
	status   int   // 200, or 206 for a Range
}

// part reads the offset or the Range header. Range does not apply with an offset, to a followed
// log, or to lines.
func (q logQuery) part(h http.Header, size int64) (part, error) {
	whole := part{from: max(0, q.offset), to: size, status: http.StatusOK}
	if whole.from > size {
		return part{}, domain.Errorf(domain.CodeRange, "offset is %d and the log ends at %d.", q.offset, size)
	}
	spec, bytes := strings.CutPrefix(h.Get("Range"), "bytes=")
	if !bytes || q.offset >= 0 || q.follow || q.json || size == 0 || h.Get("If-Range") != "" || strings.Contains(spec, ",") {
		return whole, nil
	}
	from, to, ok := byteRange(spec, size)
	if !ok {
		return part{}, domain.Errorf(domain.CodeRange, "The range %q is malformed or beyond the log, which ends at %d.", httpx.Shorten(spec), size)
	}
	return part{from: from, to: to, status: http.StatusPartialContent}, nil
}

// byteRange reads a-b, a- or -n.
func byteRange(spec string, size int64) (from, to int64, ok bool) {
	first, last, dash := strings.Cut(strings.TrimSpace(spec), "-")
	if !dash {
		return 0, 0, false
	}
	if first == "" {
		n, err := strconv.ParseUint(last, 10, 63)
		return max(0, size-int64(n)), size, err == nil && n > 0
	}
	a, err := strconv.ParseUint(first, 10, 63)
	if err != nil || int64(a) >= size {
		return 0, 0, false
	}
	if last == "" {
		return int64(a), size, true
	}
	b, err := strconv.ParseUint(last, 10, 63)
	return int64(a), min(size, int64(b)+1), err == nil && b >= a && int64(b)+1 > 0
}

// outside adds the log's end to a 416.
func outside(err error, size int64) error {
	e := domain.AsError(err)
	if e.Code != domain.CodeRange {
		return err
	}
	shown := newError(statuses[e.Code], e.Message)
	shown.headers.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
	shown.headers.Set(sizeHeader, strconv.FormatInt(size, 10))
	return shown
}
