package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds names in characters.
const maxName = 128

// validName refuses names that are empty, long, or hold what no screen shows.
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

// validProse is validText for what people read: what no screen shows is refused but for line ends and tabs, and so is what makes a screen
// show the characters in another order than they are in.
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

// validText refuses text that PostgreSQL or a process could not take: NUL bytes and invalid UTF-8, or more than limit bytes.
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
