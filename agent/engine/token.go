package engine

import (
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
		return token{tokenString, s.quoted('\'', false), start, 0}
	case c == '"':
		return token{tokenQuoted, s.quoted('"', false), start, 0}
	case c == '$':
		return s.dollar()
	case c == '?':
		s.at++
		return token{tokenParameter, "?", start, 0}
	case c >= '0' && c <= '9', c == '.' && start+1 < len(s.query) && digit(s.query[start+1]):
		return s.number()
	case wordStart(c):
		return s.word()
	}
	s.at++
	return token{tokenSymbol, s.query[start:s.at], start, 0}
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
	end := start + 1
	for end < len(s.query) && wordPart(s.query[end]) && s.query[end] != '$' {
		end++
	}
	if end < len(s.query) && s.query[end] == '$' && (end == start+1 || !digit(s.query[start+1])) {
		tag := s.query[start : end+1]
		body := s.query[end+1:]
		n := strings.Index(body, tag)
		if n < 0 {
			s.at = len(s.query)
			return token{tokenString, body, start, 0}
		}
		s.at = end + 1 + n + len(tag)
		return token{tokenString, body[:n], start, 0}
	}
	s.at = end
	return token{tokenParameter, s.query[start:end], start, 0}
}

func (s *scanner) number() token {
	start := s.at
	for s.at < len(s.query) {
		c := s.query[s.at]
		sign := (c == '+' || c == '-') && (s.query[s.at-1]|0x20) == 'e' && s.at+1 < len(s.query) && digit(s.query[s.at+1])
		if !digit(c) && !letter(c) && c != '.' && c != '_' && !sign {
			break
		}
		s.at++
	}
	return token{tokenNumber, s.query[start:s.at], start, 0}
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
	text := strings.ToLower(s.query[start:s.at])
	if s.at < len(s.query) && s.query[s.at] == '\'' && (text == "e" || text == "x" || text == "b" || text == "n") {
		return token{tokenString, s.quoted('\'', text == "e"), start, 0}
	}
	return token{tokenWord, text, start, 0}
}

func digit(c byte) bool     { return c >= '0' && c <= '9' }
func letter(c byte) bool    { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func wordStart(c byte) bool { return letter(c) || c == '_' || c >= utf8.RuneSelf }
func wordPart(c byte) bool  { return wordStart(c) || digit(c) || c == '$' }
