package sqltext

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/agent"
)

// Refusal is a statement failure that the engine itself detects.
type Refusal struct {
	Fault   agent.StatementFault
	Message string
	Pos     int // offset in bytes; -1 if unknown
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// Refuse returns a refusal of the statement with a message for a person. pos is an offset in bytes;
// -1 if unknown.
func Refuse(pos int, format string, args ...any) *Refusal {
	return &Refusal{Fault: agent.FaultQuery, Message: fmt.Sprintf(format, args...), Pos: pos}
}

// Fail returns a refusal with another fault than the statement's own.
func Fail(fault agent.StatementFault, format string, args ...any) *Refusal {
	return &Refusal{Fault: fault, Message: fmt.Sprintf(format, args...), Pos: -1}
}

// RefuseShow refuses SHOW, DESCRIBE and SUMMARIZE within another statement.
func RefuseShow(pos int) error {
	return Refuse(pos, "SHOW, DESCRIBE and SUMMARIZE are statements here and cannot be part of another one.")
}

// Cut shortens a text to n characters, for a message.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}

// LineColumn returns the line and column of a byte offset in a text, from 1 and in characters. It
// returns zeros if the offset lies outside the text.
func LineColumn(text string, pos int) (line, column int) {
	if pos < 0 || pos > len(text) {
		return 0, 0
	}
	before := text[:pos]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}
