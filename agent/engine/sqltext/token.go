// Package sqltext reads and rewrites the text of SQL statements: their tokens and kinds, the tables
// that they name, and the statements that no engine parses. It runs nothing.
package sqltext

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is the kind of a token.
type Kind byte

// The kinds of tokens.
const (
	Word   Kind = iota // a keyword or a name without quotes
	Quoted             // a name in quotes
	String
	Number
	Parameter
	Symbol // any other character
)

// Token is a token of SQL. Comments and whitespace are not tokens.
type Token struct {
	Kind     Kind
	Text     string // a word in lower case; a quoted name or string without quotes; otherwise unchanged
	Pos, End int    // in bytes
	written  string // a word as written
}

// Identifier returns a name as DuckDB stores it.
func (t Token) Identifier() string {
	if t.Kind == Word {
		return t.written
	}
	return t.Text
}

// Is reports whether t is the symbol.
func (t Token) Is(symbol string) bool { return t.Kind == Symbol && t.Text == symbol }

// IsWord reports whether t is one of the keywords.
func (t Token) IsWord(words ...string) bool {
	if t.Kind != Word {
		return false
	}
	for _, w := range words {
		if t.Text == w {
			return true
		}
	}
	return false
}

// IsName reports whether t is a word or a name in quotes.
func (t Token) IsName() bool { return t.Kind == Word || t.Kind == Quoted }

// PlainSpace replaces each space that DuckDB accepts outside quotes and comments with an ASCII
// space. DuckDB does the same before it parses. Otherwise the positions in its errors would differ.
func PlainSpace(query string) string {
	if strings.IndexFunc(query, func(r rune) bool { return r > unicode.MaxASCII && space(r) }) < 0 {
		return query
	}
	var b strings.Builder
	last := 0
	for _, t := range append(Tokens(query), Token{Pos: len(query), End: len(query)}) {
		b.WriteString(strings.Map(func(r rune) rune {
			if r > unicode.MaxASCII && space(r) {
				return ' '
			}
			return r
		}, query[last:t.Pos]))
		b.WriteString(query[t.Pos:t.End])
		last = t.End
	}
	return b.String()
}

func space(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x2000 && r <= 0x200f || r == 0x2060 || r == 0xfeff || r == 0x180e
}

// Tokens splits SQL as DuckDB's scanner does. An unclosed token extends to the end, and DuckDB
// refuses it.
func Tokens(query string) []Token {
	var all []Token
	s := scanner{query: query}
	for {
		s.skip()
		if s.at >= len(query) {
			return all
		}
		t := s.next()
		t.End = s.at
		if t.Kind == Word {
			t.written = query[t.Pos:t.End]
		}
		all = append(all, t)
	}
}

type scanner struct {
	query string
	at    int
}

func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.query[s.at:], prefix) }

// skip skips whitespace and comments.
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

// block skips a block comment, which may be nested.
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

func (s *scanner) next() Token {
	start := s.at
	c := s.query[s.at]
	switch {
	case c == '\'':
		return Token{Kind: String, Text: s.quoted('\'', false), Pos: start}
	case c == '"':
		return Token{Kind: Quoted, Text: s.quoted('"', false), Pos: start}
	case c == '$':
		return s.dollar()
	case c == '?':
		s.at++
		return Token{Kind: Parameter, Text: "?", Pos: start}
	case c >= '0' && c <= '9', c == '.' && start+1 < len(s.query) && digit(s.query[start+1]):
		return s.number()
	case wordStart(c):
		return s.word()
	}
	s.at++
	return Token{Kind: Symbol, Text: s.query[start:s.at], Pos: start}
}

// quoted reads a quoted token, in which the quote is doubled.
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
func (s *scanner) dollar() Token {
	start := s.at
	if tag := dollarTag.FindString(s.query[start:]); tag != "" {
		body := s.query[start+len(tag):]
		n := strings.Index(body, tag)
		if n < 0 {
			s.at = len(s.query)
			return Token{Kind: String, Text: body, Pos: start}
		}
		s.at = start + len(tag) + n + len(tag)
		return Token{Kind: String, Text: body[:n], Pos: start}
	}
	if text := parameter.FindString(s.query[start:]); text != "" {
		s.at += len(text)
		return Token{Kind: Parameter, Text: text, Pos: start}
	}
	s.at++
	return Token{Kind: Symbol, Text: "$", Pos: start}
}

// Patterns of DuckDB's scanner. Tags have only ASCII letters here, because some others are spaces:
// see unclear.
var (
	dollarTag   = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)?\$`)
	parameter   = regexp.MustCompile(`^\$([0-9](_?[0-9])*|[A-Za-z_][A-Za-z0-9_]*)`)
	wholeNumber = regexp.MustCompile(`^[0-9](_?[0-9])*`)
	number      = regexp.MustCompile(`^([0-9](_?[0-9])*(\.([0-9](_?[0-9])*)?)?|\.[0-9](_?[0-9])*)([eE][+-]?[0-9](_?[0-9])*)?`)
)

func (s *scanner) number() Token {
	start := s.at
	text := number.FindString(s.query[start:])
	if digits := wholeNumber.FindString(s.query[start:]); strings.HasPrefix(s.query[start+len(digits):], "..") {
		text = digits
	}
	s.at += len(text)
	return Token{Kind: Number, Text: text, Pos: start}
}

// unclear refuses text whose tokens differ from what a person would see.
func unclear(query string, all []Token) error {
	for i, t := range all {
		if t.End >= len(query) {
			return nil
		}
		next := query[t.End]
		switch {
		case (t.Kind == Number || t.Kind == Parameter) && (wordStart(next) || next == '$'):
			return Refuse(t.Pos, "A letter or sign follows the number or parameter %s directly. Put a space between them.", Cut(t.Text, 40))
		case t.Is("$") && next >= utf8.RuneSelf:
			return Refuse(t.Pos, "The tag of a string between dollar signs has ASCII letters, digits and _ alone here.")
		case t.Kind == String && query[t.Pos]|0x20 == 'e' && i+1 < len(all) && all[i+1].Kind == String && query[all[i+1].Pos] == '\'':
			return Refuse(all[i+1].Pos, "A string with E before it is not continued by another here: write it as one, or join them by ||.")
		}
	}
	return nil
}

// IsWord reads a name, a keyword or a string with a letter prefix.
func (s *scanner) word() Token {
	start := s.at
	for s.at < len(s.query) && wordPart(s.query[s.at]) {
		// A space of more than one byte ends a word.
		if r, size := utf8.DecodeRuneInString(s.query[s.at:]); size > 1 && space(r) {
			break
		}
		s.at++
	}
	text := LowerASCII(s.query[start:s.at])
	if s.at < len(s.query) && s.query[s.at] == '\'' && (text == "e" || text == "x" || text == "b" || text == "n") {
		return Token{Kind: String, Text: s.quoted('\'', text == "e"), Pos: start}
	}
	return Token{Kind: Word, Text: text, Pos: start}
}

// LowerASCII folds a name as DuckDB compares it: only ASCII letters have cases.
func LowerASCII(s string) string {
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
