package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// lake is a platform with tables, and clients of its catalog that reuse their connections.
type lake struct {
	*platform
	http *http.Client
}

// catalogClients is the maximal number of clients of the catalog.
const catalogClients = 16

func newLake(b *testing.B) lake {
	return lake{newPlatform(b, 0), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: catalogClients}}}
}

// snapshotOf is a snapshot as an engine commits it. The catalog does not open its manifest list.
func snapshotOf(location string, id, parent, sequence int64, at time.Time) map[string]any {
	s := map[string]any{
		"snapshot-id": id, "sequence-number": sequence, "timestamp-ms": at.UnixMilli(), "schema-id": 0,
		"manifest-list": fmt.Sprintf("%s/metadata/snap-%d-0-%s.avro", location, id, uuid.NewString()),
		"summary": map[string]string{
			"operation": "append", "added-data-files": "1", "added-records": "1000", "added-files-size": "65536", "changed-partition-count": "1",
			"total-data-files": fmt.Sprint(sequence), "total-records": fmt.Sprint(1000 * sequence), "total-files-size": fmt.Sprint(65536 * sequence),
			"total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0",
		},
	}
	if parent != 0 {
		s["parent-snapshot-id"] = parent
	}
	return s
}

// table is a table's state as its writer knows it.
type table struct {
	name     string
	location string
	uuid     string
	snapshot int64 // id of the current one
	sequence int64 // of the last change
}

func (l lake) path(table string) string {
	return "/api/v1/iceberg/v1/lake/namespaces/public/tables/" + table
}

// call makes a request of the protocol, and returns status and body.
func (l lake) call(method, path string, header http.Header, body any) (int, []byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, l.url+path, content)
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+l.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := l.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer := bytes.NewBuffer(make([]byte, 0, max(res.ContentLength, 0)+bytes.MinRead))
	_, err = answer.ReadFrom(res.Body)
	return res.StatusCode, answer.Bytes(), err
}

// table creates a table with a number of snapshots, by registering its metadata.
func (l lake) table(name string, snapshots int) table {
	l.b.Helper()
	status, body, err := l.call(http.MethodPost, strings.TrimSuffix(l.path(""), "/"), nil, map[string]any{
		"name": name + "_seed", "properties": map[string]string{"format-version": "2"}, "schema": map[string]any{"type": "struct", "fields": []any{
			map[string]any{"id": 1, "name": "id", "required": true, "type": "long"}, map[string]any{"id": 2, "name": "what", "required": false, "type": "string"},
		}},
	})
	require.NoError(l.b, err)
	require.Equal(l.b, http.StatusOK, status, "%s", body)
	var made struct{ Metadata map[string]any }
	require.NoError(l.b, json.Unmarshal(body, &made))
	m := made.Metadata
	t := table{name: name, location: path.Dir(path.Dir(m["location"].(string))) + "/bench/" + name, uuid: uuid.NewString()}
	t.location = "file://" + strings.TrimPrefix(strings.TrimPrefix(t.location, "file:"), "//")
	began := time.Now().Add(-time.Duration(snapshots) * time.Second)
	all, log := make([]any, snapshots), make([]any, snapshots)
	for i := range snapshots {
		at := began.Add(time.Duration(i) * time.Second)
		t.sequence++
		id := 1_000_000_000_000_000_000 + t.sequence
		all[i] = snapshotOf(t.location, id, t.snapshot, t.sequence, at)
		log[i] = map[string]any{"snapshot-id": id, "timestamp-ms": at.UnixMilli()}
		m["last-updated-ms"], t.snapshot = at.UnixMilli(), id
	}
	m["location"], m["table-uuid"], m["snapshots"], m["snapshot-log"] = t.location, t.uuid, all, log
	m["last-sequence-number"], m["current-snapshot-id"] = t.sequence, t.snapshot
	m["refs"] = map[string]any{"main": map[string]any{"snapshot-id": t.snapshot, "type": "branch"}}
	text, err := json.Marshal(m)
	require.NoError(l.b, err)
	dir := strings.TrimPrefix(t.location, "file://") + "/metadata"
	require.NoError(l.b, os.MkdirAll(dir, 0o755))
	require.NoError(l.b, os.WriteFile(dir+"/00000-seed.metadata.json", text, 0o644))
	status, body, err = l.call(http.MethodPost, "/api/v1/iceberg/v1/lake/namespaces/public/register", nil,
		map[string]any{"name": name, "metadata-location": t.location + "/metadata/00000-seed.metadata.json"})
	require.NoError(l.b, err)
	require.Equal(l.b, http.StatusOK, status, "%s", body)
	return t
}

// load reads the table. It fails unless the answer's status is want.
func (l lake) load(t table, refs bool, etag string, want int) (int, error) {
	path, header := l.path(t.name), http.Header{}
	if refs {
		path += "?snapshots=refs"
	}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	status, body, err := l.call(http.MethodGet, path, header, nil)
	if err == nil && status != want {
		err = fmt.Errorf("the load answered %d: %s", status, body)
	}
	return len(body), err
}

// append commits one snapshot on top of the writer's state. It returns false if another commit was
// first. Engines assert the branch.
func (l lake) append(t *table, id int64, asserting bool) (bool, error) {
	requirements := []any{map[string]any{"type": "assert-table-uuid", "uuid": t.uuid}}
	if asserting {
		requirements = append(requirements, map[string]any{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": t.snapshot})
	}
	status, body, err := l.call(http.MethodPost, l.path(t.name), nil, map[string]any{"requirements": requirements, "updates": []any{
		map[string]any{"action": "add-snapshot", "snapshot": snapshotOf(t.location, id, t.snapshot, t.sequence+1, time.Now())},
		map[string]any{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
	}})
	switch {
	case err != nil:
		return false, err
	case status == http.StatusConflict:
		return false, nil
	case status != http.StatusOK:
		return false, fmt.Errorf("the commit answered %d: %s", status, body)
	}
	t.sequence, t.snapshot = t.sequence+1, id
	return true, nil
}

// refresh reloads the table's state.
func (l lake) refresh(t *table) error {
	status, body, err := l.call(http.MethodGet, l.path(t.name)+"?snapshots=refs", nil, nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("the load answered %d: %s", status, body)
	}
	var in struct {
		Metadata struct {
			Snapshot int64 `json:"current-snapshot-id"`
			Sequence int64 `json:"last-sequence-number"`
		} `json:"metadata"`
	}
	err = json.Unmarshal(body, &in)
	t.snapshot, t.sequence = in.Metadata.Snapshot, in.Metadata.Sequence
	return err
}
