package catalog

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
)

const appending = `{"requirements": [{"type": "assert-table-uuid", "uuid": "one"}, {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}], "updates": [
	{"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "summary": {"operation": "append"}}},
	{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2}]}`

// noFiles implements Files for tests that use none.
type noFiles struct{ Files }

// commit sends an append to a catalog that refuses it. load serves the table.
func commit(t *testing.T, load http.HandlerFunc) (status int, body string, of *Statement) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			load(w, r)
			return
		}
		refuse(w, http.StatusConflict, "CommitFailedException", "It lost its race.")
	}))
	t.Cleanup(upstream.Close)
	p := listen(t, Options{UID: os.Getuid()})
	of = p.Open(&agent.Statement{ID: "stm_1", Catalog: agent.Catalog{URL: upstream.URL}})
	t.Cleanup(of.Close)
	of.Appends(noFiles{})
	r, err := http.NewRequest(http.MethodPost, p.URL()+"/v1/lake/namespaces/public/tables/t", strings.NewReader(appending))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+of.Handle())
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(b), of
}

func TestACommitThatTheTableHasWasMade(t *testing.T) {
	const loaded = `{"metadata": {"current-snapshot-id": 3, "snapshots": [{"snapshot-id": 2}, {"snapshot-id": 3}]}}`
	status, body, of := commit(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, loaded) })
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, loaded, body)
	changed, unsure := of.Changed()
	require.True(t, changed)
	require.NoError(t, unsure)
}

func TestARebaseEndsWhenItsSenderWaitsNoLonger(t *testing.T) {
	status, _, of := commit(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	require.Equal(t, http.StatusConflict, status)
	changed, unsure := of.Changed()
	require.False(t, changed)
	require.NoError(t, unsure)
	of.Appends(nil)
	require.Nil(t, of.files)
}

// TestARebaseNeedsItsTable: a table of the same name may have replaced the one that a commit was
// made for. The files of the commit are not that table's.
func TestARebaseNeedsItsTable(t *testing.T) {
	c, err := readAppend(&Request{Method: http.MethodPost, URL: "/v1/lake/namespaces/public/tables/t", Body: []byte(appending)}, "")
	require.NoError(t, err)
	now := tableState{UUID: "one", Version: "2", Schema: "0", RawSnapshots: []map[string]any{{"snapshot-id": json.Number("1")}}, Current: "1"}
	c.snapshot["schema-id"] = json.Number("0")
	require.True(t, c.fits(now))
	now.UUID = "another"
	require.False(t, c.fits(now))
	now.UUID, c.requirements = "one", c.requirements[1:]
	require.False(t, c.fits(now), "the commit does not name its table")
}
