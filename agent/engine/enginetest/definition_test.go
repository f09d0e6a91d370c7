package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

// A view's text must be one query, even if another client has written it.
func TestViewsAreOneQuery(t *testing.T) {
	r := newRig(t)
	require.EqualValues(t, 1, r.changes("CREATE TABLE t AS SELECT 1 AS a"))
	r.changes("CREATE VIEW v AS SELECT a FROM t")
	r.changes("ALTER VIEW IF EXISTS nosuch RENAME TO other")
	require.Equal(t, agent.FaultQuery, r.fails("ALTER VIEW nosuch RENAME TO other").Fault)
	r.changes("CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS a")
	require.Equal(t, []string{"1"}, r.ok("FROM v"))
	require.Equal(t, agent.FaultQuery, r.fails("CREATE VIEW IF NOT EXISTS t AS SELECT 2 AS a").Fault, "a table is there")
	r.changes("CREATE OR REPLACE VIEW v AS SELECT 3 AS a")
	require.Equal(t, []string{"3"}, r.ok("FROM v"))
	for i, text := range []string{
		"SELECT 1; ATTACH ':memory:' AS left_behind", "SELECT 1a$$; ATTACH ':memory:' AS left_behind --$$", "SELECT E'a'\n'\\' ; ATTACH ':memory:' AS left_behind --'", "(SHOW TABLES)", "SELECT * FROM o: 'x.parquet'", "INSERT INTO t VALUES (1)",
		"SELECT getenv('HOME')", "SELECT options FROM main.duckdb_databases",
	} {
		name := fmt.Sprint("bad", i)
		r.view(name, text)
		f := r.fails("FROM " + name)
		require.Equal(t, agent.FaultQuery, f.Fault, text)
		require.Contains(t, f.Message, "cannot be read", text)
	}
	require.Equal(t, []string{"lake"}, r.ok("SHOW DATABASES"))
}

// RETURNING with unsendable values is refused before anything is written.
func TestReturning(t *testing.T) {
	r := newRig(t)
	r.changes("CREATE TABLE t (a INT)")
	for _, returned := range []string{"a::HUGEINT", "INTERVAL 1 DAY", "1::UHUGEINT"} {
		f := r.fails("INSERT INTO t VALUES (1) RETURNING " + returned)
		require.Equal(t, agent.FaultQuery, f.Fault, f.Message)
	}
	require.Equal(t, []string{"0"}, r.ok("SELECT count(*) FROM t"))
	r.changes("INSERT INTO t VALUES ($1)", 1)
	require.Equal(t, []string{"1"}, r.ok("SELECT count(*) FROM t"))
}

// view stores a view with any text in the catalog, as another client would.
func (r *rig) view(name, text string) {
	send := func(method, path string, body any, into any) {
		b, err := json.Marshal(body)
		require.NoError(r.t, err)
		q, err := http.NewRequest(method, r.catalog.URL+path, bytes.NewReader(b))
		require.NoError(r.t, err)
		q.Header.Set("Authorization", "Bearer "+r.catalog.WriteToken)
		q.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(q)
		require.NoError(r.t, err)
		defer func() { _ = res.Body.Close() }()
		require.Equal(r.t, http.StatusOK, res.StatusCode, path)
		require.NoError(r.t, json.NewDecoder(res.Body).Decode(into))
	}
	var config struct{ Overrides, Defaults map[string]string }
	send(http.MethodGet, "/v1/config?warehouse=lake", nil, &config)
	prefix := config.Overrides["prefix"] + config.Defaults["prefix"]
	var made map[string]any
	send(http.MethodPost, "/v1/"+prefix+"/namespaces/public/views", map[string]any{
		"name": name, "properties": map[string]string{},
		"schema": map[string]any{"type": "struct", "schema-id": 0, "fields": []any{map[string]any{"id": 1, "name": "a", "type": "int", "required": false}}},
		"view-version": map[string]any{
			"version-id": 1, "timestamp-ms": time.Now().UnixMilli(), "schema-id": 0, "summary": map[string]string{}, "default-namespace": []string{"public"},
			"representations": []any{map[string]string{"type": "sql", "sql": text, "dialect": "duckdb"}},
		},
	}, &made)
}
