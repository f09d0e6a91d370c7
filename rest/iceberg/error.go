package iceberg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/rest/httpx"
)

// answer is the status and the protocol's type of an error.
type answer struct {
	status int
	kind   string
}

// codes maps the domain's codes to the protocol.
var codes = map[domain.Code]answer{
	domain.CodeInvalid:         {http.StatusBadRequest, "BadRequestException"},
	domain.CodeUnauthenticated: {http.StatusUnauthorized, "NotAuthorizedException"},
	domain.CodeForbidden:       {http.StatusForbidden, "ForbiddenException"},
	domain.CodeNotFound:        {http.StatusNotFound, "NotFoundException"},
	domain.CodeConflict:        {http.StatusConflict, "ConflictException"},
	domain.CodeQuota:           {http.StatusTooManyRequests, "TooManyRequestsException"},
	domain.CodeTooLarge:        {http.StatusRequestEntityTooLarge, "RequestTooLargeException"},
	domain.CodeRange:           {http.StatusBadRequest, "BadRequestException"},
	domain.CodeRate:            {http.StatusTooManyRequests, "TooManyRequestsException"},
	domain.CodeUnavailable:     {http.StatusServiceUnavailable, "ServiceUnavailableException"},
	domain.CodeInternal:        {http.StatusInternalServerError, "InternalServerErrorException"},
}

// reasons maps the catalog's reasons to the protocol's statuses. An unknown outcome is 500 and
// never asks to retry. A client that retried would see its own commit refused, take that for a
// failure, and remove files that the table has.
var reasons = map[lake.Reason]int{
	lake.NoSuchWarehouse:     http.StatusNotFound,
	lake.NoSuchNamespace:     http.StatusNotFound,
	lake.NoSuchTable:         http.StatusNotFound,
	lake.NoSuchView:          http.StatusNotFound,
	lake.NoSuchFile:          http.StatusNotFound,
	lake.AlreadyExists:       http.StatusConflict,
	lake.NamespaceNotEmpty:   http.StatusConflict,
	lake.CommitFailed:        http.StatusConflict,
	lake.CommitStateUnknown:  http.StatusInternalServerError,
	lake.UnprocessableEntity: http.StatusUnprocessableEntity,
}

// refusal is an error in the form of the protocol.
type refusal struct {
	answer
	message string
	headers map[string]string
}

// Error implements error.
func (e *refusal) Error() string { return e.kind + ": " + e.message }

// refuse returns an error that the domain does not know.
func refuse(status int, kind, format string, args ...any) *refusal {
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = httpx.Shorten(s)
		}
	}
	return &refusal{answer: answer{status, kind}, message: fmt.Sprintf(format, args...)}
}

func errUnsupported() error {
	return refuse(http.StatusNotAcceptable, "UnsupportedOperationException",
		"This catalog does not have this operation; the list \"endpoints\" of %s/v1/config has all operations.", Prefix)
}

// fail answers with an error, and logs the cause of a server error.
func (f *face) fail(w http.ResponseWriter, r *http.Request, err error) {
	shown, ok := errors.AsType[*refusal](err)
	if !ok {
		shown = f.translate(r.Context(), err)
	}
	writeError(w, shown)
}

func (f *face) translate(ctx context.Context, err error) *refusal {
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		return ofHTTP(refused)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) && lake.ReasonOf(err) == "" {
		err = domain.Errorf(domain.CodeUnavailable, "The request was ended before it was done; try again.") // client left or server stops
	}
	shown := translated(err)
	if shown.status == http.StatusInternalServerError {
		f.Log.ErrorContext(ctx, "request failed", slog.String("request_id", httpx.RequestID(ctx)), slog.Any("error", err))
	}
	return shown
}

// kinds are the protocol's types of errors that exist only in HTTP.
var kinds = map[int]string{
	http.StatusRequestTimeout: "RequestTimeoutException", http.StatusUnsupportedMediaType: "UnsupportedMediaTypeException",
	http.StatusInternalServerError: "InternalServerErrorException",
}

func ofHTTP(r *httpx.Refusal) *refusal {
	shown := &refusal{answer: answer{r.Status, kinds[r.Status]}, message: r.Message, headers: map[string]string{}}
	for name := range r.Header {
		shown.headers[name] = r.Header.Get(name)
	}
	return shown
}

// translated returns the error that the client may see.
func translated(err error) *refusal {
	e := domain.AsError(err)
	shown := &refusal{message: sentence(e), headers: map[string]string{}}
	if reason := lake.ReasonOf(err); reason != "" {
		shown.answer = answer{reasons[reason], string(reason) + "Exception"}
	} else {
		shown.answer = codes[e.Code]
	}
	if shown.status == 0 {
		shown.answer = codes[domain.CodeInternal]
	}
	switch shown.status {
	case http.StatusUnauthorized:
		shown.headers["WWW-Authenticate"] = `Bearer realm="millpond"`
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		shown.headers["Retry-After"] = e.Seconds()
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

func writeError(w http.ResponseWriter, e *refusal) {
	for name, value := range e.headers {
		w.Header().Set(name, value)
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    int    `json:"code"`
		} `json:"error"`
	}
	body.Error.Message, body.Error.Type, body.Error.Code = e.message, e.kind, e.status
	writeJSON(w, e.status, body)
}

// writeJSON answers with v as one line of JSON.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // our own types always marshal
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // fails if the client left; nothing can be reported then
}
