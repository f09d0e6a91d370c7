package rest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
)

// running starts a run of a single command with a running process.
func (w *world) running(t *testing.T) (agent *worker, run string, attempt job.Attempt) {
	t.Helper()
	agent = w.connect(w.ours)
	run = w.start(w.ours.editor, w.job(w.ours.editor, map[string]any{"name": "Nightly report", "command": "true"}))
	return agent, run, agent.next()
}

func TestStoredLogs(t *testing.T) {
	w := newWorld(t)
	token := w.ours.viewer
	agent, run, attempt := w.running(t)
	path := "/runs/" + run + "/logs"

	text := "hello\nw\xc3\xb6rld \x1b[31mred\x1b[0m\n\xff\x00binary\nlast"
	cut := strings.Index(text, "\xff")
	agent.writes(attempt, 0, job.Stdout, text[:cut])
	agent.writes(attempt, int64(cut), job.Stderr, text[cut:])
	size := strconv.Itoa(len(text))

	t.Run("the exact bytes", func(t *testing.T) {
		r := w.call(token, "GET", path, nil)
		require.Equal(t, 200, r.status)
		require.Equal(t, text, r.body)
		for name, want := range map[string]string{
			"Content-Type": "text/plain; charset=utf-8", "Content-Length": size, "Accept-Ranges": "bytes", sizeHeader: size, nextOffsetHeader: size,
			attemptHeader: "1", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": logSandbox, "Content-Disposition": "",
		} {
			require.Equal(t, want, r.header.Get(name), name)
		}
		head := w.call(token, "HEAD", path, nil)
		require.Equal(t, size, head.header.Get("Content-Length"))
		require.Empty(t, head.body)
	})
	t.Run("from an offset", func(t *testing.T) {
		r := w.call(token, "GET", path+"?offset=6", nil)
		require.Equal(t, text[6:], r.body)
		require.Equal(t, 200, r.status)
		require.Equal(t, size, r.header.Get(nextOffsetHeader))
		require.Empty(t, w.call(token, "GET", path+"?offset="+size, nil).body)
		past := w.call(token, "GET", path+"?offset=1000", nil)
		past.refused(416)
		require.Equal(t, "bytes */"+size, past.header.Get("Content-Range"))
		w.call(token, "GET", path+"?offset=1000&follow=true", nil).refused(416)
	})
	t.Run("ranges", func(t *testing.T) {
		r := w.call(token, "GET", path, nil, "Range", "bytes=2-8")
		require.Equal(t, 206, r.status)
		require.Equal(t, text[2:9], r.body)
		require.Equal(t, "bytes 2-8/"+size, r.header.Get("Content-Range"))
		require.Equal(t, "9", r.header.Get(nextOffsetHeader))
		require.Equal(t, text[len(text)-4:], w.call(token, "GET", path, nil, "Range", "bytes=-4").body)
		past := w.call(token, "GET", path, nil, "Range", "bytes=1000-")
		past.refused(416)
		require.Equal(t, "bytes */"+size, past.header.Get("Content-Range"))
		require.Equal(t, text, w.call(token, "GET", path, nil, "Range", "bytes=0-1,3-4").body)
	})
	t.Run("as lines", func(t *testing.T) {
		r := w.call(token, "GET", path+"?format=json", nil)
		require.Equal(t, "application/x-ndjson; charset=utf-8", r.header.Get("Content-Type"))
		require.Equal(t, size, r.header.Get(nextOffsetHeader))
		records := ndjson(t, r.body)
		require.Len(t, records, 4)
		require.Equal(t, "wörld \x1b[31mred\x1b[0m", records[1]["text"])
		require.Equal(t, "stdout", records[1]["stream"])
		require.NotEmpty(t, records[1]["time"])
		require.Equal(t, "\uFFFD\x00binary", records[2]["text"])
		require.Equal(t, "/wBiaW5hcnk=", records[2]["base64"])
		require.Equal(t, "stderr", records[2]["stream"])
		require.Equal(t, map[string]any{
			"line": 4.0, "stream": "stderr", "time": records[3]["time"], "offset": float64(len(text) - 4), "next_offset": float64(len(text)), "text": "last", "partial": true,
		}, records[3])
		from := ndjson(t, w.call(token, "GET", path+"?format=json&offset=8", nil).body)
		require.Equal(t, 2.0, from[0]["line"])
	})
	t.Run("as a file", func(t *testing.T) {
		require.Equal(t, "attachment; filename=Nightly-report_"+run+"_attempt-1.log", w.call(token, "GET", path+"?download=1", nil).header.Get("Content-Disposition"))
		require.Contains(t, w.call(token, "GET", path+"?download=1&format=json", nil).header.Get("Content-Disposition"), ".ndjson")
	})
	t.Run("bad requests", func(t *testing.T) {
		for _, q := range []string{"attempt=0", "attempt=x", "offset=-1", "offset=x", "offset=99999999999999999999", "format=xml", "follow=maybe", "nope=1", "offset=1&offset=2"} {
			w.call(token, "GET", path+"?"+q, nil).refused(400)
		}
		w.call(token, "GET", path+"?attempt=2", nil).refused(404)
		w.call(token, "GET", "/runs/"+run+"/tasks/x/logs", nil).refused(404)
		w.call(token, "GET", "/runs/run_x/logs", nil).refused(404)
		w.call(w.theirs.admin, "GET", path, nil).refused(404)
		w.call("", "GET", path, nil).refused(401)
	})
	t.Run("sealed, the same", func(t *testing.T) {
		agent.ends(attempt, 0, int64(len(text)))
		require.NoError(t, w.services.Logs.Seal(t.Context(), w.services.Runs.System))
		require.Equal(t, text, w.call(token, "GET", path, nil).body)
		require.Equal(t, text[3:9], w.call(token, "GET", path, nil, "Range", "bytes=3-8").body)
		require.Equal(t, text[9:], w.call(token, "GET", path+"?offset=9&follow=true", nil).body)
	})
}

func ndjson(t *testing.T, body string) (records []map[string]any) {
	t.Helper()
	for line := range strings.Lines(body) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v), line)
		records = append(records, v)
	}
	return records
}

// Only logs accept the console's cookie.
func TestLogsTakeTheConsolesCookie(t *testing.T) {
	w := newWorld(t)
	agent, run, attempt := w.running(t)
	agent.writes(attempt, 0, job.Stdout, "x")
	res := w.signInWithCookie(t)
	require.Equal(t, "x", w.call("", "GET", "/runs/"+run+"/logs?download=1", nil, "Cookie", res).body)
	w.call("", "GET", "/runs/"+run, nil, "Cookie", res).refused(401)
	w.call("", "POST", "/runs/"+run+"/cancel", nil, "Cookie", res).refused(401)
}

// signInWithCookie returns the console's cookie, from the console's own login.
func (w *world) signInWithCookie(t *testing.T) string {
	t.Helper()
	in, err := w.auth.Login(t.Context(), auth.Login{Email: w.ours.scope.Actor().Name, Password: password})
	require.NoError(t, err)
	return auth.CookieName + "=" + in.Secret
}

// A log of several pages, and ranges across their edges.
func TestLargeLogs(t *testing.T) {
	w := newWorld(t)
	agent, run, attempt := w.running(t)
	content := make([]byte, 3<<20)
	_, _ = rand.Read(content)
	for offset := 0; offset < len(content); offset += 256 << 10 {
		agent.writes(attempt, int64(offset), job.Stdout, string(content[offset:offset+256<<10]))
	}
	path := "/runs/" + run + "/logs"
	require.True(t, string(content) == w.call(w.ours.viewer, "GET", path, nil).body)
	for _, at := range [][2]int{{0, 1 << 20}, {1<<20 - 1, 1<<20 + 1}, {300_000, 2_900_000}, {3<<20 - 1, 3 << 20}} {
		r := w.call(w.ours.viewer, "GET", path, nil, "Range", "bytes="+strconv.Itoa(at[0])+"-"+strconv.Itoa(at[1]-1))
		require.True(t, string(content[at[0]:at[1]]) == r.body, at)
	}
}

// stream is a followed log.
type stream struct {
	t    *testing.T
	res  *http.Response
	body *bufio.Reader
	stop context.CancelFunc
}

func (w *world) follow(token, path string) *stream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	res, err := http.DefaultClient.Do(w.request(ctx, token, "GET", path, nil))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(w.t, 200, res.StatusCode)
	return &stream{w.t, res, bufio.NewReader(res.Body), cancel}
}

func (s *stream) expect(text string) {
	s.t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(s.body, got)
	require.NoError(s.t, err)
	require.Equal(s.t, text, string(got))
}

func TestFollowedLogs(t *testing.T) {
	w := newWorld(t)
	token := w.ours.viewer

	t.Run("live, to the attempt's end", func(t *testing.T) {
		agent, run, attempt := w.running(t)
		agent.writes(attempt, 0, job.Stdout, "before ")
		s := w.follow(token, "/runs/"+run+"/logs?follow=true&offset=2")
		require.Equal(t, "1", s.res.Header.Get(attemptHeader))
		s.expect("fore ")
		end := agent.writes(attempt, 7, job.Stderr, "and after")
		s.expect("and after")
		agent.ends(attempt, 0, end)
		_, err := s.body.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, "16", s.res.Trailer.Get(nextOffsetHeader))
	})
	t.Run("lines as they end", func(t *testing.T) {
		agent, run, attempt := w.running(t)
		s := w.follow(token, "/runs/"+run+"/logs?follow=true&format=json")
		end := agent.writes(attempt, 0, job.Stdout, "a\nhalf")
		line, err := s.body.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, `"text":"a"`)
		end = agent.writes(attempt, end, job.Stdout, " whole\nopen")
		line, err = s.body.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, `"text":"half whole"`)
		agent.ends(attempt, 0, end)
		rest, err := io.ReadAll(s.body)
		require.NoError(t, err)
		require.Contains(t, string(rest), `"text":"open","partial":true`)
	})
	t.Run("from before the first attempt", func(t *testing.T) {
		j := w.job(w.theirs.editor, map[string]any{"name": "waits", "command": "true"})
		run := w.start(w.theirs.editor, j)
		require.Empty(t, w.call(w.theirs.viewer, "GET", "/runs/"+run+"/logs", nil).body)
		s := w.follow(w.theirs.viewer, "/runs/"+run+"/logs?follow=true")
		require.Empty(t, s.res.Header.Get(attemptHeader))
		agent := w.connect(w.theirs)
		_, err := w.services.Runs.Dispatch(t.Context())
		require.NoError(t, err)
		attempt := agent.next()
		end := agent.writes(attempt, 0, job.Stdout, "at last\n")
		s.expect("at last\n")
		agent.ends(attempt, 0, end)
		_, err = s.body.ReadByte()
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, "1", s.res.Trailer.Get(attemptHeader))
	})
	t.Run("a task that will never run", func(t *testing.T) {
		agent := w.connect(w.ours)
		j, _ := w.call(w.ours.editor, "POST", "/jobs", map[string]any{"name": "chain", "tasks": []map[string]any{
			{"key": "a", "command": "false"}, {"key": "b", "command": "true", "depends_on": []string{"a"}}, {"key": "c", "command": "sleep 60"},
		}}).object(201)["id"].(string)
		run := w.start(w.ours.editor, j)
		s := w.follow(token, "/runs/"+run+"/tasks/b/logs?follow=true")
		for range 2 {
			if attempt := agent.next(); attempt.TaskKey == "a" {
				agent.ends(attempt, 1, 0)
			}
		}
		all, err := io.ReadAll(s.body)
		require.NoError(t, err)
		require.Empty(t, all)
		w.call(w.ours.editor, "GET", "/runs/"+run+"/logs", nil).refused(404)
	})
	t.Run("until the session ends", func(t *testing.T) {
		_, run, _ := w.running(t)
		s := w.follow(w.ours.viewer, "/runs/"+run+"/logs?follow=true")
		require.Equal(t, 204, w.call(w.ours.viewer, "POST", "/auth/logout", nil).status)
		_, err := io.ReadAll(s.body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut, not ended")
	})
	t.Run("until the key is revoked", func(t *testing.T) {
		_, run, _ := w.running(t)
		key := w.call(w.ours.admin, "POST", "/settings/api-keys", `{"name":"tail","role":"viewer"}`).object(201)
		secret, _ := key["secret"].(string)
		id, _ := key["id"].(string)
		s := w.follow(secret, "/runs/"+run+"/logs?follow=true")
		require.Equal(t, 204, w.call(w.ours.admin, "DELETE", "/settings/api-keys/"+id, nil).status)
		_, err := io.ReadAll(s.body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut, not ended")
	})
	t.Run("until the member is removed", func(t *testing.T) {
		_, run, _ := w.running(t)
		gone := w.member(w.ours, "gone", domain.RoleViewer)
		me, _ := w.call(gone, "GET", "/auth/me", nil).object(200)["actor"].(map[string]any)["id"].(string)
		s := w.follow(gone, "/runs/"+run+"/logs?follow=true")
		require.Equal(t, 204, w.call(w.ours.admin, "DELETE", "/settings/members/"+me, nil).status)
		_, err := io.ReadAll(s.body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut, not ended")
	})
	t.Run("until the client goes", func(t *testing.T) {
		_, run, _ := w.running(t)
		s := w.follow(w.ours.editor, "/runs/"+run+"/logs?follow=true")
		s.stop()
		_, err := io.ReadAll(s.body)
		require.Error(t, err)
	})
	t.Run("HEAD does not wait", func(t *testing.T) {
		_, run, _ := w.running(t)
		require.Equal(t, 200, w.call(w.ours.editor, "HEAD", "/runs/"+run+"/logs?follow=true", nil).status)
	})
	require.NotContains(t, w.logged.String(), "request failed")
}

// TestAFollowedLogEndsSoonAfterAKeyExpires, although an expiry sends no notification.
func TestAFollowedLogEndsSoonAfterAKeyExpires(t *testing.T) {
	w := newWorld(t)
	w.auth.Recheck = 20 * time.Millisecond
	_, run, _ := w.running(t)
	expires := w.clock.Now().Add(time.Hour).Format(time.RFC3339)
	secret, _ := w.call(w.ours.admin, "POST", "/settings/api-keys", `{"name":"tail","role":"viewer","expires_at":"`+expires+`"}`).object(201)["secret"].(string)
	s := w.follow(secret, "/runs/"+run+"/logs?follow=true")
	w.clock.advance(2 * time.Hour)
	_, err := io.ReadAll(s.body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut, not ended")
}

// TestWhatALogIsMissingIsSaidOfItsRun: the error names the run, not the workspace.
func TestWhatALogIsMissingIsSaidOfItsRun(t *testing.T) {
	w := newWorld(t)
	_, run, _ := w.running(t)
	require.Equal(t, `There is no task "zzz" in this run.`, w.call(w.ours.viewer, "GET", "/runs/"+run+"/tasks/zzz/logs", nil).refused(404))
	require.Equal(t, "There is no attempt 2 of this run.", w.call(w.ours.viewer, "GET", "/runs/"+run+"/logs?attempt=2", nil).refused(404))
	dag := w.start(w.ours.editor, w.job(w.ours.editor, map[string]any{"name": "dag", "tasks": []map[string]any{{"key": "a", "command": "true"}}}))
	require.Equal(t, `There is no attempt 7 of the task "a".`, w.call(w.ours.viewer, "GET", "/runs/"+dag+"/tasks/a/logs?attempt=7", nil).refused(404))
}
