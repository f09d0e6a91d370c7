package engine

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind byte

const (
	tokenWord   tokenKind = iota // a keyword or a name without quotes
	tokenQuoted                  // a name in quotes
	tokenString
	tokenNumber
	tokenParameter
	tokenSymbol // one character of anything else
)

// token is a piece of SQL. Comments and space are none.
type token struct {
	kind     tokenKind
	text     string // a word in lower case; a quoted name or a string without its quotes; else as it stands
	pos, end int    // in bytes
	written  string // a word as it stands
}

// identifier is a name as DuckDB keeps it.
func (t token) identifier() string {
	if t.kind == tokenWord {
		return t.written
	}
	return t.text
}

func (t token) is(symbol string) bool { return t.kind == tokenSymbol && t.text == symbol }

// word reports whether t is one of the keywords.
func (t token) word(words ...string) bool {
	if t.kind != tokenWord {
		return false
	}
	for _, w := range words {
		if t.text == w {
			return true
		}
	}
	return false
}

func (t token) name() bool { return t.kind == tokenWord || t.kind == tokenQuoted }

// plainSpace makes every space that DuckDB takes for one, outside of quotes and comments, an ASCII space: it does the same to what it parses, after which
// the positions in its errors would be others.
func plainSpace(query string) string {
	if strings.IndexFunc(query, func(r rune) bool { return r > unicode.MaxASCII && space(r) }) < 0 {
		return query
	}
	var b strings.Builder
	last := 0
	for _, t := range append(tokens(query), token{pos: len(query), end: len(query)}) {
		b.WriteString(strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII && space(r) {
				return ' '
			}
			return r
		}, query[last:t.pos]))
		b.WriteString(query[t.pos:t.end])
		last = t.end
	}
	return b.String()
}

func space(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x2000 && r <= 0x200f || r == 0x2060 || r == 0xfeff || r == 0x180e
}

// tokens cuts SQL as DuckDB's scanner does. What is not closed reaches to the end, and is DuckDB's to refuse.
func tokens(query string) []token {
	var all []token
	s := scanner{query: query}
	for {
		s.skip()
		if s.at >= len(query) {
			return all
		}
		t := s.next()
		t.end = s.at
		if t.kind == tokenWord {
			t.written = query[t.pos:t.end]
		}
		all = append(all, t)
	}
}

type scanner struct {
	query string
	at    int
}

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.query[s.at:], prefix) }

// skip passes over space and comments.
func (s *scanner) skip() {
	for s.at < len(s.query) {
		r, size := utf8.DecodeRuneInString(s.query[s.at:])
		switch {
		case space(r):
			s.at += size
		case s.has("--"):
			s.line()
		case s.has("/*"):
			s.block()
		default:
			return
		}
	}
}

func (s *scanner) line() {
	n := strings.IndexAny(s.query[s.at:], "\n\r")
	if n < 0 {
		n = len(s.query) - s.at
	}
	s.at += n
}

// block passes over a comment, which may hold others.
func (s *scanner) block() {
	depth := 0
	for s.at < len(s.query) {
		switch {
		case s.has("/*"):
			depth++
			s.at += 2
		case s.has("*/"):
			depth--
			s.at += 2
		default:
			s.at++
		}
		if depth == 0 {
			return
		}
	}
}

func (s *scanner) next() token {
	start := s.at
	c := s.query[s.at]
	switch {
	case c == '\'':
		return token{kind: tokenString, text: s.quoted('\'', false), pos: start}
	case c == '"':
		return token{kind: tokenQuoted, text: s.quoted('"', false), pos: start}
	case c == '$':
		return s.dollar()
	case c == '?':
		s.at++
		return token{kind: tokenParameter, text: "?", pos: start}
	case c >= '0' && c <= '9', c == '.' && start+1 < len(s.query) && digit(s.query[start+1]):
		return s.number()
	case wordStart(c):
		return s.word()
	}
	s.at++
	return token{kind: tokenSymbol, text: s.query[start:s.at], pos: start}
}

// quoted reads what stands in quotes, in which the quote is doubled.
func (s *scanner) quoted(quote byte, backslash bool) string {
	var b strings.Builder
	for s.at++; s.at < len(s.query); s.at++ {
		c := s.query[s.at]
		if backslash && c == '\\' && s.at+1 < len(s.query) {
			b.WriteByte(c)
			s.at++
			b.WriteByte(s.query[s.at])
			continue
		}
		if c == quote {
			if s.at+1 >= len(s.query) || s.query[s.at+1] != quote {
				s.at++
				return b.String()
			}
			s.at++
		}
		b.WriteByte(c)
	}
	return b.String()
}

// dollar reads $1, $name, $$text$$ or $tag$text$tag$.
func (s *scanner) dollar() token {
	start := s.at
	if tag := dollarTag.FindString(s.query[start:]); tag != "" {
		body := s.query[start+len(tag):]
		n := strings.Index(body, tag)
		if n < 0 {
			s.at = len(s.query)
			return token{kind: tokenString, text: body, pos: start}
		}
		s.at = start + len(tag) + n + len(tag)
		return token{kind: tokenString, text: body[:n], pos: start}
	}
	if text := parameter.FindString(s.query[start:]); text != "" {
		s.at += len(text)
		return token{kind: tokenParameter, text: text, pos: start}
	}
	s.at++
	return token{kind: tokenSymbol, text: "$", pos: start}
}

// As DuckDB's scanner has them. No tag has letters beyond ASCII here, among which are spaces: see unclear.
var (
	dollarTag   = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)?\$`)
	parameter   = regexp.MustCompile(`^\$([0-9](_?[0-9])*|[A-Za-z_][A-Za-z0-9_]*)`)
	wholeNumber = regexp.MustCompile(`^[0-9](_?[0-9])*`)
	number      = regexp.MustCompile(`^([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?`)
)

func (s *scanner) number() token {
	start := s.at
	text := number.FindString(s.query[start:])
	if digits := wholeNumber.FindString(s.query[start:]); strings.HasPrefix(s.query[start+len(digits):], "..") {
		text = digits
	}
	s.at += len(text)
	return token{kind: tokenNumber, text: text, pos: start}
}

// unclear refuses text that is cut into tokens in a way that people would not see.
func unclear(query string, all []token) error {
	for i, t := range all {
		if t.end >= len(query) {
			return nil
		}
		next := query[t.end]
		switch {
		case (t.kind == tokenNumber || t.kind == tokenParameter) && (wordStart(next) || next == '$'):
			return refuse(t.pos, "A letter or sign follows the number or parameter %s directly. Put a space between them.", cut(t.text, 40))
		case t.is("$") && next >= utf8.RuneSelf:
			return refuse(t.pos, "The tag of a string between dollar signs has ASCII letters, digits and _ alone here.")
		case t.kind == tokenString && query[t.pos]|0x20 == 'e' && i+1 < len(all) && all[i+1].kind == tokenString && query[all[i+1].pos] == '\'':
			return refuse(all[i+1].pos, "A string with E before it is not continued by another here: write it as one, or join them by ||.")
		}
	}
	return nil
}

// word reads a name or keyword, or a string with a letter before it.
func (s *scanner) word() token {
	start := s.at
	for s.at < len(s.query) && wordPart(s.query[s.at]) {
		// A space of more than a byte ends a word as any other.
		if r, size := utf8.DecodeRuneInString(s.query[s.at:]); size > 1 && space(r) {
			break
		}
		s.at++
	}
	text := lowerASCII(s.query[start:s.at])
	if s.at < len(s.query) && s.query[s.at] == '\'' && (text == "e" || text == "x" || text == "b" || text == "n") {
		return token{kind: tokenString, text: s.quoted('\'', text == "e"), pos: start}
	}
	return token{kind: tokenWord, text: text, pos: start}
}

// lowerASCII is a name as DuckDB compares it: no letter beyond ASCII has two cases.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func digit(c byte) bool     { return c >= '0' && c <= '9' }
func letter(c byte) bool    { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func wordStart(c byte) bool { return letter(c) || c == '_' || c >= utf8.RuneSelf }
func wordPart(c byte) bool  { return wordStart(c) || digit(c) || c == '$' }
