package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/millpond/millpond/domain"
)

// maxPublicBody bounds the bodies of those whom nobody knows yet, in bytes.
const maxPublicBody = 64 << 10

// readBody reads the body of an operation that has one, and refuses what is not one sound JSON value: huma reads leniently. An operation
// without a body refuses any: who sends one means something by it.
func (a *api) readBody(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	r, w := humachi.Unwrap(ctx)
	if op.RequestBody == nil {
		if err := noBody(w, r); err != nil {
			a.fail(w, r, err)
			return
		}
		next(ctx)
		return
	}
	limit := a.maxBody
	if len(op.Security) == 0 {
		limit = min(limit, maxPublicBody)
	}
	body, err := receive(w, r, limit)
	if err == nil && len(body) > 0 {
		err = sound(r.Header, body)
	}
	if err == nil && len(body) == 0 && op.RequestBody.Required {
		err = domain.Invalid("body", "The body is missing; send a JSON object.")
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next(ctx)
}

// noBody refuses a body. Its length may not be known beforehand: a body in chunks may be empty.
func noBody(w http.ResponseWriter, r *http.Request) error {
	if _, err := receive(w, r, 0); !domain.IsCode(err, domain.CodeTooLarge) {
		return err
	}
	return domain.Invalid("body", "This operation takes no body; leave it out.")
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
		return nil, newError(http.StatusRequestTimeout, "The body did not arrive in time; send the request again.")
	}
	if err != nil {
		return nil, domain.Invalid("body", "The body could not be read to its end.").Because(err)
	}
	return body, nil
}

// sound refuses a body that is not exactly one JSON value, in UTF-8, without names that are given twice and without NUL characters.
func sound(header http.Header, body []byte) error {
	contentType := header.Get("Content-Type")
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		refusal := newError(http.StatusUnsupportedMediaType, fmt.Sprintf("Send the body as it is, without Content-Encoding: %s.", shorten(coding)))
		refusal.headers.Set("Accept-Encoding", "identity")
		return refusal
	}
	kind, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" {
		return newError(http.StatusUnsupportedMediaType, "Send the body as JSON, with the header Content-Type: application/json.")
	}
	if !utf8.Valid(body) {
		return domain.Invalid("body", "The body is not valid UTF-8.")
	}
	v := reader{Decoder: json.NewDecoder(bytes.NewReader(body))}
	v.UseNumber()
	if err := v.value(); err != nil {
		return notJSON(err, v.InputOffset())
	}
	if _, err := v.Token(); !errors.Is(err, io.EOF) {
		return domain.Invalid("body", "The body goes on after its JSON value; send one value.")
	}
	if brokenEscape(body) {
		return domain.Invalid("body", "The body holds half of a surrogate pair (\\uD800 to \\uDFFF), which is no character.")
	}
	return nil
}

func notJSON(err error, offset int64) error {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return domain.Invalid("body", "The body is not JSON: it ends too early.")
	}
	return domain.Invalid("body", "The body is not JSON: %s, at byte %d.", shorten(err.Error()), offset)
}

// maxDepth bounds how deep values nest: no body of ours needs more than a few levels.
const maxDepth = 32

// reader walks over JSON and keeps where it is, for messages.
type reader struct {
	*json.Decoder
	path []any // names and indexes
}

func (v *reader) where() string {
	var b strings.Builder
	for i, step := range v.path {
		switch name, isName := step.(string); {
		case !isName:
			fmt.Fprintf(&b, "[%d]", step)
		case i == 0:
			b.WriteString(name)
		default:
			b.WriteString("." + name)
		}
	}
	return shorten(b.String())
}

func (v *reader) value() error {
	if len(v.path) > maxDepth {
		return domain.Invalid("body", "The body nests deeper than %d levels.", maxDepth)
	}
	t, err := v.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		return v.object()
	case json.Delim('['):
		return v.array()
	}
	if n, ok := t.(json.Number); ok {
		if _, err := n.Float64(); err != nil {
			return domain.Errorf(domain.CodeInvalid, "The value of %q is too large a number.", v.where())
		}
	}
	return v.noNUL(t)
}

func (v *reader) array() error {
	v.path = append(v.path, 0)
	for i := 0; v.More(); i++ {
		v.path[len(v.path)-1] = i
		if err := v.value(); err != nil {
			return err
		}
	}
	v.path = v.path[:len(v.path)-1]
	_, err := v.Token()
	return err
}

func (v *reader) object() error {
	seen := map[string]bool{}
	for v.More() {
		t, err := v.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // the decoder takes nothing else for a name
		v.path = append(v.path, name)
		if err := v.noNUL(t); err != nil {
			return err
		}
		if seen[name] {
			return domain.Invalid("body", "The field %q is given twice.", v.where())
		}
		seen[name] = true
		if err := v.value(); err != nil {
			return err
		}
		v.path = v.path[:len(v.path)-1]
	}
	_, err := v.Token()
	return err
}

func (v *reader) noNUL(t json.Token) error {
	if s, ok := t.(string); ok && strings.IndexByte(s, 0) >= 0 {
		return domain.Invalid("body", "The value of %q holds a NUL character; leave it out.", v.where())
	}
	return nil
}

// brokenEscape says whether sound JSON escapes half of a surrogate pair: encoding/json would silently put another character there.
func brokenEscape(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++
		if body[i] != 'u' {
			continue
		}
		switch unit := escaped(body, i); {
		case unit >= 0xDC00 && unit < 0xE000:
			return true
		case unit >= 0xD800 && unit < 0xDC00:
			var low uint64
			if i+6 < len(body) && body[i+5] == '\\' && body[i+6] == 'u' {
				low = escaped(body, i+6)
			}
			if low < 0xDC00 || low >= 0xE000 {
				return true
			}
			i += 6
		}
		i += 4
	}
	return false
}

// escaped is the code unit of the four digits after the u at i.
func escaped(body []byte, i int) uint64 {
	unit, _ := strconv.ParseUint(string(body[i+1:i+5]), 16, 16) // sound JSON has four digits there
	return unit
}
