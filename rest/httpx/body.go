package httpx

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// AnonymousBytes bounds the body of an unknown caller.
const AnonymousBytes = 64 << 10

// timelyBody bounds the time in which a body arrives, whoever reads it. net/http reads what a
// handler leaves unread, by the same deadline, before the answer is sent. The deadline is the
// connection's. It is removed at the end of the body, so that a handler may take its time. A read
// that comes too late fails for good.
type timelyBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timelyBody) bound(r *http.Request, control *http.ResponseController, limit time.Duration) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(limit)) // fails if it is closed, and in tests without it
	b.ReadCloser, b.control = r.Body, control
	r.Body = b
}

// Read implements io.Reader.
func (b *timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// Limit returns the limit for the caller: at most AnonymousBytes for an unknown caller.
func Limit(ctx context.Context, limit int64) int64 {
	if _, err := auth.ForCatalog(ctx); err != nil {
		return min(limit, AnonymousBytes)
	}
	return limit
}

// Receive reads the whole body, up to the limit, and at most AnonymousBytes of an unknown caller.
// Its bytes count as the request's until the request has been answered.
func Receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	limit = Limit(r.Context(), limit)
	if r.ContentLength > limit {
		return nil, tooLarge(w, limit)
	}
	lease := leaseOf(r.Context())
	var body []byte
	for {
		if room := cap(body); len(body) == room {
			more := max(firstBytes(r), min(int64(room), limit+1-int64(room)))
			if err := lease.HoldRequest(r.Context(), more); err != nil {
				w.Header().Set("Connection", "close") // the rest is not read
				return nil, err
			}
			body = slices.Grow(body, int(more))[: len(body) : room+int(more)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, tooLarge(w, limit)
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, broken(err)
		}
	}
}

// firstBytes returns how much is read at first: the announced length and one more byte to find the
// end, or a few bytes. For an unknown caller it is always a few: unknown callers share one bound,
// and an announced length must not use it up.
func firstBytes(r *http.Request) int64 {
	const few = 512
	switch _, err := auth.ForCatalog(r.Context()); {
	case r.ContentLength < 0:
		return few
	case err != nil:
		return min(r.ContentLength+1, few)
	}
	return min(r.ContentLength, AnonymousBytes) + 1
}

func tooLarge(w http.ResponseWriter, limit int64) error {
	w.Header().Set("Connection", "close") // the rest is not read
	return domain.Errorf(domain.CodeTooLarge, "The body is larger than %d bytes.", limit)
}

func broken(err error) error {
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return &Refusal{Status: http.StatusRequestTimeout, Message: "The body did not arrive in time; send the request again."}
	}
	return domain.Invalid("body", "The body could not be read to its end.").Because(err)
}

// NotCoded refuses a body with a content coding, because its decoded length is unknown.
func NotCoded(header http.Header) error {
	coding := header.Get("Content-Encoding")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	return &Refusal{
		Status: http.StatusUnsupportedMediaType, Message: "Send the body as it is, without Content-Encoding: " + Shorten(coding) + ".",
		Header: http.Header{"Accept-Encoding": {"identity"}},
	}
}

// IsJSON refuses a body unless its headers declare JSON in UTF-8 without a content coding.
func IsJSON(header http.Header) error {
	if err := NotCoded(header); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" {
		return &Refusal{Status: http.StatusUnsupportedMediaType, Message: "Send the body as JSON, with the header Content-Type: application/json."}
	}
	return nil
}

// maxKey bounds an Idempotency-Key, in bytes.
const maxKey = 255

// Key returns the request's Idempotency-Key, or an empty string without the header.
func Key(header http.Header) (string, error) {
	key := header.Get("Idempotency-Key")
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", domain.Invalid("Idempotency-Key", "The header Idempotency-Key has more than %d characters, or characters outside ASCII; send a UUID.", maxKey)
	}
	return key, nil
}
