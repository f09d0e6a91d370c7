package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// statuses maps the domain's codes to HTTP statuses.
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

// Error is the body of every unsuccessful answer.
type Error struct {
	Message string `json:"error" doc:"What is wrong and what to do, in a sentence. At a quota it states the limit: max_running_runs=10, current=10."`

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

// translate turns any error into one that the caller may see. It logs the cause of an internal
// error.
func (a *api) translate(ctx context.Context, err error) *Error {
	if shown, ok := errors.AsType[*Error](err); ok {
		return shown
	}
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		shown := newError(refused.Status, refused.Message)
		maps.Copy(shown.headers, refused.Header)
		return shown
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = domain.Errorf(domain.CodeUnavailable, "The request was ended before it was done; try again.") // client left or server stops
	}
	e := domain.AsError(err)
	status, known := statuses[e.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	if status == http.StatusInternalServerError {
		a.log.ErrorContext(ctx, "request failed", slog.String("request_id", httpx.RequestID(ctx)), slog.Any("error", err))
	}
	shown := newError(status, sentence(e))
	switch e.Code {
	case domain.CodeUnauthenticated:
		shown.headers.Set("WWW-Authenticate", `Bearer realm="millpond"`)
	case domain.CodeRate, domain.CodeUnavailable:
		shown.headers.Set("Retry-After", e.Seconds())
	}
	return shown
}

// sentence adds the field's name unless the message contains it.
func sentence(e *domain.Error) string {
	if e.Field == "" || strings.Contains(e.Message, e.Field) {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// fail writes an error outside of huma.
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

// writeJSON writes v as one line of JSON without a line end, so that a body is exactly what the
// specification says.
func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n"))) // fails if the client left; nothing can be reported then
	return nil
}
