package iceberg

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/rest/httpx"
)

// call is a request of an authenticated caller.
type call struct {
	*http.Request
	w        http.ResponseWriter
	scope    domain.Scope
	maxBody  int64
	received []byte // the body, after it was read
}

// serving turns a function that may fail into a handler.
func (f *face) serving(serve func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scope, err := auth.ForCatalog(r.Context())
		if err == nil {
			err = serve(&call{Request: r, w: w, scope: scope, maxBody: f.MaxBody})
		}
		if err != nil {
			f.fail(w, r, err)
		}
	}
}

// param returns a decoded part of the path. Paths are routed encoded, so it is decoded only here.
func (c *call) param(name string) string {
	sent := chi.URLParam(c.Request, name)
	decoded, err := url.PathUnescape(sent)
	if err != nil { // net/http has already refused such a path
		return sent
	}
	return decoded
}

func (c *call) database() string { return c.param("prefix") }

// separator joins the levels of a namespace in paths and queries. A dot is accepted too, as in the
// service.
const separator = "\x1f"

func (c *call) schema() string { return joined(c.param("namespace")) }

func joined(namespace string) string { return strings.ReplaceAll(namespace, separator, ".") }

func (c *call) ref(name string) lake.Ref {
	return lake.Ref{Database: c.database(), Schema: c.schema(), Name: c.param(name)}
}

// namespace is a schema in the protocol's form: a list of levels.
type namespace []string

func levels(schema string) namespace { return strings.Split(schema, ".") }

// schema returns the namespace in the service's form. A level with a dot is refused: it could not
// be distinguished from two levels.
func (n namespace) schema(field string) (string, error) {
	if len(n) == 0 {
		return "", domain.Invalid(field, "The field %q is empty; give the namespace as an array of names.", field)
	}
	for _, level := range n {
		if level == "" || strings.ContainsAny(level, "."+separator) {
			return "", domain.Invalid(field, "The level %q of %q is empty, or holds a dot or a unit separator; give each level of a namespace by itself.", level, field)
		}
	}
	return strings.Join(n, "."), nil
}

// identifier names a table or a view in the protocol's form.
type identifier struct {
	Namespace namespace `json:"namespace"`
	Name      string    `json:"name"`
}

func (i *identifier) ref(field, database string) (lake.Ref, error) {
	if i == nil {
		return lake.Ref{}, missing(field)
	}
	schema, err := i.Namespace.schema(field + ".namespace")
	if err == nil && i.Name == "" {
		err = missing(field + ".name")
	}
	return lake.Ref{Database: database, Schema: schema, Name: i.Name}, err
}

func missing(field string) error {
	return domain.Invalid(field, "The field %q is missing; give it.", field)
}

// key returns the request's idempotency key, if the client sent one. The body must have been read.
func (c *call) key() (lake.Key, error) {
	key, err := httpx.Key(c.Header)
	if err != nil || key == "" {
		return lake.Key{}, err
	}
	h := sha256.New()
	_, _ = io.WriteString(h, c.Method+"\n"+c.URL.RequestURI()+"\n") // a hash never fails
	_, _ = h.Write(c.received)
	return lake.Key{Key: key, Hash: h.Sum(nil)}, nil
}

// change reads the body into v, and the key.
func (c *call) change(v any) (lake.Key, error) {
	if err := c.body(v); err != nil {
		return lake.Key{}, err
	}
	return c.key()
}

// Bounds of a body. A column's type nests several values at each level, and a table may have
// thousands of columns.
const (
	maxDepth  = 500
	maxValues = 500_000
)

// body reads the whole body, which is one JSON value, into v. It ignores fields that v does not
// have: newer clients send them.
func (c *call) body(v any) error {
	if err := httpx.IsJSON(c.Header); err != nil {
		return err
	}
	body, err := httpx.Receive(c.w, c.Request, c.maxBody)
	if err != nil {
		return err
	}
	c.received = body
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return domain.Invalid("body", "The body is missing; send a JSON object.")
	case !utf8.Valid(body):
		return domain.Invalid("body", "The body is not valid UTF-8.")
	case httpx.EscapesNUL(body):
		return domain.Invalid("body", "The body holds a NUL character; leave it out.")
	case bytes.TrimSpace(body)[0] != '{':
		return domain.Invalid("body", "The body is not a JSON object.")
	}
	if err := httpx.Count(c.Context(), body, maxDepth, maxValues); err != nil {
		return err
	}
	return readable(json.Unmarshal(body, v))
}

// readable returns what is wrong with the JSON, as a sentence.
func readable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return domain.Invalid("body", "The value of %q is a JSON %s, which it cannot be (at byte %d).", wrong.Field, wrong.Value, wrong.Offset)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return domain.Invalid("body", "The body is not JSON: %s, at byte %d.", wrong.Error(), wrong.Offset)
	}
	if err != nil {
		return domain.Invalid("body", "The body is not what this endpoint takes: %s.", err.Error())
	}
	return nil
}

// noContent answers 204.
func (c *call) noContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// answer writes v with status 200.
func (c *call) answer(v any) error {
	writeJSON(c.w, http.StatusOK, v)
	return nil
}

// flag reads a Boolean of the query, in any case: PyIceberg capitalises it.
func (c *call) flag(name string) (bool, error) {
	switch sent := c.URL.Query().Get(name); strings.ToLower(sent) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, domain.Invalid(name, "The query parameter %s is %q; give true or false.", name, sent)
	}
}

// wants reports whether a header, which is a list, has the value.
func (c *call) wants(header, value string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(c.Header.Values(header), ","), ","), func(s string) bool {
		return strings.EqualFold(strings.TrimSpace(s), value)
	})
}
