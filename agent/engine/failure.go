package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
)

// duckError is DuckDB's, as it writes errors in JSON.
type duckError struct {
	Type     string `json:"exception_type"`
	Message  string `json:"exception_message"`
	Position string `json:"position"`
	offset   int    // of the statement within the text that was run, in bytes
}

func (e *duckError) Error() string { return e.Type + ": " + e.Message }

// parseDuckError reads an error of DuckDB, which is JSON after a prefix of its type in some places, and plain text in others.
func parseDuckError(text string) *duckError {
	kind, rest, found := strings.Cut(text, " Error: ")
	if !found {
		kind, rest = "", text
	}
	if at := strings.Index(text, "{"); at >= 0 {
		var e duckError
		if json.Unmarshal([]byte(text[at:]), &e) == nil && e.Message != "" {
			return &e
		}
	}
	return &duckError{Type: kind, Message: rest}
}

// thrown is the error of DuckDB with which a process ended that nobody caught, as where a manifest of a table is missing; nil where there is none.
func thrown(output string) *duckError {
	at := strings.Index(output, `{"exception_type"`)
	if at < 0 {
		return nil
	}
	var e duckError
	if json.NewDecoder(strings.NewReader(output[at:])).Decode(&e) != nil || e.Message == "" || e.Type == "INTERNAL" || e.Type == "FATAL" {
		return nil
	}
	return &e
}

// faults of DuckDB's errors; those that are not listed are the statement's.
var faults = map[string]agent.StatementFault{
	"Out of Memory": agent.FaultResources, "INTERNAL": agent.FaultEngine, "FATAL": agent.FaultEngine, "IO": agent.FaultEngine, "HTTP": agent.FaultEngine, "Network": agent.FaultEngine,
	"Serialization": agent.FaultEngine, "INTERRUPT": agent.FaultCancelled, "Interrupt": agent.FaultCancelled,
}

// failureOf says what went wrong with a statement, and where.
func failureOf(err error, query string) *agent.StatementFailure {
	if u, ok := errors.AsType[*errand.UnsureError](err); ok {
		return u.Failure()
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		f := &agent.StatementFailure{Fault: r.fault, Message: r.message}
		f.Line, f.Column = place(query, r.pos)
		return f
	}
	if c, ok := errors.AsType[*catalogError](err); ok {
		return &agent.StatementFailure{Fault: c.fault(), Message: c.message}
	}
	e, ok := errors.AsType[*duckError](err)
	if !ok {
		return &agent.StatementFailure{Fault: agent.FaultEngine, Message: "The engine failed: " + err.Error() + "."}
	}
	f := &agent.StatementFailure{Fault: agent.FaultQuery, Message: sentence(e)}
	if fault, ok := faults[e.Type]; ok {
		f.Fault = fault
	}
	switch {
	case strings.Contains(e.Message, "max_temp_directory_size"), strings.Contains(e.Message, "No space left"), strings.Contains(e.Message, "failed to allocate"), strings.Contains(e.Message, "could not allocate"),
		strings.Contains(e.Message, "std::bad_alloc"):
		f.Fault = agent.FaultResources
	case strings.Contains(e.Message, "Unauthorized_401)"), strings.Contains(e.Message, "Forbidden_403)"):
		f.Fault = agent.FaultForbidden
	case fencedOff(strings.TrimSpace(e.Message)) != "":
		f.Fault = agent.FaultQuery
	case conflict(e):
		f.Fault = agent.FaultConflict
		f.Message = fmt.Sprintf("The statement lost the race for its table %d times: others commit to it all the time. Nothing of it was written; run it again.", commitAttempts)
	}
	if pos, err := strconv.Atoi(e.Position); err == nil {
		f.Line, f.Column = place(query, pos-e.offset)
	}
	return f
}

// conflict reports whether another commit was faster, so that nothing of this one was made.
func conflict(e *duckError) bool {
	return e.Type == "TransactionContext" && strings.Contains(e.Message, "409)") && !strings.Contains(e.Message, "AlreadyExists")
}

func sentence(e *duckError) string {
	text, _, _ := strings.Cut(e.Message, "\n\nPossible solutions") // settings that nobody can change here
	text, _, _ = strings.Cut(text, ` Use "SET `)
	text = strings.TrimSpace(text)
	if said := catalogSaid(text); said != "" {
		return "The catalog refused it: " + said
	}
	if file := fencedOff(text); file != "" {
		return "The file " + file + " is not in the workspace's storage, and nothing else is read. If the statement does not name it, a table does: roll that back to a snapshot without it."
	}
	switch {
	case damaged(e):
		return "A file of the table is damaged, so that it cannot be read: " + text + ". Restore the file, or roll the table back to a snapshot without it."
	case strings.HasPrefix(text, "No files found that match") || strings.Contains(text, "No such file or directory") || strings.Contains(text, "Cannot open file") || strings.Contains(text, "HTTP 404"):
		return "A file of the table is missing: " + strings.TrimSuffix(text, ".") + ". Restore the file, or roll the table back to a snapshot without it."
	}
	switch e.Type {
	case "Out of Memory":
		return "The statement needs more memory than it may have: " + text
	case "INTERRUPT", "Interrupt":
		return "The statement was interrupted."
	case "":
		return text
	}
	return e.Type + " error: " + text
}

// fencedOff is the file that DuckDB was kept from; empty where it was none.
func fencedOff(text string) string {
	file, found := strings.CutPrefix(text, "Cannot access file ")
	file, _, disabled := strings.Cut(file, " - file system operations are disabled")
	if !found || !disabled {
		return ""
	}
	return file
}

// damaged reports whether a file of a table is not what it must be.
func damaged(e *duckError) bool {
	for _, sign := range []string{"don't know what type", "No magic bytes found", "TProtocolException", "from memory buffer", "too small to be a Parquet file"} {
		if strings.Contains(e.Message, sign) && e.Type != "Parser" && e.Type != "Binder" && e.Type != "Catalog" {
			return true
		}
	}
	return false
}

// catalogSaid is the sentence of the catalog in an error of DuckDB's iceberg extension, which repeats the answer in one of two ways.
func catalogSaid(text string) string {
	_, body, found := strings.Cut(text, ", body: {")
	if !found {
		_, said, _ := strings.Cut(text, "\n message: ")
		said, _, _ = strings.Cut(said, "\n type: ")
		return said
	}
	var e struct{ Error struct{ Message string } }
	if json.NewDecoder(strings.NewReader("{"+body)).Decode(&e) != nil {
		return ""
	}
	return e.Error.Message
}

// place is the line and the column, both from 1 and in characters, of a byte of a text; zeros where it lies outside.
func place(text string, pos int) (line, column int) {
	if pos < 0 || pos > len(text) {
		return 0, 0
	}
	before := text[:pos]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}
