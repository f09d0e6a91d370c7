package httpx

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// pieceBytes is the size of an answer's piece. A reader of 18 kB/s receives a whole answer; a
// client that stopped reading is cut. Smaller pieces cost a large answer noticeable time on the
// server, because the kernel takes megabytes at once.
const pieceBytes = 1 << 20

// largeBytes is the size from which an answer counts as memory.
const largeBytes = 64 << 10

// ErrRefused means that there is no memory for the answer. The client gets a refusal instead.
var ErrRefused = errors.New("httpx: the answer was refused")

// Pieces writes to a client in pieces of Size bytes. Before each piece it sets, by Deadline, the
// time by which the client must receive it. So the slowest reader gets Size bytes in Time.
type Pieces struct {
	To       io.Writer
	Size     int
	Deadline func(time.Time) error
	Time     time.Duration
}

// Write implements io.Writer.
func (p Pieces) Write(b []byte) (n int, err error) {
	for more := true; more && err == nil; more = n < len(b) {
		_ = p.Deadline(time.Now().Add(p.Time)) // without deadlines, nothing waits for the reader
		var wrote int
		wrote, err = p.To.Write(b[n:min(len(b), n+p.Size)])
		n += wrote
	}
	return n, err
}

// answer writes an answer in pieces. Its status is sent with its first bytes, so that it can still
// be refused for lack of memory.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	request *http.Request
	time    time.Duration
	lease   *Lease // nil if the answer is shared memory
	fail    func(http.ResponseWriter, *http.Request, error)

	status   int // 0 before WriteHeader
	sent     bool
	refused  bool
	hijacked bool
}

// begin removes the deadline of the connection's previous answer.
func (a *answer) begin() { _ = a.control.SetWriteDeadline(time.Time{}) }

// end sends what net/http still buffers, within the time of a piece.
func (a *answer) end() {
	if a.hijacked {
		return
	}
	a.send()
	_ = a.control.SetWriteDeadline(time.Now().Add(a.time))
}

// Unwrap returns the underlying writer for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	switch {
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		a.ResponseWriter.WriteHeader(status)
	case a.status == 0 && !a.refused:
		a.status = status
	}
}

func (a *answer) send() {
	if !a.sent && a.status != 0 {
		a.ResponseWriter.WriteHeader(a.status)
	}
	a.sent = true
}

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) {
	if a.refused {
		return 0, ErrRefused
	}
	if err := a.hold(len(b)); err != nil {
		a.refuse(err)
		return 0, ErrRefused
	}
	a.send()
	return Pieces{a.ResponseWriter, pieceBytes, a.control.SetWriteDeadline, a.time}.Write(b)
}

// hold counts a large answer to a read, less what the handler has counted. A request that changed
// something is always answered.
func (a *answer) hold(n int) error {
	reads := a.request.Method == http.MethodGet || a.request.Method == http.MethodHead
	if n <= largeBytes || a.sent || !reads || a.lease == nil {
		return nil
	}
	return a.lease.holdAtLeast(a.request.Context(), int64(n))
}

// describing are the headers that describe the unsent answer.
var describing = []string{
	"Accept-Ranges", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type", "Etag", "Last-Modified", "Location", "Set-Cookie",
}

// refuse answers with an error instead, if nothing was sent.
func (a *answer) refuse(err error) {
	for _, name := range describing {
		a.Header().Del(name)
	}
	a.status = 0
	a.fail(a, a.request, err)
	a.refused = true
}

// FlushError implements the flusher of http.ResponseController.
func (a *answer) FlushError() error {
	if a.refused {
		return ErrRefused
	}
	a.send()
	_ = a.control.SetWriteDeadline(time.Now().Add(a.time))
	return a.control.Flush()
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// Hijack implements http.Hijacker, which WebSockets need.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.sent, a.hijacked = true, true
	return a.control.Hijack()
}
