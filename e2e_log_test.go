package main_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// bytesEnv sets how many bytes the fast writer writes: MILLPOND_E2E_LOG_BYTES=1073741824 for the gigabyte.
const bytesEnv = "MILLPOND_E2E_LOG_BYTES"

// TestLogs: whatever a process writes and however it writes it, a reader who follows, a reader who comes later and one who reads what was archived
// get the same bytes.
func TestLogs(t *testing.T) {
	t.Parallel()
	fast := int64(200 << 20)
	if s := os.Getenv(bytesEnv); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(t, err)
		fast = n
	}
	p := newPlatform(t, options{})
	for _, w := range []work{
		{name: "as fast as it can", bytes: fast, block: 64 << 10, stream: "binary"},
		{name: "a line of 50 MB", bytes: 50 << 20, block: 1 << 20, stream: "line"},
		{name: "split runes", bytes: 300 << 10, block: 1021, pause: 1e6, stream: "mixed"},
		{name: "byte by byte", bytes: 5 << 10, block: 1, pause: 1e5, stream: "mixed"},
	} {
		t.Run(w.name, func(t *testing.T) {
			p.lend(t)
			w.arena = p.arena
			archived(t, p, w)
		})
	}
}

func archived(t *testing.T, p *platform, w work) {
	run := p.run(p.job(w.spec(0)))
	var first attemptRow
	await(t, "there is an attempt", func() bool {
		if all := p.attempts(run); len(all) > 0 {
			first = all[0]
		}
		return first.ID != ""
	})
	got := p.follow(run, 1, newCheck(w.stream, w.name)).end(t)
	p.requireTrueEnd(run, "success")
	wrote := w.events(t, "end")[0]
	require.Equal(t, wrote.Bytes, got.n)
	require.Equal(t, wrote.SHA256, got.SHA256())

	p.awaitSealed(first.ID)
	p.dropChunks(first.ID)
	require.Equal(t, wrote.SHA256, p.readLog(run, 1, newCheck(w.stream, w.name)).SHA256())
	require.Equal(t, wrote.SHA256, p.follow(run, 1, newCheck(w.stream, w.name)).end(t).SHA256())
	p.requireRanges(run, w, wrote.Bytes)
}

// database is the platform's own, seen by its superuser.
func (p *platform) database() *sql.DB {
	p.t.Helper()
	dsn, err := os.ReadFile(filepath.Join(p.dir, "database.url"))
	require.NoError(p.t, err)
	db, err := sql.Open("postgres", string(dsn))
	require.NoError(p.t, err)
	return db
}

// awaitSealed waits until the attempt's log is in objects.
func (p *platform) awaitSealed(attempt string) {
	p.t.Helper()
	db := p.database()
	defer db.Close()
	await(p.t, "the log is archived", func() bool {
		var sealed bool
		err := db.QueryRowContext(p.t.Context(), `SELECT log_sealed FROM attempts WHERE id = $1`, attempt).Scan(&sealed)
		return err == nil && sealed
	})
	objects, err := filepath.Glob(filepath.Join(p.dir, "objects", "*", "logs", attempt, "*"))
	require.NoError(p.t, err)
	require.NotEmpty(p.t, objects)
}

// dropChunks takes the log's rows away, as the end of their day does: what is read now comes from the archive.
func (p *platform) dropChunks(attempt string) {
	p.t.Helper()
	db := p.database()
	defer db.Close()
	_, err := db.ExecContext(p.t.Context(), `DELETE FROM log_chunks WHERE attempt_id = $1`, attempt)
	require.NoError(p.t, err)
}

// requireRanges asks for parts of the log in every way there is.
func (p *platform) requireRanges(run string, w work, size int64) {
	p.t.Helper()
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
		res, err := p.send(p.t.Context(), http.MethodGet, "/runs/"+run+"/tasks/work/logs?attempt=1"+r.query, nil, h)
		require.NoError(p.t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(p.t, err)
		require.NoError(p.t, res.Body.Close())
		source := newStream(w.stream, w.name)
		_, err = io.CopyN(io.Discard, source, r.from)
		require.NoError(p.t, err)
		want := make([]byte, r.to-r.from)
		_, err = io.ReadFull(source, want)
		require.NoError(p.t, err)
		require.True(p.t, bytes.Equal(want, got), "%s%s: %q, should be %q", r.header, r.query, last(string(got), 100), last(string(want), 100))
		if r.header != "" {
			require.Equal(p.t, http.StatusPartialContent, res.StatusCode)
			require.Equal(p.t, fmt.Sprintf("bytes %d-%d/%d", r.from, r.to-1, size), res.Header.Get("Content-Range"))
		}
	}
	for _, beyond := range []string{fmt.Sprintf("&offset=%d", size+1), fmt.Sprintf("&follow=true&offset=%d", size+1)} {
		err := p.do(p.t.Context(), http.MethodGet, "/runs/"+run+"/tasks/work/logs?attempt=1"+beyond, nil, nil)
		require.Equal(p.t, http.StatusRequestedRangeNotSatisfiable, status(err), beyond)
	}
}
