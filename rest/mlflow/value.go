package mlflow

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/millpond/millpond/domain/tracking"
)

// value is a field's value. What it reads may be of another type: wrong returns that as JSON, or
// nil.
type value interface {
	read(raw []byte)
	query(texts []string)
	given() bool // an empty text counts as not given
	wrong() []byte
}

// bad is what was sent in place of a value.
type bad []byte

func (b *bad) reject(raw []byte) { *b = bytes.Clone(raw) }

func (b *bad) wrong() []byte { return *b }

// text is a text.
type text struct {
	s string
	bad
}

func (t *text) read(raw []byte) {
	switch {
	case raw[0] != '"':
		t.reject(raw)
	case bytes.IndexByte(raw, '\\') < 0:
		t.s = string(raw[1 : len(raw)-1])
	case json.Unmarshal(raw, &t.s) != nil:
		t.reject(raw)
	}
}

func (t *text) query(texts []string) { t.s = texts[0] }

func (t *text) given() bool { return t.s != "" }

// integer is a 64-bit integer, as a number or a text.
type integer struct {
	n    int64
	sent bool
	bad
}

func (i *integer) read(raw []byte) {
	digits, isText := unquoted(raw)
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil && !isText { // a number may be written as 1e3 or 1.0
		f, wrong := strconv.ParseFloat(string(digits), 64)
		n, err = int64(f), wrong
		if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			err = strconv.ErrRange
		}
	}
	if i.n, i.sent = n, true; err != nil {
		i.reject(raw)
	}
}

func (i *integer) query(texts []string) { i.read(quoted(texts[0])) }

func (i *integer) given() bool { return i.sent }

// orElse returns the integer, or n if none was sent.
func (i *integer) orElse(n int64) int64 {
	if i.sent {
		return i.n
	}
	return n
}

// unquoted returns the text of a number or of a plain string.
func unquoted(raw []byte) (s []byte, isText bool) {
	if raw[0] == '"' {
		return raw[1 : len(raw)-1], true
	}
	return raw, false
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text always marshals
	}
	return b
}

// double is a 64-bit floating point number, as a number or a text. NaN and the infinities are
// texts.
type double struct {
	f    float64
	sent bool
	bad
}

func (d *double) read(raw []byte) {
	digits, isText := unquoted(raw)
	f, err := strconv.ParseFloat(string(digits), 64)
	special := math.IsNaN(f) || math.IsInf(f, 0)
	named := isText && (string(digits) == "NaN" || string(digits) == "Infinity" || string(digits) == "-Infinity")
	if d.f, d.sent = f, true; err != nil || special && !named || isText && bytes.ContainsAny(digits, "xX_") {
		d.reject(raw)
	}
}

func (d *double) query(texts []string) { d.read(quoted(texts[0])) }

func (d *double) given() bool { return d.sent }

// choice is one of the names of an enumeration, or its number, from 1.
type choice struct {
	names []string
	name  string // empty if none was sent
	bad
}

func (c *choice) read(raw []byte) {
	sent, _ := unquoted(raw)
	name := string(sent)
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(c.names) {
		name = c.names[n-1]
	}
	if c.name = name; !slices.Contains(c.names, name) {
		c.reject(raw)
	}
}

func (c *choice) query(texts []string) { c.read(quoted(texts[0])) }

func (c *choice) given() bool { return c.name != "" }

// record is an object. Its field is nil if it has none of the name.
type record interface {
	field(name []byte) value
}

// readRecord reports whether raw is an object, and reads its fields.
func readRecord(r record, raw []byte) bool {
	if raw[0] != '{' {
		return isNull(raw)
	}
	walk(raw, func(name, value []byte) {
		if f := r.field(name); f != nil && !isNull(value) {
			f.read(value)
		}
	})
	return true
}

// list is an array of records.
type list[T any] struct {
	items []T
	bad
}

func (l *list[T]) read(raw []byte) {
	if raw[0] != '[' {
		l.reject(raw)
		return
	}
	l.items = make([]T, 0, min(bytes.Count(raw, []byte("{")), tracking.MaxPoints))
	walk(raw, func(_, value []byte) {
		var none T
		l.items = append(l.items, none)
		if r, ok := any(&l.items[len(l.items)-1]).(record); !ok || !readRecord(r, value) {
			l.reject(raw)
		}
	})
}

func (l *list[T]) query(texts []string) { l.reject(quoted(texts[0])) }

func (l *list[T]) given() bool { return len(l.items) > 0 }

// texts is an array of texts.
type texts struct {
	items []text
	bad
}

func (t *texts) read(raw []byte) {
	if raw[0] != '[' {
		t.reject(raw)
		return
	}
	walk(raw, func(_, value []byte) {
		var item text
		item.read(value)
		t.items = append(t.items, item)
	})
}

func (t *texts) query(texts []string) {
	for _, s := range texts {
		t.items = append(t.items, text{s: s})
	}
}

func (t *texts) given() bool { return len(t.items) > 0 }

func (t *texts) wrong() []byte {
	for _, item := range t.items {
		if item.bad != nil {
			return item.bad
		}
	}
	return t.bad
}

func (t *texts) strings() []string {
	s := make([]string, len(t.items))
	for i, item := range t.items {
		s[i] = item.s
	}
	return s
}
