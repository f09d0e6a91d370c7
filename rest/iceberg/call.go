package iceberg

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
)

// call is a request of somebody who is known.
type call struct {
	*http.Request
	w        http.ResponseWriter
	scope    domain.Scope
	maxBody  int64
	received []byte // the body, once it was read
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

// param is a part of the path. Paths are routed as they were sent, so it is decoded here, once.
func (c *call) param(name string) string {
	sent := chi.URLParam(c.Request, name)
	decoded, err := url.PathUnescape(sent)
	if err != nil { // net/http has refused such a path already
		return sent
	}
	return decoded
}

func (c *call) database() string { return c.param("prefix") }

// separator joins the levels of a namespace in paths and queries; a dot does as well, as in the service.
const separator = "\x1f"

func (c *call) schema() string { return joined(c.param("namespace")) }

func joined(namespace string) string { return strings.ReplaceAll(namespace, separator, ".") }

func (c *call) ref(name string) lake.Ref {
	return lake.Ref{Database: c.database(), Schema: c.schema(), Name: c.param(name)}
}

// namespace is a schema in the protocol's form: its levels.
type namespace []string

func levels(schema string) namespace { return strings.Split(schema, ".") }

// schema is the namespace as the service has it. A level with a dot could not be told from two levels.
func (n namespace) schema(field string) (string, error) {
	if len(n) == 0 {
		return "", domain.Invalid(field, "The field %q has no level; give the namespace as an array of names.", field)
	}
	for _, level := range n {
		if level == "" || strings.ContainsAny(level, "."+separator) {
			return "", domain.Invalid(field, "The level %q of %q is empty, or holds a dot or a unit separator; give each level of a namespace by itself.", level, field)
		}
	}
	return strings.Join(n, "."), nil
}

// identifier is a table or a view in the protocol's form.
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

// maxKey bounds an idempotency key, in bytes, as elsewhere in the API.
const maxKey = 255

// key makes a change one that can be sent again, where the client wants it. The body must have been read.
func (c *call) key() (lake.Key, error) {
	key := c.Header.Get("Idempotency-Key")
	if key == "" {
		return lake.Key{}, nil
	}
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return lake.Key{}, domain.Invalid("Idempotency-Key", "The header Idempotency-Key has more than %d characters, or others than ASCII; send a UUID.", maxKey)
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

// body reads the whole body, which is one JSON value, into v. Fields that v does not have are newer clients' and are left alone.
func (c *call) body(v any) error {
	if err := isJSON(c.Header); err != nil {
		return err
	}
	body, err := receive(c.w, c.Request, c.maxBody)
	if err != nil {
		return err
	}
	c.received = body
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return domain.Invalid("body", "The body is missing; send a JSON object.")
	case !utf8.Valid(body):
		return domain.Invalid("body", "The body is not valid UTF-8.")
	case escapesNUL(body):
		return domain.Invalid("body", "The body holds a NUL character; leave it out.")
	case bytes.TrimSpace(body)[0] != '{':
		return domain.Invalid("body", "The body is not a JSON object.")
	}
	return readable(json.Unmarshal(body, v))
}

// readable says in a sentence what is wrong with JSON.
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

func isJSON(header http.Header) error {
	if err := plain(header); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" {
		return refuse(http.StatusUnsupportedMediaType, unsupportedMedia, "Send the body as JSON, with the header Content-Type: application/json.")
	}
	return nil
}

const unsupportedMedia = "UnsupportedMediaTypeException"

// plain refuses compressed bodies, of which nobody knows how long they are.
func plain(header http.Header) error {
	coding := header.Get("Content-Encoding")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	refused := refuse(http.StatusUnsupportedMediaType, unsupportedMedia, "Send the body as it is, without Content-Encoding: %s.", coding)
	refused.headers = map[string]string{"Accept-Encoding": "identity"}
	return refused
}

// receive reads the whole body, to a bounded size. The server bounds the time.
func receive(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := domain.Errorf(domain.CodeTooLarge, "The body is larger than %d bytes.", limit)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		w.Header().Set("Connection", "close")
		return nil, tooLarge
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return nil, refuse(http.StatusRequestTimeout, "RequestTimeoutException", "The body did not arrive in time; send the request again.")
	}
	if err != nil {
		return nil, domain.Invalid("body", "The body could not be read to its end.").Because(err)
	}
	return body, nil
}

// escapesNUL says whether a string of the JSON has a NUL character, which no database takes as text.
func escapesNUL(body []byte) bool {
	const escape = `\u0000`
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(escape))
		if i < 0 {
			return false
		}
		at += i
		before := body[:at]
		backslashes := len(before) - len(bytes.TrimRight(before, `\`))
		if backslashes%2 == 0 {
			return true
		}
		at += len(escape)
	}
}

// noContent answers that it is done.
func (c *call) noContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// answer writes v with status 200.
func (c *call) answer(v any) error {
	writeJSON(c.w, http.StatusOK, v)
	return nil
}

// flag is a Boolean of the query, in any case: PyIceberg capitalises it.
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

// wants says whether a header, which is a list, has the value.
func (c *call) wants(header, value string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(c.Header.Values(header), ","), ","), func(s string) bool {
		return strings.EqualFold(strings.TrimSpace(s), value)
	})
}
