package rest

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A job's files are identified by their hash. They are kept if not sent again, and refused if their
// paths are invalid together.
func TestFilesOfAJob(t *testing.T) {
	w := newWorld(t)
	token := w.ours.editor
	content := base64.StdEncoding.EncodeToString([]byte("a,b\n1,2\n"))
	job := w.call(token, "POST", "/jobs", fmt.Sprintf(`{"name":"files","command":"cat data/t.csv","files":[{"path":"data/t.csv","content":%q}]}`, content)).object(201)
	files, _ := job["files"].([]any)
	require.Len(t, files, 1)
	file, _ := files[0].(map[string]any)
	require.Equal(t, "data/t.csv", file["path"])
	require.EqualValues(t, 8, file["size"])

	path := fmt.Sprintf("/jobs/%s", job["id"])
	kept := fmt.Sprintf(`{"files":[{"path":"other.csv","sha256":%q,"size":8,"executable":true}]}`, file["sha256"])
	changed, _ := w.call(token, "PATCH", path, kept).object(200)["files"].([]any)
	require.Equal(t, []any{map[string]any{"path": "other.csv", "size": 8.0, "sha256": file["sha256"], "executable": true}}, changed)

	for _, bad := range []string{
		`[{"path":"../out","content":""}]`, `[{"path":"/etc/passwd","content":""}]`, `[{"path":"a"}]`, `[{"path":"a","content":"!"}]`, `[{"path":"a","content":"YQ"}]`, `[{"path":"a","content":1}]`,
		`[{"path":"a","content":""},{"path":"a","content":""}]`, fmt.Sprintf(`[{"path":"a","sha256":"%064d","size":1}]`, 0),
	} {
		w.call(token, "PATCH", path, `{"files":`+bad+`}`).refused(400)
	}
	require.Equal(t, changed, w.call(token, "GET", path, nil).object(200)["files"])
	require.Equal(t, []any{}, w.call(token, "PATCH", path, `{"files":[]}`).object(200)["files"])
	empty, _ := w.call(token, "PATCH", path, `{"files":[{"path":"empty","content":""}]}`).object(200)["files"].([]any)
	require.EqualValues(t, 0, empty[0].(map[string]any)["size"])
	theirs := w.call(w.theirs.admin, "POST", "/jobs", fmt.Sprintf(`{"name":"x","command":"true","files":[{"path":"a","sha256":%q,"size":8}]}`, file["sha256"]))
	theirs.refused(400)
}
