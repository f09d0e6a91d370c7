package rest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
)

// about heads the API's description. What the specification leaves open is decided there and at each operation.
const about = `The REST API of Millpond. All paths are relative to the server's URL, which ends with the version.

**Requests.** Bodies are JSON in UTF-8 with ` + "`Content-Type: application/json`" + `; anything else, and any Content-Encoding, is 415, more than 8 MiB (64 KiB without a credential) is 413. A body is
exactly one value; fields that are unknown or given twice, NUL characters and wrong types are 400, and so is a body where an operation takes none. One that does not arrive within a minute is 408. Query parameters that an operation does not have are 400 as well. Names are case-sensitive.

**Credentials.** An access token of ` + "`POST /auth/login`" + `, an API key (` + "`svc_sk_…`" + `) or, in a task's process, its ` + "`MILLPOND_TOKEN`" + `, sent as
` + "`Authorization: Bearer <token>`" + `. A token that is missing, expired or revoked is 401 with WWW-Authenticate. Everything is scoped to one workspace: another workspace's resources are 404.

**Roles.** A viewer reads, an editor makes, runs and changes, an admin manages members, others' keys, agents, quotas, and where machines and storage come from. What a role may not do is 403.

**Answers.** Times are ISO 8601 in UTC with microseconds. Arrays are never null. Every list takes limit (1 to 200, 50 by default) and cursor, and has next_cursor only when more rows
exist; a cursor of another list or filter is 400. Every answer has an X-Request-Id, the caller's own where it sent a sane one. HEAD works wherever GET does.

**Errors** have the body ` + "`{\"error\": \"…\"}`" + ` and nothing else. 401, 403 and 404 mean what they say; 409 is a conflict with the state that something is in; 429 states a quota's exact ceiling,
or comes with Retry-After where too many logins failed; 500 and 503 are ours, and their X-Request-Id leads to the cause in the server's log.

**Retries.** Creating a job, a compute instance or a warehouse, starting a run or one of these, and repairing a run take an Idempotency-Key.

**Versions.** A deprecation is announced by the headers Deprecation and Sunset.`

// failures are the answers that are not a success, as operations share them.
var failures = map[int]string{
	http.StatusBadRequest:                   "The request is malformed or a parameter is invalid.",
	http.StatusUnauthorized:                 "The token is missing, expired or revoked, or the login's credentials are wrong.",
	http.StatusForbidden:                    "The caller's role does not permit this.",
	http.StatusNotFound:                     "There is no such thing in the caller's workspace.",
	http.StatusRequestTimeout:               "The body did not arrive within a minute.",
	http.StatusConflict:                     "It conflicts with the state that something is in, or an idempotency key was used for another request.",
	http.StatusRequestEntityTooLarge:        "The body is too large.",
	http.StatusUnsupportedMediaType:         "The body has no or another Content-Type than application/json, or a Content-Encoding.",
	http.StatusRequestedRangeNotSatisfiable: "The offset or the range begins beyond the end; Content-Range has the size.",
	http.StatusTooManyRequests:              "A quota is reached; the body states it exactly: max_running_runs=10, current=10. Or too many logins failed; Retry-After says how many seconds to wait.",
	http.StatusInternalServerError:          "Something went wrong on our side. X-Request-Id leads to it in the server's log.",
	http.StatusServiceUnavailable:           "Something that is needed does not answer at present; try again after Retry-After seconds.",
}

// failureName is the status as a name of a component: BadRequest.
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
					"cookie": {Type: "apiKey", In: "cookie", Name: "__Host-millpond", Description: "The console's session; for logs only, which browsers download."},
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
		headers["Retry-After"] = stringHeader("Seconds to wait, where that is known.")
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

// describe serves the description of the API and the page to read it. Nobody needs a credential for them.
func (a *api) describe(r chi.Router) error {
	spec, err := json.Marshal(a.OpenAPI())
	if err != nil {
		return err
	}
	yaml, err := a.OpenAPI().YAML()
	if err != nil {
		return err
	}
	page, err := docsPage(a.OpenAPI())
	if err != nil {
		return err
	}
	serve(r, "/openapi.json", "application/json", spec)
	serve(r, "/openapi.yaml", "application/yaml", yaml)
	serve(r, "/docs", "text/html; charset=utf-8", page)
	serve(r, "/docs.css", "text/css; charset=utf-8", docsCSS)
	serve(r, "/docs.js", "text/javascript; charset=utf-8", docsJS)
	return nil
}

func serve(r chi.Router, path, contentType string, content []byte) {
	r.Get(path, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(content) // fails when the client has gone, and then nobody is to be told
	})
}

func runLogs() *huma.Operation {
	return logOperation("/runs/{id}/logs", "get-run-logs", "Get the log of a run of a single command", nil)
}

func taskLogs() *huma.Operation {
	key := &huma.Param{Name: "key", In: "path", Required: true, Description: "The task's key.", Schema: &huma.Schema{Type: huma.TypeString}}
	return logOperation("/runs/{id}/tasks/{key}/logs", "get-task-logs", "Get the log of one task", key)
}

const aboutLogs = `The exact bytes that the process wrote to stdout and stderr, in the order of arrival, live and from the archive alike. An offset is a number of bytes and means the same everywhere.
The two are pipes of their own: the bytes of each keep their order, and between the two the order within a few milliseconds is not known; ` + "`exec 2>&1`" + ` merges them.

Decided here: the log is of one attempt, the latest unless ` + "`attempt`" + ` says otherwise. Offset = end is legal, and waits when following; beyond it is 416. Before the first attempt the log is empty,
and following waits for it. ` + "`follow`" + ` streams until the attempt's end, this attempt's and no later one's; the connection is cut, not ended, where the log could not be sent whole or the credential no longer
holds. X-Log-Next-Offset says where to go on; when following, it is a trailer.

` + "`format=json`" + ` gives one JSON object a line (application/x-ndjson) as the schema LogLine says. A line is assembled from what its stream wrote, so it appears when its end of line has come; one of more than
64 KiB, or with output of the other stream in between, comes in several records with the same number.

Range applies to a log that is not followed, without offset and in text; several ranges at once are not supported and answered with the whole. This and the other log operation are the only
ones that take the console's cookie.`

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
		{Name: "attempt", Description: "The try, from 1; the latest when left out.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: &one}},
		{Name: "offset", Description: "The first byte.", Schema: &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &zero}},
		{Name: "follow", Description: "Stream live until the attempt's end.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
		{Name: "format", Description: "Bytes as they are, or one JSON object a line.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"text", "json"}, Default: "text"}},
		{Name: "download", Description: "Have a browser save it as a file.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
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
			attemptHeader:         numberHeader("The number of the attempt; absent before the first."),
			sizeHeader:            numberHeader("Bytes stored when the request came."),
			nextOffsetHeader:      numberHeader("Where to go on."),
			"Content-Disposition": stringHeader("With download: a file name made of the job, the run, the task and the attempt."),
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
