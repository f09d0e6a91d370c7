package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// bytesEnv sets how many bytes the fast writer writes. For a gigabyte:
// MILLPOND_E2E_LOG_BYTES=1073741824.
const bytesEnv = "MILLPOND_E2E_LOG_BYTES"

// TestLogs: a following reader, a later reader and a reader of the archive get the same bytes,
// whatever a process writes and however.
func TestLogs(t *testing.T) {
	t.Parallel()
	fast := int64(64 << 20)
	if s := os.Getenv(bytesEnv); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		fast = n
	}
	p := harness.NewPlatform(t, harness.Options{})
	for _, w := range []harness.Work{
		{Name: "as fast as it can", Bytes: fast, Block: 64 << 10, Stream: "binary"},
		{Name: "a line of 50 MB", Bytes: 50 << 20, Block: 1 << 20, Stream: "line"},
		{Name: "split runes", Bytes: 300 << 10, Block: 1021, Pause: 1e6, Stream: "mixed"},
		{Name: "byte by byte", Bytes: 5 << 10, Block: 1, Pause: 1e5, Stream: "mixed"},
	} {
		t.Run(w.Name, func(t *testing.T) {
			p.Lend(t)
			w.Arena = p.Arena
			archived(t, p, w)
		})
	}
}

func archived(t *testing.T, p *harness.Platform, w harness.Work) {
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	var first harness.AttemptRow
	harness.Await(t, "there is an attempt", func() bool {
		if all := p.Attempts(run); len(all) > 0 {
			first = all[0]
		}
		return first.ID != ""
	})
	got := p.Follow(run, 1, harness.NewCheck(w.Stream, w.Name)).End(t)
	p.RequireTrueEnd(run, "success")
	wrote := w.Events(t, "end")[0]
	require.Equal(t, wrote.Bytes, got.N)
	require.Equal(t, wrote.SHA256, got.SHA256())

	awaitSealed(p, first.ID)
	dropChunks(p, first.ID)
	require.Equal(t, wrote.SHA256, p.ReadLog(run, 1, harness.NewCheck(w.Stream, w.Name)).SHA256())
	require.Equal(t, wrote.SHA256, p.Follow(run, 1, harness.NewCheck(w.Stream, w.Name)).End(t).SHA256())
	requireRanges(p, run, w, wrote.Bytes)
}

// awaitSealed waits until the attempt's log is archived.
func awaitSealed(p *harness.Platform, attempt string) {
	p.T.Helper()
	db := p.Database()
	defer db.Close()
	harness.Await(p.T, "the log is archived", func() bool {
		var sealed bool
		err := db.QueryRowContext(p.T.Context(), `SELECT log_sealed FROM attempts WHERE id = $1`, attempt).Scan(&sealed)
		return err == nil && sealed
	})
	objects, err := filepath.Glob(filepath.Join(p.Dir, "objects", "*", "logs", attempt, "*"))
	require.NoError(p.T, err)
	require.NotEmpty(p.T, objects)
}

// dropChunks deletes the log's rows, as the end of their partition's time does. Reads then use the
// archive.
func dropChunks(p *harness.Platform, attempt string) {
	p.T.Helper()
	db := p.Database()
	defer db.Close()
	_, err := db.ExecContext(p.T.Context(), `DELETE FROM log_chunks WHERE attempt_id = $1`, attempt)
	require.NoError(p.T, err)
}

// requireRanges reads parts of the log with every kind of range.
func requireRanges(p *harness.Platform, run string, w harness.Work, size int64) {
	p.T.Helper()
	const segment = 8 << 20
	for _, r := range []struct {
		header, query string
		from, to      int64
	}{
		{header: "bytes=0-0", from: 0, to: 1},
		{header: fmt.Sprintf("bytes=%d-%d", size/2, size/2+99), from: size / 2, to: size/2 + 100},
		{header: fmt.Sprintf("bytes=%d-%d", min(segment, size)-700, min(segment+700, size)-1), from: min(segment, size) - 700, to: min(segment+700, size)},
		{header: "bytes=-100", from: size - 100, to: size},
		{header: fmt.Sprintf("bytes=%d-", size-1), from: size - 1, to: size},
		{query: fmt.Sprintf("&offset=%d", size-77), from: size - 77, to: size},
		{query: fmt.Sprintf("&offset=%d", size), from: size, to: size},
	} {
		h := http.Header{}
		if r.header != "" {
			h.Set("Range", r.header)
		}
		res, err := p.Send(p.T.Context(), http.MethodGet, "/runs/"+run+"/tasks/work/logs?attempt=1"+r.query, nil, h)
		require.NoError(p.T, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(p.T, err)
		require.NoError(p.T, res.Body.Close())
		source := harness.NewStream(w.Stream, w.Name)
		_, err = io.CopyN(io.Discard, source, r.from)
		require.NoError(p.T, err)
		want := make([]byte, r.to-r.from)
		_, err = io.ReadFull(source, want)
		require.NoError(p.T, err)
		require.True(p.T, bytes.Equal(want, got), "%s%s: %q, should be %q", r.header, r.query, harness.Last(string(got), 100), harness.Last(string(want), 100))
		if r.header != "" {
			require.Equal(p.T, http.StatusPartialContent, res.StatusCode)
			require.Equal(p.T, fmt.Sprintf("bytes %d-%d/%d", r.from, r.to-1, size), res.Header.Get("Content-Range"))
		}
	}
	for _, beyond := range []string{fmt.Sprintf("&offset=%d", size+1), fmt.Sprintf("&follow=true&offset=%d", size+1)} {
		err := p.Do(p.T.Context(), http.MethodGet, "/runs/"+run+"/tasks/work/logs?attempt=1"+beyond, nil, nil)
		require.Equal(p.T, http.StatusRequestedRangeNotSatisfiable, harness.Status(err), beyond)
	}
}
