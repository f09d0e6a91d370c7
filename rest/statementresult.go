package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/rest/httpx"
)

// ResultChunk is the size of a chunk of a result.
type ResultChunk struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes" doc:"Size in Arrow."`
}

// PendingStatement is the answer for a statement that is not over.
type PendingStatement struct {
	StatementID string `json:"statement_id"`
	State       string `json:"state" enum:"queued,running"`
	Message     string `json:"message" doc:"What it waits for; else empty."`
}

// ChunkResult is a chunk of a result.
type ChunkResult struct {
	Columns   []string            `json:"columns"`
	Rows      [][]json.RawMessage `json:"rows" doc:"Rows in the form of POST /sql/execute."`
	NextChunk *int                `json:"next_chunk,omitempty" doc:"Number of the next chunk. Absent at the end."`
}

// resultAnswer is an answer whose body is written in pieces.
type resultAnswer struct {
	ContentType string `header:"Content-Type"`
	StatementID string `header:"Millpond-Statement-Id"`
	Engine      string `header:"Millpond-Engine"`
	NextChunk   string `header:"Millpond-Next-Chunk"`
	Truncated   string `header:"Millpond-Truncated"`
	RetryAfter  string `header:"Retry-After"`
	Body        func(huma.Context)
}

// pending answers that a statement, or a chunk of its result, is not ready.
func pending(st statement.Statement) (*resultAnswer, error) {
	body, err := json.Marshal(PendingStatement{StatementID: string(st.ID), State: string(st.State), Message: st.Message})
	return &resultAnswer{
		ContentType: typeJSON, StatementID: string(st.ID), RetryAfter: "1",
		Body: func(ctx huma.Context) {
			ctx.SetStatus(http.StatusAccepted)
			_, _ = ctx.BodyWriter().Write(body) // fails if the client left
		},
	}, err
}

// written is a body that write writes. An error cuts the connection, because the status is already
// sent: an incomplete result must not look complete. A refusal is a separate answer.
func written(write func(io.Writer) error) func(huma.Context) {
	return func(ctx huma.Context) {
		if err := write(ctx.BodyWriter()); err != nil && !errors.Is(err, httpx.ErrRefused) {
			panic(http.ErrAbortHandler)
		}
	}
}

// wanted returns the content type that the Accept header prefers. It defaults to JSON.
func wanted(accept string) (string, error) {
	if strings.TrimSpace(accept) == "" {
		return typeJSON, nil
	}
	best, most := "", 0.0
	for part := range strings.SplitSeq(accept, ",") {
		kind, quality := served(part)
		if quality > most {
			best, most = kind, quality
		}
	}
	if best == "" {
		return "", domain.Invalid("Accept", "Accept is %q; results come as %s, %s or %s.", httpx.Shorten(accept), typeJSON, typeArrow, typeCSV)
	}
	return best, nil
}

// served returns the content type for one part of an Accept header, and its quality: 0 if it is not
// supported.
func served(part string) (kind string, quality float64) {
	asked, params, err := mime.ParseMediaType(part)
	if err != nil {
		return "", 0
	}
	quality = 1
	if q, weighed := params["q"]; weighed {
		if quality, err = strconv.ParseFloat(q, 64); err != nil || quality > 1 {
			return "", 0
		}
	}
	switch asked {
	case typeArrow, typeCSV, typeJSON:
		return asked, quality
	case "*/*", "application/*":
		return typeJSON, quality
	case "text/*":
		return typeCSV, quality
	}
	return "", 0
}

func (a *api) showResult(r statement.Result, kind string) (*resultAnswer, error) {
	out := &resultAnswer{ContentType: kind, StatementID: string(r.Statement.ID), Engine: r.Statement.Engine}
	truncated := r.Next > 0 || r.Statement.Truncated
	if r.Next > 0 {
		out.NextChunk = strconv.Itoa(r.Next)
	}
	out.Truncated = strconv.FormatBool(truncated)
	if kind != typeJSON {
		out.Body = written(func(w io.Writer) error { return writeChunk(w, r.Chunk, kind) })
		return out, nil
	}
	out.NextChunk, out.Truncated, out.Engine, out.StatementID = "", "", "", "" // in the body
	envelope, err := json.Marshal(struct {
		RowsAffected  *int64   `json:"rows_affected,omitempty"`
		Engine        string   `json:"engine"`
		ElapsedMS     int64    `json:"elapsed_ms"`
		Lineage       TablesOf `json:"lineage"`
		StatementID   string   `json:"statement_id"`
		RoutingReason string   `json:"routing_reason"`
		Truncated     bool     `json:"truncated"`
		NextChunk     int      `json:"next_chunk,omitempty"`
	}{
		affected(r.Statement), r.Statement.Engine, *a.duration(&r.Statement.CreatedAt, r.Statement.FinishedAt), showTables(r.Lineage), string(r.Statement.ID), r.Statement.RoutingReason, truncated, r.Next,
	})
	if err != nil {
		return nil, err
	}
	out.Body, err = jsonResult(r.Statement.Schemata, r.Chunk, envelope[1:])
	return out, err
}

// kept adds to a refusal for lack of memory where the result can be fetched later.
func kept(err error, st statement.Statement) error {
	e := domain.AsError(err)
	return domain.Errorf(e.Code, "%s The statement has run: its result is at /sql/statements/%s/chunks/0.", e.Message, st.ID)
}

// affected returns nil for a statement that writes no rows.
func affected(st statement.Statement) *int64 {
	if !st.ChangesRows() && st.Kind != "CREATE TABLE" {
		return nil
	}
	return known(st.Rows)
}

// known returns nil for -1, which means not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// jsonResult is a JSON object: the columns, the rows, and the fields of rest.
func jsonResult(schema, chunk, rest []byte) (func(huma.Context), error) {
	columns, err := rows.Columns(schema)
	if err != nil {
		return nil, err
	}
	head, err := json.Marshal(each(columns, func(c rows.Column) string { return c.Name }))
	if err != nil {
		return nil, err
	}
	if len(rest) > 1 {
		rest = append([]byte{','}, rest...)
	}
	return written(func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, `{"columns":%s,"rows":`, head); err != nil {
			return err
		}
		if err := writeRows(w, chunk); err != nil {
			return err
		}
		_, err := w.Write(rest)
		return err
	}), nil
}

func writeRows(w io.Writer, chunk []byte) error {
	if chunk == nil {
		_, err := io.WriteString(w, "[]")
		return err
	}
	return rows.WriteJSON(w, chunk)
}

// writeChunk writes a chunk in Arrow or CSV.
func writeChunk(w io.Writer, chunk []byte, kind string) error {
	if kind == typeArrow || chunk == nil {
		_, err := w.Write(chunk)
		return err
	}
	return rows.WriteCSV(w, chunk, true)
}

func (a *api) getChunk(ctx context.Context, s domain.Scope, in *struct {
	StatementPath
	N      int    `path:"n" doc:"Number of the chunk, from 0." example:"1"`
	Accept string `header:"Accept" doc:"application/json, application/vnd.apache.arrow.stream or text/csv."`
},
) (*resultAnswer, error) {
	kind, err := wanted(in.Accept)
	if err != nil {
		return nil, err
	}
	st, chunk, next, err := a.Statements.Chunk(ctx, s, in.id(), in.N, httpx.Hold)
	if err != nil {
		return nil, err
	}
	if chunk == nil {
		return pending(st)
	}
	out := &resultAnswer{ContentType: kind}
	rest := "}"
	if next {
		out.NextChunk = strconv.Itoa(in.N + 1)
		rest = `"next_chunk":` + out.NextChunk + "}"
	}
	if kind != typeJSON {
		out.StatementID = in.ID
		out.Body = written(func(w io.Writer) error { return writeChunk(w, chunk, kind) })
		return out, nil
	}
	out.NextChunk = ""
	out.Body, err = jsonResult(st.Schemata, chunk, []byte(rest))
	return out, err
}
