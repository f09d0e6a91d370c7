package duckdb

import (
	"errors"
	"strconv"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// fetch runs a prepared statement and sends its result. Parameter types, and so column types, may
// become known only now. The statement is then prepared again.
func (e *execution) fetch(statement duckdb.PreparedStatement, mayCast bool) error {
	var r duckdb.Result
	defer func() { duckdb.DestroyResult(&r) }()
	if err := e.start(statement, &r); err != nil {
		return err
	}
	switch duckdb.ResultReturnType(r) {
	case duckdb.ResultTypeNothing:
		return e.made(&r)
	case duckdb.ResultTypeChangedRows:
		return e.changed(&r)
	}
	if e.class.Write {
		return e.returned(&r)
	}
	names, types := columnsOf(&r)
	defer destroyTypes(types)
	kinds := make([]exact, len(types))
	for i := range types {
		kinds[i] = exactType(types[i])
	}
	if cast, changed := exactQuery(e.query, names, kinds); changed {
		if !mayCast {
			return sqltext.Refuse(-1, "The result has a column of a type that it cannot hold exactly. Cast it, to VARCHAR for example.")
		}
		duckdb.DestroyResult(&r)
		again, err := e.prepare(cast)
		if err != nil {
			return shifted(err, cast)
		}
		defer duckdb.DestroyPrepare(&again)
		return shifted(e.fetch(again, false), cast)
	}
	return e.sendResult(&r, names, types, kinds)
}

// returned sends the rows of RETURNING. The change is already committed, so a failure to send rows
// does not fail it.
func (e *execution) returned(r *duckdb.Result) error {
	names, types := columnsOf(r)
	defer destroyTypes(types)
	err := e.sendResult(r, names, types, make([]exact, len(types)))
	if _, ok := errors.AsType[*sqltext.Refusal](err); ok {
		e.end.Truncated = true
		return nil
	}
	return err
}

func (e *execution) sendResult(r *duckdb.Result, names []string, types []duckdb.LogicalType, kinds []exact) error {
	options := duckdb.ResultGetArrowOptions(r)
	defer duckdb.DestroyArrowOptions(&options)
	schema, err := arrowSchema(options, types, names)
	if err != nil {
		return err
	}
	var huge []bool
	for _, k := range kinds {
		huge = append(huge, k.huge)
	}
	out := &result.Sender{Out: e.out, Schema: schema, MaxRows: e.s.MaxRows, MaxBytes: e.s.MaxBytes}
	err = sendRows(out, huge, r, options)
	e.end.Rows, e.end.Bytes, e.end.Truncated = out.Rows, out.Bytes, out.Truncated
	return err
}

// sendRows sends DuckDB's result. It stops at the limit of rows or bytes. It checks the columns
// that huge marks by checkHuge.
func sendRows(r *result.Sender, huge []bool, from *duckdb.Result, options duckdb.ArrowOptions) error {
	defer r.Drop()
	if err := r.SendSchema(); err != nil {
		return err
	}
	for !r.Truncated {
		chunk := duckdb.FetchChunk(*from)
		if chunk.Ptr == nil {
			if text := duckdb.ResultError(from); text != "" {
				return parseException(text)
			}
			break
		}
		batch, err := arrowBatch(options, r.Schema, chunk)
		duckdb.DestroyDataChunk(&chunk)
		if err != nil {
			return err
		}
		if err := checkColumns(batch, huge); err != nil {
			batch.Release()
			return err
		}
		if err := r.Hold(batch); err != nil {
			return err
		}
	}
	return r.Flush()
}

// start runs a statement up to its first row.
func (e *execution) start(statement duckdb.PreparedStatement, r *duckdb.Result) error {
	var pending duckdb.PendingResult
	state := duckdb.PendingPreparedStreaming(statement, &pending)
	defer duckdb.DestroyPending(&pending)
	if state != duckdb.StateSuccess {
		return parseException(duckdb.PendingError(pending))
	}
	if duckdb.ExecutePending(pending, r) != duckdb.StateSuccess {
		if text := duckdb.ResultError(r); text != "" {
			return parseException(text)
		}
		return parseException(duckdb.PendingError(pending))
	}
	return nil
}

func drain(r *duckdb.Result) error {
	for {
		chunk := duckdb.FetchChunk(*r)
		if chunk.Ptr == nil {
			break
		}
		duckdb.DestroyDataChunk(&chunk)
	}
	if text := duckdb.ResultError(r); text != "" {
		return parseException(text)
	}
	return nil
}

// changed sets how many rows a write inserted, changed or deleted.
func (e *execution) changed(r *duckdb.Result) error {
	chunk := duckdb.FetchChunk(*r)
	if chunk.Ptr == nil {
		return drain(r)
	}
	if duckdb.DataChunkGetSize(chunk) == 1 && duckdb.ColumnType(r, 0) == duckdb.TypeBigInt {
		e.end.Rows = *(*int64)(duckdb.VectorGetData(duckdb.DataChunkGetVector(chunk, 0)))
	}
	duckdb.DestroyDataChunk(&chunk)
	return e.made(r)
}

// made finishes a statement without rows.
func (e *execution) made(r *duckdb.Result) error {
	if err := drain(r); err != nil {
		return err
	}
	if changed, _ := e.asking.Changed(); changed && e.end.Rows == 0 && e.class.Kind == "CREATE TABLE" {
		e.end.Rows = e.createdRows()
	}
	return nil
}

// createdRows is the row count of CREATE TABLE AS, which DuckDB does not report. It comes from the
// catalog. It is 0 if the catalog cannot be asked now, because the table exists anyway.
func (e *execution) createdRows() int64 {
	for _, m := range e.named {
		if !m.Target {
			continue
		}
		s, err := e.catalog.shape(m.Resolve(e.s.Database, e.s.Schema))
		if err != nil || s == nil || s.current() == nil {
			return 0
		}
		n, _ := strconv.ParseInt(s.current().Summary["added-records"], 10, 64) // 0 if the summary lacks it
		return n
	}
	return 0
}
