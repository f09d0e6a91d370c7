package rest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
)

// about heads the API's description. It and the operations state what the specification leaves
// open.
const about = `The REST API of Millpond. All paths are relative to the server's URL, which ends with the version.

**Requests.** Bodies are JSON in UTF-8 with ` + "`Content-Type: application/json`" + `. Another type, or a Content-Encoding, is 415. More than 8 MiB (64 KiB without a credential) is 413.
A body that does not arrive within a minute is 408. A body is exactly one value: unknown or repeated fields, NUL characters and wrong types are 400.
A body for an operation without one is 400, and so are unknown query parameters. Names are case-sensitive.

**Credentials.** A request sends ` + "`Authorization: Bearer <token>`" + `. The token is an access token of ` + "`POST /auth/login`" + `, an API key (` + "`svc_sk_…`" + `) or, in a task's process, its ` + "`MILLPOND_TOKEN`" + `.
A missing, expired or revoked token is 401 with WWW-Authenticate. Everything is scoped to one workspace: another workspace's resources are 404.

**Roles.** A viewer reads. An editor also creates, changes and runs. An admin also manages members, others' keys, agents, quotas, and the providers of machines and storage. An action that the role does not permit is 403.

**Answers.** Times are ISO 8601 in UTC with microseconds. Arrays are never null. Every list takes limit (1 to 200, 50 by default) and cursor, and has next_cursor only if more rows exist.
A cursor of another list or filter is 400. Every answer has an X-Request-Id: the caller's own if it is valid. HEAD works wherever GET does.

**Errors** have the body ` + "`{\"error\": \"…\"}`" + ` and nothing else. 409 is a conflict with a resource's state. 429 states a quota's exact limit, or has Retry-After if too many logins failed.
500 and 503 are the server's errors: X-Request-Id identifies the cause in its log.

**Retries.** An Idempotency-Key makes these safe to repeat: creating a job, a compute instance or a warehouse, starting a run or a machine, and repairing a run.

**Versions.** The headers Deprecation and Sunset announce a deprecation.`

// failures are the descriptions of error statuses, shared by all operations.
var failures = map[int]string{
	http.StatusBadRequest:                   "The request is malformed or a parameter is invalid.",
	http.StatusUnauthorized:                 "The token is missing, expired or revoked, or the login's credentials are wrong.",
	http.StatusForbidden:                    "The caller's role does not permit this.",
	http.StatusNotFound:                     "There is no such thing in the caller's workspace.",
	http.StatusRequestTimeout:               "The body did not arrive within a minute.",
	http.StatusConflict:                     "The resource's state conflicts with the request, or an idempotency key was used for another request.",
	http.StatusRequestEntityTooLarge:        "The body is too large.",
	http.StatusUnsupportedMediaType:         "The Content-Type is missing or is not application/json, or the body has a Content-Encoding.",
	http.StatusRequestedRangeNotSatisfiable: "The offset or the range begins beyond the end; Content-Range has the size.",
	http.StatusTooManyRequests:              "A quota is reached; the body states it exactly: max_running_runs=10, current=10. Or too many logins failed, or the workspace has too many requests at once; Retry-After is the number of seconds to wait.",
	http.StatusInternalServerError:          "An internal error. X-Request-Id identifies it in the server's log.",
	http.StatusServiceUnavailable:           "A required part of the platform is not available; try again after Retry-After seconds.",
}

// failureName returns the name of a status as a component: BadRequest.
func failureName(status int) string {
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

func (a *api) config() huma.Config {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Millpond", Version: "1", Description: about},
			Servers: []*huma.Server{{URL: Prefix}},
			Components: &huma.Components{
				Schemas:   huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				Responses: map[string]*huma.Response{},
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "An access token, an API key, or a run's token."},
					"cookie": {Type: "apiKey", In: "cookie", Name: "__Host-millpond", Description: "The console's session. It is accepted only for logs, which browsers download."},
				},
			},
		},
		Formats:       map[string]huma.Format{"application/json": jsonFormat},
		DefaultFormat: "application/json",
	}
	for status, description := range failures {
		config.Components.Responses[failureName(status)] = failure(status, description)
	}
	return config
}

func failure(status int, description string) *huma.Response {
	headers := map[string]*huma.Header{}
	switch status {
	case http.StatusUnauthorized:
		headers["WWW-Authenticate"] = stringHeader("How to authenticate.")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		headers["Retry-After"] = stringHeader("Seconds to wait, if known.")
	case http.StatusRequestedRangeNotSatisfiable:
		headers["Content-Range"] = stringHeader("bytes */ and the size.")
	}
	return &huma.Response{
		Description: description, Headers: headers,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Ref: "#/components/schemas/Error"}}},
	}
}

func stringHeader(description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// describe serves the API's description and its page, which require no credential. Each form is
// rendered at its first request.
func (a *api) describe(r chi.Router) {
	a.serve(r, "/openapi.json", "application/json", func() ([]byte, error) { return json.Marshal(a.OpenAPI()) })
	a.serve(r, "/openapi.yaml", "application/yaml", func() ([]byte, error) { return a.OpenAPI().YAML() })
	a.serve(r, "/docs", "text/html; charset=utf-8", func() ([]byte, error) { return docsPage(a.OpenAPI()) })
	a.serve(r, "/docs.css", "text/css; charset=utf-8", func() ([]byte, error) { return docsCSS, nil })
	a.serve(r, "/docs.js", "text/javascript; charset=utf-8", func() ([]byte, error) { return docsJS, nil })
}

func (a *api) serve(r chi.Router, path, contentType string, render func() ([]byte, error)) {
	rendered := sync.OnceValues(render)
	r.Get(path, func(w http.ResponseWriter, r *http.Request) {
		content, err := rendered()
		if err != nil {
			a.fail(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(content) // fails if the client left; nothing can be reported then
	})
}

func runLogs() *huma.Operation {
	return logOperation("/runs/{id}/logs", "get-run-logs", "Get the log of a run with a single command", nil)
}

func taskLogs() *huma.Operation {
	key := &huma.Param{Name: "key", In: "path", Required: true, Description: "The task's key.", Schema: &huma.Schema{Type: huma.TypeString}}
	return logOperation("/runs/{id}/tasks/{key}/logs", "get-task-logs", "Get the log of one task", key)
}

const aboutLogs = `The exact bytes that the process wrote to stdout and stderr, in the order of arrival, both live and from the archive. An offset counts bytes and is the same everywhere.
stdout and stderr are separate pipes: each keeps its order, but the order between them is uncertain within a few milliseconds. ` + "`exec 2>&1`" + ` merges them.

Decided here: the log is of one attempt, by default the latest. An offset at the end is valid, and waits when following; an offset beyond the end is 416. Before the first attempt the log is empty,
and following waits for it. ` + "`follow`" + ` streams until the end of this attempt, not of a later one. The connection is cut if the log cannot be sent whole, or the credential ends.
X-Log-Next-Offset is the offset to continue from; when following, it is a trailer.

` + "`format=json`" + ` returns one JSON object per line (application/x-ndjson), as in the schema LogLine. A line appears once its line end has arrived. A line of more than
64 KiB, or with output of the other stream in between, has several records with the same number.

Range applies to a text log without offset that is not followed. Several ranges at once are not supported: the answer is the whole log. Only this and the other log operation
accept the console's cookie.`

func logOperation(path, id, summary string, extra *huma.Param) *huma.Operation {
	op := &huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: id, Tags: []string{"Logs"}, Summary: summary, Description: aboutLogs,
		Security: []map[string][]string{{"bearer": {}}, {"cookie": {}}},
		Errors:   []int{http.StatusRequestedRangeNotSatisfiable},
		Parameters: []*huma.Param{{
			Name: "id", In: "path", Required: true, Description: "The run's id.", Schema: &huma.Schema{Type: huma.TypeString},
		}},
	}
	if extra != nil {
		op.Parameters = append(op.Parameters, extra)
	}
	documentFailures(op, false)
	zero, one := 0.0, 1.0
	for _, p := range []*huma.Param{
		{Name: "attempt", Description: "Number of the attempt, from 1. Defaults to the latest.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &one}},
		{Name: "offset", Description: "Offset of the first byte.", Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &zero}},
		{Name: "follow", Description: "Stream the log live until the attempt ends.", AllowEmptyValue: true, Schema: &huma.Schema{Type: huma.TypeBoolean}},
		{Name: "format", Description: "text returns the exact bytes, json one JSON object per line.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"text", "json"}, Default: "text"}},
		{Name: "download", Description: "Make a browser save the log as a file.", AllowEmptyValue: true, Schema: &huma.Schema{Type: huma.TypeBoolean}},
	} {
		p.In = "query"
		op.Parameters = append(op.Parameters, p)
	}
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: "Range", In: "header", Description: "bytes=a-b, bytes=a- or bytes=-n.", Schema: &huma.Schema{Type: huma.TypeString},
	})
	op.Responses["200"] = logResponse("The log.", nil)
	op.Responses["206"] = logResponse("The bytes of the Range header.", map[string]*huma.Header{"Content-Range": stringHeader("bytes first-last/size.")})
	return op
}

func logResponse(description string, headers map[string]*huma.Header) *huma.Response {
	r := &huma.Response{
		Description: description,
		Headers: map[string]*huma.Header{
			attemptHeader:         numberHeader("The number of the attempt. Absent before the first attempt."),
			sizeHeader:            numberHeader("Bytes stored when the request arrived."),
			nextOffsetHeader:      numberHeader("The offset to continue from."),
			"Content-Disposition": stringHeader("With download: a file name built from the job, the run, the task and the attempt."),
		},
		Content: map[string]*huma.MediaType{
			"text/plain":           {Schema: &huma.Schema{Type: huma.TypeString}},
			"application/x-ndjson": {Schema: &huma.Schema{Ref: "#/components/schemas/LogLine"}},
		},
	}
	for name, h := range headers {
		r.Headers[name] = h
	}
	return r
}

func numberHeader(description string) *huma.Header {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64"}}
}
