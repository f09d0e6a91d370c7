package model

import (
	"encoding/json"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/rows"
)

// Statement is a statement as the schema shows it: what is empty or not known is null.
type Statement struct{ domain.Statement }

// NewStatement shows a statement.
func NewStatement(st domain.Statement) Statement { return Statement{st} }

// Parameters are JSON values.
func (s Statement) Parameters() []json.RawMessage { return s.Statement.Parameters }

// Message is what it waits for.
func (s Statement) Message() *string { return optional(s.Statement.Message) }

// Progress is from 0 to 1.
func (s Statement) Progress() *float64 {
	if s.Statement.Progress < 0 {
		return nil
	}
	return &s.Statement.Progress
}

// Rows are those of its result, or that it changed.
func (s Statement) Rows() *int64 {
	if s.Statement.Rows < 0 {
		return nil
	}
	return &s.Statement.Rows
}

// Kind is known once an engine has read it.
func (s Statement) Kind() *string { return optional(s.Statement.Kind) }

// Engine is what serves it.
func (s Statement) Engine() *string { return optional(s.Statement.Engine) }

// RoutingReason is why that engine serves it.
func (s Statement) RoutingReason() *string { return optional(s.Statement.RoutingReason) }

// Failure is why it failed.
func (s Statement) Failure() *StatementError {
	if s.Statement.Failure == nil {
		return nil
	}
	return &StatementError{*s.Statement.Failure}
}

// Columns are those of its result; none where there is no result, or none that can be read.
func (s Statement) Columns() []rows.Column {
	columns, err := rows.Columns(s.Schemata)
	if err != nil {
		return nil
	}
	return columns
}

// CreatedBy names who sent it.
func (s Statement) CreatedBy() string { return s.Statement.CreatedBy.Name }

// RunID is the run whose task sent it.
func (s Statement) RunID() *domain.RunID {
	if s.Statement.RunID == "" {
		return nil
	}
	return &s.Statement.RunID
}

// TaskKey is the task that sent it.
func (s Statement) TaskKey() *string { return optional(s.Statement.TaskKey) }

// StatementError is why a statement failed.
type StatementError struct{ domain.StatementFailure }

// Line is that of the text that is wrong.
func (e StatementError) Line() *int { return position(e.StatementFailure.Line) }

// Column is that of the text that is wrong.
func (e StatementError) Column() *int { return position(e.StatementFailure.Column) }

func position(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// StatementChunk is a piece of a result. Rows is a JSON array of arrays.
type StatementChunk struct {
	Rows json.RawMessage
	Next *int
}

// StatementFilter narrows a list of statements.
type StatementFilter struct {
	States      []domain.StatementState
	WarehouseID *string
	RunID       *string
	Mine        *bool
	Search      *string
}

// Domain is the filter as the domain has it.
func (f *StatementFilter) Domain() domain.StatementFilter {
	if f == nil {
		return domain.StatementFilter{}
	}
	out := domain.StatementFilter{States: f.States}
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
