package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// The protocol's codes of errors.
const (
	internalError     = "INTERNAL_ERROR"
	unavailable       = "TEMPORARILY_UNAVAILABLE"
	invalidParameter  = "INVALID_PARAMETER_VALUE"
	invalidState      = "INVALID_STATE"
	alreadyExists     = "RESOURCE_ALREADY_EXISTS"
	doesNotExist      = "RESOURCE_DOES_NOT_EXIST"
	endpointNotFound  = "ENDPOINT_NOT_FOUND"
	unauthenticated   = "UNAUTHENTICATED"
	permissionDenied  = "PERMISSION_DENIED"
	resourceExhausted = "RESOURCE_EXHAUSTED"
	requestLimit      = "REQUEST_LIMIT_EXCEEDED"
)

// outcome is the status and the protocol's code of an error.
type outcome struct {
	status int
	code   string
}

// codes maps the domain's codes to the protocol. Clients repeat a request for minutes when they get
// 408, 429 or 5xx. So what would fail again has another status, also a full quota.
var codes = map[domain.Code]outcome{
	domain.CodeInvalid:         {http.StatusBadRequest, invalidParameter},
	domain.CodeUnauthenticated: {http.StatusUnauthorized, unauthenticated},
	domain.CodeForbidden:       {http.StatusForbidden, permissionDenied},
	domain.CodeNotFound:        {http.StatusNotFound, doesNotExist},
	domain.CodeConflict:        {http.StatusBadRequest, invalidParameter},
	domain.CodeQuota:           {http.StatusBadRequest, resourceExhausted},
	domain.CodeTooLarge:        {http.StatusRequestEntityTooLarge, invalidParameter},
	domain.CodeRange:           {http.StatusBadRequest, invalidParameter},
	domain.CodeRate:            {http.StatusTooManyRequests, requestLimit},
	domain.CodeUnavailable:     {http.StatusServiceUnavailable, unavailable},
	domain.CodeInternal:        {http.StatusInternalServerError, internalError},
}

// refusal is an error in the form of the protocol.
type refusal struct {
	outcome
	message string
	header  http.Header // of the answer; may be nil
}

// Error implements error.
func (e *refusal) Error() string { return e.code + ": " + e.message }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{outcome: outcome{status, code}, message: domain.Sprintf(format, args)}
}

// hint ends the messages about parameters.
const hint = " See the API docs for more information about request parameters."

func missing(name string) *refusal {
	return refuse(http.StatusBadRequest, invalidParameter, "Missing value for required parameter '%s'."+hint, name)
}

// invalid refuses a value, which is JSON.
func invalid(name string, value []byte) *refusal {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		b.Reset()
		b.Write(value)
	}
	return refuse(http.StatusBadRequest, invalidParameter, "Invalid value %s for parameter '%s' supplied:  Hint: Value was of type '%s'."+hint, b.String(), name, pythonType(value))
}

// pythonType names the type of a JSON value as MLflow's server does.
func pythonType(value []byte) string {
	switch value[0] {
	case '"':
		return "str"
	case '[':
		return "list"
	case '{':
		return "dict"
	case 't', 'f':
		return "bool"
	}
	if bytes.ContainsAny(value, ".eE") {
		return "float"
	}
	return "int"
}

// fail answers with an error, and logs the cause of a server error.
func (f *face) fail(w http.ResponseWriter, r *http.Request, err error) {
	shown, ok := errors.AsType[*refusal](err)
	if !ok {
		shown = f.translate(r.Context(), err)
	}
	for name, values := range shown.header {
		w.Header()[name] = values
	}
	writeJSON(w, shown.status, struct {
		Code    string `json:"error_code"`
		Message string `json:"message"`
	}{shown.code, shown.message})
}

func (f *face) translate(ctx context.Context, err error) *refusal {
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		return ofHTTP(refused)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = domain.Errorf(domain.CodeUnavailable, "The request was ended before it was done; try again.") // client left or server stops
	}
	shown := translated(domain.AsError(err))
	if shown.status == http.StatusInternalServerError {
		f.Log.ErrorContext(ctx, "request failed", slog.String("request_id", httpx.RequestID(ctx)), slog.Any("error", err))
	}
	return shown
}

// ofHTTP returns a refusal that exists only in HTTP: of a body that is late, or coded.
func ofHTTP(r *httpx.Refusal) *refusal {
	code := invalidParameter
	switch r.Status {
	case http.StatusRequestTimeout:
		code = unavailable
	case http.StatusInternalServerError:
		code = internalError
	}
	return &refusal{outcome{r.Status, code}, r.Message, r.Header}
}

// translated returns the error that the client may see.
func translated(e *domain.Error) *refusal {
	shown := &refusal{outcome: codes[e.Code], message: e.Message, header: http.Header{}}
	if e.Code == domain.CodeConflict && e.Field == "name" {
		shown.code = alreadyExists
	}
	switch shown.status {
	case 0:
		shown.outcome = codes[domain.CodeInternal]
	case http.StatusUnauthorized:
		shown.header.Set("WWW-Authenticate", `Bearer realm="millpond"`)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		shown.header.Set("Retry-After", e.Seconds())
	}
	return shown
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
