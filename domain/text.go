package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds names in characters.
const maxName = 128

// validName refuses names that are empty, too long, or contain unprintable characters.
func validName(field, s string) (string, error) {
	s, err := optionalName(field, s)
	if err == nil && s == "" {
		err = Invalid(field, "%s is empty; give a name.", field)
	}
	return s, err
}

// optionalName is validName for a name that may be empty.
func optionalName(field, s string) (string, error) {
	s = strings.TrimSpace(s)
	if !utf8.ValidString(s) {
		return "", Invalid(field, "%s is not valid UTF-8.", field)
	}
	if n := utf8.RuneCountInString(s); n > maxName {
		return "", Invalid(field, "%s has %d characters; use at most %d.", field, n, maxName)
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return "", Invalid(field, "%s holds the character %U, which cannot be shown; leave it out.", field, r)
		}
	}
	return s, nil
}

// validProse is validText for text that people read. It also refuses unprintable characters other
// than line ends and tabs, and characters that reorder the text on a screen.
func validProse(field, s string, limit int) error {
	if err := validText(field, s, limit); err != nil {
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

// validText refuses text that PostgreSQL or a process cannot store: NUL bytes, invalid UTF-8, or
// more than limit bytes.
func validText(field, s string, limit int) error {
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

// maxNamed bounds a text that names something outside of the workspace, such as an image, in bytes.
const maxNamed = 256

// maxShown bounds the stored part of an agent's message, in bytes.
const maxShown = 4096

// shown makes an agent's text storable: bad text must never prevent the end from being recorded.
func shown(s string) string {
	s = strings.ReplaceAll(s[:min(len(s), maxShown)], "\x00", "")
	return strings.ToValidUTF8(s, "")
}

func validBound(field string, v, limit int) error {
	if v < 0 || v > limit {
		return Invalid(field, "%s is %d; it must be from 0 to %d.", field, v, limit)
	}
	return nil
}
