package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/millpond/millpond/domain"
)

// statuses is the one table from the domain's codes to HTTP's.
var statuses = map[domain.Code]int{
	domain.CodeInvalid:         http.StatusBadRequest,
	domain.CodeUnauthenticated: http.StatusUnauthorized,
	domain.CodeForbidden:       http.StatusForbidden,
	domain.CodeNotFound:        http.StatusNotFound,
	domain.CodeConflict:        http.StatusConflict,
	domain.CodeQuota:           http.StatusTooManyRequests,
	domain.CodeTooLarge:        http.StatusRequestEntityTooLarge,
	domain.CodeRange:           http.StatusRequestedRangeNotSatisfiable,
	domain.CodeRate:            http.StatusTooManyRequests,
	domain.CodeUnavailable:     http.StatusServiceUnavailable,
	domain.CodeInternal:        http.StatusInternalServerError,
}

// Error is the body of every answer that is not a success.
type Error struct {
	Message string `json:"error" doc:"What is wrong and what to do, in a sentence. At a quota it states the ceiling: max_running_runs=10, current=10."`

	status  int
	headers http.Header
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// GetStatus implements huma.StatusError.
func (e *Error) GetStatus() int { return e.status }

// GetHeaders implements huma.HeadersError.
func (e *Error) GetHeaders() http.Header { return e.headers }

func newError(status int, message string) *Error {
	return &Error{status: status, Message: message, headers: http.Header{}}
}

// translate turns any error into what a caller may see, and logs the cause of an internal one.
func (a *api) translate(ctx context.Context, err error) *Error {
	if shown, ok := errors.AsType[*Error](err); ok {
		return shown
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = domain.Errorf(domain.CodeUnavailable, "The request was ended before it was done; try again.") // the client has gone, or the server stops
	}
	e := domain.AsError(err)
	status, known := statuses[e.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	if status == http.StatusInternalServerError {
		a.log.ErrorContext(ctx, "request failed", slog.String("request_id", requestID(ctx)), slog.Any("error", err))
	}
	shown := newError(status, sentence(e))
	switch e.Code {
	case domain.CodeUnauthenticated:
		shown.headers.Set("WWW-Authenticate", `Bearer realm="millpond"`)
	case domain.CodeRate:
		shown.headers.Set("Retry-After", "60")
	case domain.CodeUnavailable:
		shown.headers.Set("Retry-After", "5")
	}
	return shown
}

// sentence names the field where the message does not.
func sentence(e *domain.Error) string {
	if e.Field == "" || strings.Contains(e.Message, e.Field) {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// fail answers with an error outside huma.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	writeError(w, a.translate(r.Context(), err))
}

func writeError(w http.ResponseWriter, e *Error) {
	for name, values := range e.headers {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.status)
	_ = writeJSON(w, e)
}

// maxShown bounds how much of what a caller sent is shown back, in bytes.
const maxShown = 200

// shorten cuts what came from outside to what a message can hold.
func shorten(s string) string {
	if len(s) > maxShown {
		s = s[:maxShown] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// writeJSON writes v as one line of JSON without an end of line, so that a body is exactly what the specification says.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n"))) // fails when the client has gone, and then nobody is to be told
	return nil
}
