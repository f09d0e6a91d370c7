package duckdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// exception is an error of DuckDB, as DuckDB writes it in JSON.
type exception struct {
	Type     string `json:"exception_type"`
	Message  string `json:"exception_message"`
	Position string `json:"position"`
	offset   int    // of the statement within the executed text, in bytes
}

func (e *exception) Error() string { return e.Type + ": " + e.Message }

// parseException parses an error of DuckDB. The text is plain, or JSON with an optional prefix of
// the error's type.
func parseException(text string) *exception {
	kind, rest, found := strings.Cut(text, " Error: ")
	if !found {
		kind, rest = "", text
	}
	if at := strings.Index(text, "{"); at >= 0 {
		var e exception
		if json.Unmarshal([]byte(text[at:]), &e) == nil && e.Message != "" {
			return &e
		}
	}
	return &exception{Type: kind, Message: rest}
}

// Thrown returns the message of the uncaught DuckDB error that ended a process, by what the process
// printed. It returns "" if there is none. A missing manifest causes one, for example.
func Thrown(output string) string {
	at := strings.Index(output, `{"exception_type"`)
	if at < 0 {
		return ""
	}
	var e exception
	if json.NewDecoder(strings.NewReader(output[at:])).Decode(&e) != nil || e.Message == "" || e.Type == "INTERNAL" || e.Type == "FATAL" {
		return ""
	}
	return sentence(&e)
}

// faults maps DuckDB's error types to faults; any other type is the statement's fault.
var faults = map[string]agent.StatementFault{
	"Out of Memory": agent.FaultResources, "INTERNAL": agent.FaultEngine, "FATAL": agent.FaultEngine, "IO": agent.FaultEngine, "HTTP": agent.FaultEngine, "Network": agent.FaultEngine,
	"Serialization": agent.FaultEngine, "INTERRUPT": agent.FaultCancelled, "Interrupt": agent.FaultCancelled,
}

// failureOf describes what failed in a statement, and where.
func failureOf(err error, query string) *agent.StatementFailure {
	e, ok := errors.AsType[*exception](err)
	switch {
	case !ok:
		return result.Failure(err, query)
	case result.IsDiskFull(e.Message):
		return result.DiskFull()
	}
	f := &agent.StatementFailure{Fault: agent.FaultQuery, Message: sentence(e)}
	if fault, ok := faults[e.Type]; ok {
		f.Fault = fault
	}
	switch {
	case strings.Contains(e.Message, "max_temp_directory_size"), strings.Contains(e.Message, "failed to allocate"), strings.Contains(e.Message, "could not allocate"),
		strings.Contains(e.Message, "std::bad_alloc"):
		f.Fault = agent.FaultResources
	case strings.Contains(e.Message, "Unauthorized_401)"), strings.Contains(e.Message, "Forbidden_403)"):
		f.Fault = agent.FaultForbidden
	case fencedOff(strings.TrimSpace(e.Message)) != "":
		f.Fault = agent.FaultQuery
	case conflict(e):
		f.Fault = agent.FaultConflict
		f.Message = fmt.Sprintf("The statement lost the race for its table %d times: others commit to it all the time. Nothing of it was written; run it again.", catalog.CommitAttempts)
	}
	if pos, err := strconv.Atoi(e.Position); err == nil {
		f.Line, f.Column = sqltext.LineColumn(query, pos-e.offset)
	}
	return f
}

// conflict reports whether another commit won the race, so that this one changed nothing.
func conflict(e *exception) bool {
	return e.Type == "TransactionContext" && strings.Contains(e.Message, "409)") && !strings.Contains(e.Message, "AlreadyExists")
}

func sentence(e *exception) string {
	text, _, _ := strings.Cut(e.Message, "\n\nPossible solutions") // suggests settings that users cannot change
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

// fencedOff returns the file that DuckDB was not allowed to open, or "".
func fencedOff(text string) string {
	file, found := strings.CutPrefix(text, "Cannot access file ")
	file, _, disabled := strings.Cut(file, " - file system operations are disabled")
	if !found || !disabled {
		return ""
	}
	return file
}

// damaged reports whether a table's file has invalid content.
func damaged(e *exception) bool {
	for _, sign := range []string{"don't know what type", "No magic bytes found", "TProtocolException", "from memory buffer", "too small to be a Parquet file"} {
		if strings.Contains(e.Message, sign) && e.Type != "Parser" && e.Type != "Binder" && e.Type != "Catalog" {
			return true
		}
	}
	return false
}

// catalogSaid returns the catalog's message in an error of the iceberg extension. The extension
// embeds the response in one of two ways.
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
