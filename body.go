package main

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyTime is how long a request's body may take to arrive.
const bodyTime = time.Minute

// timely bounds the time in which a request's body arrives, whoever reads it: what a handler leaves unread, net/http reads to its end before the
// answer goes out, by the same deadline. It is the connection's own, so it goes with the end of the body and a handler may take its time. A read
// that comes too late fails with a time-out, for good: the deadline then stays until the connection closes.
func timely(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody {
				next.ServeHTTP(w, r)
				return
			}
			control := http.NewResponseController(w)
			if err := control.SetReadDeadline(time.Now().Add(limit)); errors.Is(err, http.ErrNotSupported) {
				panic(err) // every connection of ours has deadlines; one that is closed fails when it is read
			}
			bounded := r.WithContext(r.Context()) // net/http looks at the request's own body at the end
			bounded.Body = &timelyBody{ReadCloser: r.Body, control: control}
			next.ServeHTTP(w, bounded)
		})
	}
}

// timelyBody takes the deadline away when the body has arrived.
type timelyBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (b *timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // fails on a connection that is closed, where nothing is read any more
	}
	return n, err
}
