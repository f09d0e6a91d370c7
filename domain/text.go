package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName bounds names in characters.
const MaxName = 128

// ValidName refuses names that are empty, too long, or contain unprintable characters.
func ValidName(field, s string) (string, error) {
	s, err := OptionalName(field, s)
	if err == nil && s == "" {
		err = Invalid(field, "%s is empty; give a name.", field)
	}
	return s, err
}

// OptionalName is validName for a name that may be empty.
func OptionalName(field, s string) (string, error) {
	s = strings.TrimSpace(s)
	if !utf8.ValidString(s) {
		return "", Invalid(field, "%s is not valid UTF-8.", field)
	}
	if n := utf8.RuneCountInString(s); n > MaxName {
		return "", Invalid(field, "%s has %d characters; use at most %d.", field, n, MaxName)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return "", Invalid(field, "%s holds the character %U, which cannot be shown; leave it out.", field, r)
		}
	}
	return s, nil
}

// ValidProse is validText for text that people read. It also refuses unprintable characters other
// than line ends and tabs, and characters that reorder the text on a screen.
func ValidProse(field, s string, limit int) error {
	if err := ValidText(field, s, limit); err != nil {
		return err
	}
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
		case unicode.IsControl(r), r >= '\u202A' && r <= '\u202E', r >= '\u2066' && r <= '\u2069':
			return Invalid(field, "%s holds the character %U, which cannot be shown; leave it out.", field, r)
		}
	}
	return nil
}

// ValidText refuses text that PostgreSQL or a process cannot store: NUL bytes, invalid UTF-8, or
// more than limit bytes.
func ValidText(field, s string, limit int) error {
	if len(s) > limit {
		return Invalid(field, "%s has %d bytes; use at most %d.", field, len(s), limit)
	}
	if strings.ContainsRune(s, 0) {
		return Invalid(field, "%s holds a NUL byte; leave it out.", field)
	}
	if !utf8.ValidString(s) {
		return Invalid(field, "%s is not valid UTF-8.", field)
	}
	return nil
}

// MaxNamed bounds a text that names something outside of the workspace, such as an image, in bytes.
const MaxNamed = 256

// MaxShown bounds the stored part of an agent's message, in bytes.
const MaxShown = 4096

// Shown makes an agent's text storable: bad text must never prevent the end from being recorded.
func Shown(s string) string {
	s = strings.ReplaceAll(s[:min(len(s), MaxShown)], "\x00", "")
	return strings.ToValidUTF8(s, "")
}

func ValidBound(field string, v, limit int) error {
	if v < 0 || v > limit {
		return Invalid(field, "%s is %d; it must be from 0 to %d.", field, v, limit)
	}
	return nil
}

// SetIfGiven sets the field to the value, unless there is none.
func SetIfGiven[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
