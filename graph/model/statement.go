package model

import (
	"encoding/json"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
)

// Statement is a statement as the schema shows it. Empty and unknown fields are null.
type Statement struct{ statement.Statement }

// NewStatement shows a statement.
func NewStatement(st statement.Statement) Statement { return Statement{st} }

// Parameters returns the parameters as JSON values.
func (s Statement) Parameters() []json.RawMessage { return s.Statement.Parameters }

// Message returns what the statement waits for.
func (s Statement) Message() *string { return optional(s.Statement.Message) }

// Progress returns the progress, from 0 to 1.
func (s Statement) Progress() *float64 {
	if s.Statement.Progress < 0 {
		return nil
	}
	return &s.Statement.Progress
}

// Rows returns the rows of the result, or the rows that a write changed.
func (s Statement) Rows() *int64 {
	if s.Statement.Rows < 0 {
		return nil
	}
	return &s.Statement.Rows
}

// Kind returns the kind, once an engine has read the statement.
func (s Statement) Kind() *string { return optional(s.Statement.Kind) }

// Engine returns the engine that runs the statement.
func (s Statement) Engine() *string { return optional(s.Statement.Engine) }

// RoutingReason returns why that engine was chosen.
func (s Statement) RoutingReason() *string { return optional(s.Statement.RoutingReason) }

// Failure returns why the statement failed.
func (s Statement) Failure() *StatementError {
	if s.Statement.Failure == nil {
		return nil
	}
	return &StatementError{*s.Statement.Failure}
}

// Columns returns the columns of the result. It is empty if there is no result, or its columns
// cannot be read.
func (s Statement) Columns() []rows.Column {
	columns, err := rows.Columns(s.Schemata)
	if err != nil {
		return nil
	}
	return columns
}

// CreatedBy returns the sender's name.
func (s Statement) CreatedBy() string { return s.Statement.CreatedBy.Name }

// RunID returns the run whose task sent it.
func (s Statement) RunID() *domain.RunID {
	if s.Statement.RunID == "" {
		return nil
	}
	return &s.Statement.RunID
}

// TaskKey returns the task that sent it.
func (s Statement) TaskKey() *string { return optional(s.Statement.TaskKey) }

// Purpose returns what the platform runs the statement for.
func (s Statement) Purpose() *statement.Purpose { return optional(s.Statement.Purpose) }

// TableID returns the table that the statement maintains.
func (s Statement) TableID() *domain.TableID { return optional(s.Statement.TableID) }

// StatementError is why a statement failed.
type StatementError struct{ statement.Failure }

// Line returns the line of the error in the text.
func (e StatementError) Line() *int { return position(e.Failure.Line) }

// Column returns the column of the error in the text.
func (e StatementError) Column() *int { return position(e.Failure.Column) }

func position(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// StatementChunk is a chunk of a result. Rows is a JSON array of arrays.
type StatementChunk struct {
	Rows json.RawMessage
	Next *int
}

// StatementFilter narrows a list of statements.
type StatementFilter struct {
	States      []statement.State
	Purpose     *statement.Purpose
	WarehouseID *string
	RunID       *string
	Mine        *bool
	Search      *string
}

// Domain returns the filter as a domain filter.
func (f *StatementFilter) Domain() statement.Filter {
	if f == nil {
		return statement.Filter{}
	}
	out := statement.Filter{States: f.States}
	if f.Purpose != nil {
		out.Purpose = *f.Purpose
	}
	if f.WarehouseID != nil {
		out.Warehouse = domain.MachineID(*f.WarehouseID)
	}
	if f.RunID != nil {
		out.Run = domain.RunID(*f.RunID)
	}
	if f.Mine != nil && *f.Mine {
		out.Mine = "me"
	}
	if f.Search != nil {
		out.Text = *f.Search
	}
	return out
}
