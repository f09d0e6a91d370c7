package engine

import (
	"errors"
	"strconv"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// fetch runs a prepared statement and sends its result. The types of parameters may be known only now, and with them those of columns: then the statement
// is prepared once more.
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
	if e.class.write {
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
			return refuse(-1, "The result has a column of a type that it cannot hold exactly. Cast it, to VARCHAR for example.")
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

// returned sends the rows of RETURNING. The change is committed by then: that not all rows can be sent is no failure of it.
func (e *execution) returned(r *duckdb.Result) error {
	names, types := columnsOf(r)
	defer destroyTypes(types)
	err := e.sendResult(r, names, types, make([]exact, len(types)))
	if _, ok := errors.AsType[*refusal](err); ok {
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
	out := &result{out: e.out, schema: schema, maxRows: e.s.MaxRows, maxBytes: e.s.MaxBytes}
	for _, k := range kinds {
		out.huge = append(out.huge, k.huge)
	}
	err = out.send(r, options)
	e.end.Rows, e.end.Bytes, e.end.Truncated = out.rows, out.bytes, out.truncated
	return err
}

// start runs a statement up to its first row.
func (e *execution) start(statement duckdb.PreparedStatement, r *duckdb.Result) error {
	var pending duckdb.PendingResult
	state := duckdb.PendingPreparedStreaming(statement, &pending)
	defer duckdb.DestroyPending(&pending)
	if state != duckdb.StateSuccess {
		return parseDuckError(duckdb.PendingError(pending))
	}
	if duckdb.ExecutePending(pending, r) != duckdb.StateSuccess {
		if text := duckdb.ResultError(r); text != "" {
			return parseDuckError(text)
		}
		return parseDuckError(duckdb.PendingError(pending))
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
		return parseDuckError(text)
	}
	return nil
}

// changed reads how many rows a write inserted, changed or deleted.
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

// made ends a statement without rows.
func (e *execution) made(r *duckdb.Result) error {
	if err := drain(r); err != nil {
		return err
	}
	if e.end.Rows == 0 && e.class.kind == "CREATE TABLE" && e.courier.hasChanged() {
		e.end.Rows = e.createdRows()
	}
	return nil
}

// createdRows are those of a table that was made of a query, of which DuckDB tells none: the catalog knows them. 0 where it cannot be asked now, as the table
// is there.
func (e *execution) createdRows() int64 {
	for _, m := range e.named {
		if !m.target {
			continue
		}
		s, err := e.client().shape(m.resolve(e.s.Database, e.s.Schema))
		if err != nil || s == nil || s.current() == nil {
			return 0
		}
		n, _ := strconv.ParseInt(s.current().Summary["added-records"], 10, 64) // 0 where it is not told
		return n
	}
	return 0
}
