package httpx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/domain"
)

// MaxDepth bounds how deep values nest: no body needs more than a few levels.
const MaxDepth = 32

// MaxValues bounds the values of a body, names included.
const MaxValues = 200_000

// valueBytes is about the memory of a decoded value, besides its text.
const valueBytes = 128

// Count refuses JSON that nests too deep or has too many values. It counts the memory of the
// decoded values as the request's. It reads each byte once and allocates nothing. The decoder
// refuses what is not JSON.
func Count(ctx context.Context, body []byte, maxDepth, maxValues int) error {
	depth, values := 0, 1
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i += textLength(body[i+1:])
		case '{', '[':
			depth++
			values++
		case ',', ':':
			values++
		case '}', ']':
			depth--
		}
		if depth > maxDepth {
			return domain.Invalid("body", "The body nests deeper than %d levels.", maxDepth)
		}
		if values > maxValues {
			return domain.Errorf(domain.CodeTooLarge, "The body has more than %d values.", maxValues)
		}
	}
	return leaseOf(ctx).HoldRequest(ctx, int64(values)*valueBytes)
}

// textLength returns the length of the text, including its closing quote.
func textLength(rest []byte) int {
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(rest)
}

// Shape describes the values that a body may have. A nil Shape allows any value.
type Shape interface {
	Field(name string) Shape
	Item() Shape
	Nullable() bool
}

// Sound refuses a body unless it is exactly one JSON value in UTF-8. It also refuses repeated
// names, NUL characters, and null where the shape does not allow it.
func Sound(body []byte, shape Shape) error {
	if !utf8.Valid(body) {
		return domain.Invalid("body", "The body is not valid UTF-8.")
	}
	v := reader{Decoder: json.NewDecoder(bytes.NewReader(body))}
	v.UseNumber()
	if err := v.value(shape); err != nil {
		return notJSON(err, v.InputOffset())
	}
	if _, err := v.Token(); !errors.Is(err, io.EOF) {
		return domain.Invalid("body", "The body goes on after its JSON value; send one value.")
	}
	if brokenEscape(body) {
		return errBrokenEscape()
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
	return domain.Invalid("body", "The body is not JSON: %s, at byte %d.", Shorten(err.Error()), offset)
}

// reader walks over JSON and records its position for messages.
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
	return Shorten(b.String())
}

func (v *reader) value(shape Shape) error {
	if len(v.path) > MaxDepth {
		return domain.Invalid("body", "The body nests deeper than %d levels.", MaxDepth)
	}
	t, err := v.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		return v.object(shape)
	case json.Delim('['):
		return v.array(shape)
	case nil:
		if shape != nil && !shape.Nullable() && len(v.path) > 0 {
			return domain.Errorf(domain.CodeInvalid, "The value of %q cannot be null; leave it out, or give a value.", v.where())
		}
	}
	if n, ok := t.(json.Number); ok {
		if _, err := n.Float64(); err != nil {
			return domain.Errorf(domain.CodeInvalid, "The value of %q is too large a number.", v.where())
		}
	}
	return v.noNUL(t)
}

func (v *reader) array(shape Shape) error {
	if shape != nil {
		shape = shape.Item()
	}
	v.path = append(v.path, 0)
	for i := 0; v.More(); i++ {
		v.path[len(v.path)-1] = i
		if err := v.value(shape); err != nil {
			return err
		}
	}
	v.path = v.path[:len(v.path)-1]
	_, err := v.Token()
	return err
}

func (v *reader) object(shape Shape) error {
	seen := map[string]bool{}
	for v.More() {
		t, err := v.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // the decoder accepts only strings as names
		v.path = append(v.path, name)
		if err := v.noNUL(t); err != nil {
			return err
		}
		if seen[name] {
			return domain.Invalid("body", "The field %q is given twice.", v.where())
		}
		seen[name] = true
		var field Shape
		if shape != nil {
			field = shape.Field(name)
		}
		if err := v.value(field); err != nil {
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

// SoundTexts refuses JSON whose texts a database cannot store: with a NUL character, or half of a
// surrogate pair, which encoding/json would silently replace by another character. The body must be
// sound JSON.
func SoundTexts(body []byte) error {
	if bytes.IndexByte(body, '\\') < 0 {
		return nil
	}
	if EscapesNUL(body) {
		return domain.Invalid("body", "The body holds a NUL character; leave it out.")
	}
	if brokenEscape(body) {
		return errBrokenEscape()
	}
	return nil
}

func errBrokenEscape() error {
	return domain.Invalid("body", "The body holds half of a surrogate pair (\\uD800 to \\uDFFF), which is no character.")
}

// EscapesNUL reports whether a text of the JSON has a NUL character, which a database cannot store
// as text.
func EscapesNUL(body []byte) bool {
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

// brokenEscape reports whether sound JSON escapes half of a surrogate pair. encoding/json would
// silently replace it by another character.
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

// escaped returns the code unit of the four digits after the u at i.
func escaped(body []byte, i int) uint64 {
	unit, _ := strconv.ParseUint(string(body[i+1:i+5]), 16, 16) // sound JSON has four digits there
	return unit
}
