package graph

import (
	"context"
	"encoding/json"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/graph/model"
	"github.com/millpond/millpond/rest/httpx"
)

// maxTimeout is the longest time limit of a statement, in seconds: a week.
const maxTimeout = 7 * 24 * 60 * 60

// newStatement reads the statement, and how long to wait for it; nil waits to the end.
func newStatement(in model.ExecuteStatementInput) (n statement.NewStatement, wait *time.Duration, err error) {
	n = statement.NewStatement{
		Query: in.Query, Warehouse: in.Warehouse, Database: value(in.Database), Schema: value(in.Schema), Engine: value(in.Engine),
		RowLimit: value(in.RowLimit), ByteLimit: value(in.ByteLimit), Timeout: time.Duration(value(in.TimeoutSeconds)) * time.Second,
	}
	for _, p := range in.Parameters {
		if p == nil {
			p = json.RawMessage("null")
		}
		n.Parameters = append(n.Parameters, p)
	}
	switch {
	case n.Engine != "" && n.Engine != "duckdb" && n.Engine != "trino":
		return n, nil, domain.Invalid("engine", "%q is no engine; use duckdb or trino, or leave it out.", n.Engine)
	case value(in.TimeoutSeconds) > maxTimeout:
		return n, nil, domain.Invalid("timeout_seconds", "timeoutSeconds is %d; it must be at most %d.", *in.TimeoutSeconds, maxTimeout)
	case value(in.WaitMs) < 0:
		return n, nil, domain.Invalid("wait_ms", "waitMs is %d; it must be 0 or more, or left out.", *in.WaitMs)
	case in.WaitMs != nil:
		wait = new(time.Duration(*in.WaitMs) * time.Millisecond)
	}
	return n, wait, nil
}

// execute runs a statement, and waits for it as requested.
func (r *Resolver) execute(ctx context.Context, s domain.Scope, in model.ExecuteStatementInput) (shown model.ExecuteStatementPayload, err error) {
	n, wait, err := newStatement(in)
	if err != nil {
		return shown, err
	}
	result, err := r.Services.Statements.Execute(ctx, s, n, domain.Idempotency{Key: value(in.IdempotencyKey)}, wait)
	if err != nil {
		return shown, ofStatement(result.Statement.ID, ofInput(err))
	}
	shown.Statement = model.NewStatement(result.Statement)
	if result.Chunk == nil || !asksFor(ctx, "chunk") {
		return shown, nil
	}
	chunk, err := showChunk(ctx, result.Statement, 0, result.Chunk, result.Next > 0)
	if err != nil {
		return shown, ofStatement(result.Statement.ID, err)
	}
	shown.Chunk = &chunk
	return shown, nil
}

// ofInput renames a statement's fields to the input's.
func ofInput(err error) error {
	if e := domain.AsError(err); e.Field == "warehouse_id" {
		return domain.Invalid("warehouse", "The warehouse is missing; give its id or its name.").Because(err)
	}
	return err
}

// holdRead counts bytes of the answer before they are loaded, except for a mutation's answer.
func holdRead(ctx context.Context, n int64) error {
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Mutation {
		return nil
	}
	return httpx.Hold(ctx, n)
}

// showChunk writes the n-th chunk of a result as JSON.
func showChunk(ctx context.Context, st statement.Statement, n int, chunk []byte, more bool) (shown model.StatementChunk, err error) {
	columns, err := rows.Columns(st.Schemata)
	if err != nil {
		return shown, err
	}
	if n < len(st.Chunks) {
		if err := affordCells(ctx, int(st.Chunks[n].Rows)*max(len(columns), 1)); err != nil {
			return shown, err
		}
	}
	if shown.Rows, err = rows.AppendJSON(make([]byte, 0, 2*len(chunk)), chunk); err != nil {
		return shown, err
	}
	if more {
		shown.Next = new(n + 1)
	}
	return shown, nil
}

// sinceStart returns the milliseconds between two times, or to now without an end.
func sinceStart(clock domain.Clock, from time.Time, to *time.Time) int64 {
	if to == nil {
		to = new(clock.Now())
	}
	return max(to.Sub(from).Milliseconds(), 0)
}

// watchStatement sends a statement and each of its changes, until its end.
func (s *server) watchStatement(ctx context.Context, scope domain.Scope, id domain.StatementID) (<-chan model.Statement, error) {
	wake, stop, err := s.Services.Statements.Watch(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	return stream(ctx, s, stop, func(send func(model.Statement) error) error {
		ctx, over := context.WithCancel(ctx)
		defer over()
		var sent domain.Change
		return s.live(ctx, wake, func() error {
			if ctx.Err() != nil {
				return nil
			}
			st, err := s.Services.Statements.Get(ctx, scope, id)
			if err != nil {
				return err
			}
			if sent != st.Changed {
				sent = st.Changed
				err = send(model.NewStatement(st))
			}
			if st.State.Final() {
				over()
			}
			return err
		})
	})
}
