package duckdb

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine/sqltext"
)

// plan is one operator of a physical plan of DuckDB, with the operators that feed it.
type plan struct {
	Name     string
	Children []plan
}

// is reports whether the operator has the name.
func (p plan) is(name string) bool { return strings.TrimSpace(p.Name) == name }

// writers are the operators that receive the rows of a write.
var writers = []string{"ICEBERG_INSERT", "COPY_TO_FILE", "ICEBERG_UPDATE", "MERGE_INTO", "PROJECTION"}

// writesNothing reports whether DuckDB found that no row reaches the write.
func (p plan) writesNothing() bool {
	for slices.ContainsFunc(writers, p.is) && len(p.Children) == 1 {
		p = p.Children[0]
	}
	return p.is("EMPTY_RESULT")
}

// scans is how many times the plan reads a table.
func (p plan) scans() (n int) {
	if p.is("ICEBERG_SCAN") {
		n = 1
	}
	for _, c := range p.Children {
		n += c.scans()
	}
	return n
}

// guardEmptied reports whether an UPDATE or a MERGE changes no row. If a condition is never true,
// DuckDB's plan updates the table without reading it, and the Iceberg extension fails. A MERGE that
// still inserts rows gets a condition that DuckDB cannot evaluate in advance. Its plan then reads
// the table.
func (e *execution) guardEmptied() (nothing bool, err error) {
	if e.class.Kind != "UPDATE" && e.class.Kind != "MERGE" {
		return false, nil
	}
	written, err := e.explain(e.query)
	if err != nil || written.writesNothing() || e.class.Kind == "UPDATE" {
		return err == nil && written.writesNothing(), err
	}
	text, ok := sqltext.WithOpaqueCondition(e.query)
	if !ok {
		return false, nil
	}
	opaque, err := e.explain(text)
	if err == nil && opaque.scans() > written.scans() {
		e.query, e.rewritten = text, true
	}
	return false, err
}

// explain returns DuckDB's plan of a statement, with its parameters.
func (e *execution) explain(query string) (plan, error) {
	var statement duckdb.PreparedStatement
	defer duckdb.DestroyPrepare(&statement)
	if duckdb.Prepare(e.conn.handle, "EXPLAIN (FORMAT json) "+query, &statement) != duckdb.StateSuccess {
		return plan{}, parseException(duckdb.PrepareError(statement))
	}
	if err := bind(statement, e.s.Parameters); err != nil {
		return plan{}, err
	}
	var r duckdb.Result
	defer duckdb.DestroyResult(&r)
	if err := e.start(statement, &r); err != nil {
		return plan{}, err
	}
	columns, err := stringsOf(&r, 1)
	if err != nil {
		return plan{}, err
	}
	var roots []plan
	if len(columns) != 1 || json.Unmarshal([]byte(columns[0]), &roots) != nil || len(roots) != 1 {
		return plan{}, errors.New("DuckDB's plan cannot be read")
	}
	return roots[0], nil
}
