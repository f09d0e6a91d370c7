package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/engine/install/installtest"
	"github.com/millpond/millpond/domain/statement"
)

// SQL runs a statement on the workspace's warehouse. more holds further fields of the request; the
// key "Accept" sets the header.
func (p *Platform) SQL(query string, more ...any) Result {
	p.T.Helper()
	r, err := p.TrySQL(p.T.Context(), query, more...)
	require.NoError(p.T, err)
	return r
}

// TrySQL is SQL for a platform that may be down.
func (p *Platform) TrySQL(ctx context.Context, query string, more ...any) (r Result, err error) {
	body := map[string]any{"query": query, "warehouse_id": "default"}
	header := http.Header{}
	for i := 0; i < len(more); i += 2 {
		if more[i] == "Accept" || more[i] == "Idempotency-Key" {
			header.Set(more[i].(string), more[i+1].(string))
			continue
		}
		body[more[i].(string)] = more[i+1]
	}
	res, err := p.Send(ctx, http.MethodPost, "/sql/execute", body, header)
	if err != nil {
		return r, err
	}
	defer res.Body.Close()
	if r.Raw, err = io.ReadAll(res.Body); err != nil {
		return r, err
	}
	r.Status = res.StatusCode
	if res.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(r.Raw, &r)
	}
	return r, err
}

// OK runs a statement that must succeed.
func (p *Platform) OK(query string, more ...any) Result {
	p.T.Helper()
	r := p.SQL(query, more...)
	require.Equal(p.T, http.StatusOK, r.Status, "%s: %s", query, r.Raw)
	return r
}

// Statement returns the statement.
func (p *Platform) Statement(id string) (st StatementRow) {
	p.T.Helper()
	p.Must(http.MethodGet, "/sql/statements/"+id, nil, &st)
	return st
}

// AwaitStatement waits until the statement is in one of the states.
func (p *Platform) AwaitStatement(id string, states ...string) (st StatementRow) {
	p.T.Helper()
	Await(p.T, fmt.Sprintf("%s is %v", id, states), func() bool {
		st = StatementRow{}
		if !p.Get("/sql/statements/"+id, &st) {
			return false
		}
		reached := slices.Contains(states, st.State)
		require.False(p.T, !reached && statement.State(st.State).Final(), "%s should be %v and is %s: %+v", id, states, st.State, st.Error)
		return reached
	})
	return st
}

// SlowQuery is a read that never ends by itself.
const SlowQuery = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range * b.range = -1"

// WithTrino returns the arguments of a server on a host with Trino. Without Landlock in the kernel,
// Trino runs without a fence.
func WithTrino(t testing.TB) []string {
	t.Helper()
	return []string{"--engines-dir", filepath.Dir(installtest.Shared(t).Dir), "--trino-may-open-host-files"}
}

// Warehouse returns the id of the workspace's warehouse.
func (p *Platform) Warehouse() string {
	p.T.Helper()
	var all Page[MachineRow]
	p.Must(http.MethodGet, "/sql/warehouses", nil, &all)
	return all.Data[0].ID
}
