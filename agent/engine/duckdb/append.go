package duckdb

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// appends reports whether the statement inserts rows into a table that it does not read.
func (e *execution) appends() bool {
	i := slices.IndexFunc(e.end.Tables, func(t agent.StatementTable) bool { return t.Target })
	if e.class.Kind != "INSERT" || i < 0 {
		return false
	}
	into := e.end.Tables[i]
	return !slices.ContainsFunc(e.end.Tables, func(t agent.StatementTable) bool {
		return !t.Target && strings.EqualFold(t.Schema, into.Schema) && strings.EqualFold(t.Table, into.Table) && strings.EqualFold(t.Database, into.Database)
	})
}

// storageFiles reads and writes manifests while the statement commits. It implements catalog.Files
// over a separate DuckDB connection that opens only the workspace's storage.
type storageFiles struct {
	*child
	conn *connection // opened on first use
}

// Read implements catalog.Files.
func (f *storageFiles) Read(path string) (content []byte, err error) {
	if err := f.connect(); err != nil {
		return nil, err
	}
	all, err := f.conn.blobs([]string{path})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Write implements catalog.Files.
func (f *storageFiles) Write(path string, content []byte) error {
	if err := f.connect(); err != nil {
		return err
	}
	return f.conn.exec("COPY (SELECT from_base64(" + sqltext.Literal(base64.StdEncoding.EncodeToString(content)) + ")) TO " + sqltext.Literal(path) + " (FORMAT BLOB)")
}

func (f *storageFiles) connect() (err error) {
	if f.conn == nil {
		f.conn, err = f.db.take()
	}
	return err
}

func (f *storageFiles) close() {
	if f.conn != nil {
		f.conn.close()
	}
}
