package duckdb

import (
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// exec runs one of the engine's own statements.
func (c *connection) exec(query string) error {
	var r duckdb.Result
	state := duckdb.Query(c.handle, query, &r)
	defer duckdb.DestroyResult(&r)
	if state != duckdb.StateSuccess {
		return parseException(duckdb.ResultError(&r))
	}
	return nil
}

// count returns the number of statements in a text, by DuckDB's parser.
func (c *connection) count(query string) (int, error) {
	var all duckdb.ExtractedStatements
	n := duckdb.ExtractStatements(c.handle, query, &all)
	defer duckdb.DestroyExtracted(&all)
	if n == 0 {
		return 0, parseException(duckdb.ExtractStatementsError(all))
	}
	return int(n), nil
}

// strings returns the first column of one of the engine's own queries.
func (c *connection) strings(query string) ([]string, error) {
	var r duckdb.Result
	state := duckdb.Query(c.handle, query, &r)
	defer duckdb.DestroyResult(&r)
	if state != duckdb.StateSuccess {
		return nil, parseException(duckdb.ResultError(&r))
	}
	return stringsOf(&r, 0)
}

// stringsOf returns a column of a result.
func stringsOf(r *duckdb.Result, column int) ([]string, error) {
	options := duckdb.ResultGetArrowOptions(r)
	defer duckdb.DestroyArrowOptions(&options)
	names, types := columnsOf(r)
	defer destroyTypes(types)
	schema, err := arrowSchema(options, types, names)
	if err != nil {
		return nil, err
	}
	var all []string
	for {
		chunk := duckdb.FetchChunk(*r)
		if chunk.Ptr == nil {
			return all, nil
		}
		batch, err := arrowBatch(options, schema, chunk)
		duckdb.DestroyDataChunk(&chunk)
		if err != nil {
			return nil, err
		}
		for i := range int(batch.NumRows()) {
			all = append(all, strings.Clone(batch.Column(column).ValueStr(i))) // freed with the batch
		}
		batch.Release()
	}
}

// interrupt stops the running statement.
func (c *connection) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle.Ptr != nil {
		duckdb.Interrupt(c.handle)
	}
}

// progress returns a value from 0 to 1, or -1 if it is unknown.
func (c *connection) progress() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle.Ptr == nil {
		return -1
	}
	p := duckdb.QueryProgress(c.handle)
	percent, _, _ := duckdb.QueryProgressTypeMembers(&p)
	if percent < 0 {
		return -1
	}
	return min(percent/100, 1)
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	duckdb.Disconnect(&c.handle)
}

func columnsOf(r *duckdb.Result) (names []string, types []duckdb.LogicalType) {
	for i := range duckdb.ColumnCount(r) {
		names = append(names, duckdb.ColumnName(r, i))
		types = append(types, duckdb.ColumnLogicalType(r, i))
	}
	return names, types
}

func destroyTypes(types []duckdb.LogicalType) {
	for i := range types {
		duckdb.DestroyLogicalType(&types[i])
	}
}
