package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/rest/httpx"
)

// call is a request of an authenticated caller.
type call struct {
	*http.Request
	w       http.ResponseWriter
	scope   domain.Scope
	maxBody int64
}

// Bounds of a body, in bytes. A batch has its own.
const (
	maxBody  = 20 << 20
	maxBatch = 1_000_000
)

// serving turns a function that may fail into a handler.
func (f *face) serving(serve func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, w: w, maxBody: maxBody}
		var err error
		if c.scope, err = auth.From(r.Context()); err == nil {
			err = f.inWorkspace(c)
		}
		if err == nil {
			err = serve(c)
		}
		if err != nil {
			f.fail(w, r, err)
		}
	}
}

// workspaceHeader names the workspace that the client wants: by its id or its name.
const workspaceHeader = "X-Mlflow-Workspace"

// inWorkspace refuses a request for another workspace than the token's.
func (f *face) inWorkspace(c *call) error {
	wanted := strings.TrimSpace(c.Header.Get(workspaceHeader))
	if wanted == "" || wanted == string(c.scope.Workspace()) {
		return nil
	}
	own, err := f.Workspaces.Get(c.Context(), c.scope)
	if err == nil && wanted != own.Name {
		err = refuse(http.StatusNotFound, doesNotExist, "Workspace '%s' not found", wanted)
	}
	return err
}

// answer writes v with status 200.
func (c *call) answer(v any) error {
	writeJSON(c.w, http.StatusOK, v)
	return nil
}

// done answers with an empty object.
func (c *call) done() error { return c.answer(struct{}{}) }

// field is a field of a request.
type field struct {
	name     string
	required bool
	value    value
}

func need(name string, v value) field { return field{name, true, v} }

func may(name string, v value) field { return field{name, false, v} }

// check refuses the first field that is missing or has a value of another type.
func check(fields ...field) error {
	for _, f := range fields {
		switch {
		case f.value.wrong() != nil:
			return invalid(f.name, f.value.wrong())
		case f.required && !f.value.given():
			return missing(f.name)
		}
	}
	return nil
}

// read reads the fields from the query of a GET, and from the body of any other request. Fields
// that are not asked for are ignored: newer clients send them.
func (c *call) read(fields ...field) error {
	if c.Method == http.MethodGet {
		c.readQuery(fields)
		return check(fields...)
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	if err := parse(c.Context(), body, fields); err != nil {
		return err
	}
	return check(fields...)
}

func (c *call) readQuery(fields []field) {
	query := c.URL.Query()
	for _, f := range fields {
		texts := query[f.name]
		if texts == nil && f.name == "run_id" {
			texts = query["run_uuid"]
		}
		if texts != nil {
			f.value.query(texts)
		}
	}
}

// maxDepth bounds how deep a body nests. No request has more than seven levels.
const maxDepth = 32

// body reads the body, which is declared as JSON.
func (c *call) body() ([]byte, error) {
	if err := httpx.NotCoded(c.Header); err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, domain.Invalid("", "Bad Request. Content-Type must be one of ['application/json'].")
	}
	return httpx.Receive(c.w, c.Request, c.maxBody)
}

// parse reads the fields from the body: a JSON object whose texts a database can store. An empty
// body stands for an empty object.
func parse(ctx context.Context, body []byte, fields []field) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil
	case !utf8.Valid(body):
		return domain.Invalid("body", "The body is not valid UTF-8.")
	case body[0] != '{':
		return domain.Invalid("body", "The body is not a JSON object.")
	}
	if err := httpx.Count(ctx, body, maxDepth, httpx.MaxValues); err != nil {
		return err
	}
	if !json.Valid(body) {
		return domain.Invalid("body", "The body is not JSON.")
	}
	if err := httpx.SoundTexts(body); err != nil {
		return err
	}
	walk(body, func(name, raw []byte) {
		for _, f := range fields {
			older := f.name == "run_id" && string(name) == "run_uuid" && !f.value.given() // of older clients
			if (string(name) == f.name || older) && !isNull(raw) {
				f.value.read(raw)
			}
		}
	})
	return nil
}

func isNull(raw []byte) bool { return string(raw) == "null" }
