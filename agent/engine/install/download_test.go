package install

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mirror is a web server that can cut its answers.
type mirror struct {
	*httptest.Server
	content []byte
	cut     int  // bytes of an answer before the connection breaks; 0 means no cut
	ranges  bool // supports ranges
	answer  func(w http.ResponseWriter, r *http.Request) (done bool)

	mu    sync.Mutex
	asked []string // path and range of each request
}

func newMirror(t *testing.T, content []byte) *mirror {
	m := &mirror{content: content, ranges: true}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// ServeHTTP implements http.Handler.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	if m.answer != nil && m.answer(w, r) {
		return
	}
	from := 0
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && m.ranges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(m.content)-1, len(m.content)))
		w.Header().Set("Content-Length", strconv.Itoa(len(m.content)-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		from = 0
		w.Header().Set("Content-Length", strconv.Itoa(len(m.content)))
	}
	rest := m.content[from:]
	if m.cut == 0 || m.cut >= len(rest) {
		_, _ = w.Write(rest)
		return
	}
	_, _ = w.Write(rest[:m.cut])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.asked...)
}

const mavenPath = "/maven2/io/trino/trino-server/476/trino-server-476.tar.gz"

func newDownload(t *testing.T) (*fixture, *mirror) {
	f := newFixture(t).withJava()
	m := newMirror(t, f.archive)
	f.Mirror = m.URL + "/maven2"
	return f, m
}

func TestAMirrorIsAMavenRepositoryOrAnAddress(t *testing.T) {
	f, m := newDownload(t)
	f.installed()
	require.Equal(t, []string{mavenPath}, m.requests())
	require.Contains(t, f.said.String(), "Fetching "+m.URL+mavenPath+" (")

	f, m = newDownload(t)
	f.Mirror = strings.Replace(m.URL, "//", "//user:secret@", 1) + "/files/trino.tar.gz"
	f.installed()
	require.Equal(t, []string{"/files/trino.tar.gz"}, m.requests())
	require.NotContains(t, f.said.String(), "secret")

	for _, address := range []string{"ftp://host/x", "not an address", "/a/path", "http://", ":"} {
		require.ErrorContains(t, f.again(func(i *installer) { i.Mirror, i.Dir = address, filepath.Join(t.TempDir(), "e") }).fails(), "--mirror is not the address of a web server")
	}
}

func TestADownloadGoesOnWhereItWasCut(t *testing.T) {
	f, m := newDownload(t)
	m.cut = len(f.archive)/downloadTries/2 + 1 // more cuts than attempts without progress
	f.installed()
	asked := m.requests()
	require.Len(t, asked, 2*downloadTries)
	for n, request := range asked[1:] {
		require.Equal(t, fmt.Sprintf("%s bytes=%d-", mavenPath, (n+1)*m.cut), request)
	}
	require.Contains(t, f.said.String(), "The download broke off at ")
}

func TestADownloadFromAServerThatCannotGoOnBeginsAnew(t *testing.T) {
	f, m := newDownload(t)
	m.ranges, m.cut = false, len(f.archive)/2
	m.answer = func(http.ResponseWriter, *http.Request) bool {
		if len(m.asked) == 3 {
			m.cut = 0
		}
		return false
	}
	f.installed()
	require.Len(t, m.requests(), 3)
}

func TestADownloadThatIsCutForeverIsGivenUpAndGoesOnNextTime(t *testing.T) {
	f, m := newDownload(t)
	m.ranges, m.cut = false, len(f.archive)/2
	require.ErrorContains(t, f.fails(), "the download of Trino 476 broke off 5 times at ")
	require.Len(t, m.requests(), 1+downloadTries-1)

	info, err := os.Stat(f.part())
	require.NoError(t, err)
	require.EqualValues(t, m.cut, info.Size())
	good := newMirror(t, f.archive)
	f = f.again(func(i *installer) { i.Mirror = good.URL + "/maven2" })
	f.installed()
	require.Equal(t, []string{fmt.Sprintf("%s bytes=%d-", mavenPath, m.cut)}, good.requests())
	require.Contains(t, f.said.String(), "Resuming the download")
}

func TestAnInterruptedDownloadGoesOnNextTime(t *testing.T) {
	f, m := newDownload(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.said.on = func(line string) {
		if strings.Contains(line, " of ") && strings.HasSuffix(line, "kB.\n") { // a tenth is here
			cancel()
		}
	}
	m.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(m.content)))
		_, _ = w.Write(m.content[:len(m.content)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	_, err := f.run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	f.hasNothing()
	f.again(nil).installed()
	require.Len(t, m.requests(), 2)
	require.Contains(t, m.requests()[1], " bytes=")
}

func TestWhatWasFetchedAndNotInstalledIsNotFetchedAgain(t *testing.T) {
	for _, step := range []string{"Checking", "Unpacking"} {
		f, m := newDownload(t)
		ctx, cancel := context.WithCancel(t.Context())
		f.said.on = func(line string) {
			if strings.HasPrefix(line, step) {
				cancel()
			}
		}
		_, err := f.run(ctx)
		require.ErrorIs(t, err, context.Canceled)
		f.again(nil).installed()
		require.Len(t, m.requests(), 1)
	}
}

func TestASilentMirrorIsAskedAgain(t *testing.T) {
	f, m := newDownload(t)
	f.idle = 200 * time.Millisecond
	m.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if len(m.asked) == 1 {
			<-r.Context().Done()
		}
		return len(m.asked) == 1
	}
	f.installed()
	require.Contains(t, f.said.String(), "no data arrived for 200ms")
}

func TestAnswersOfMirrors(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(code)
			return true
		}
	}
	for _, c := range []struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
		asked  int
	}{
		{status(http.StatusNotFound), "the mirror answered 404 Not Found for ", 1},
		{status(http.StatusForbidden), "give the URL of a Maven repository that has Trino 476, or of its archive, with --mirror", 1},
		{status(http.StatusServiceUnavailable), "the mirror answered 503 Service Unavailable", downloadTries},
		{func(w http.ResponseWriter, _ *http.Request) bool {
			_, err := w.Write([]byte("<html>"))
			return err == nil
		}, "the mirror's file has 6 bytes, and the archive of Trino 476 has ", 1},
	} {
		f, m := newDownload(t)
		m.answer = c.answer
		require.ErrorContains(t, f.fails(), c.want)
		require.Len(t, m.requests(), c.asked)
	}
	f, m := newDownload(t)
	m.content = append(m.content, "more"...)
	require.NoError(t, os.MkdirAll(filepath.Dir(f.part()), 0o700))
	require.NoError(t, os.WriteFile(f.part(), f.archive[:100], 0o600))
	require.ErrorContains(t, f.fails(), fmt.Sprintf("the mirror's file has %d bytes, and the archive of Trino 476 has ", len(m.content)))
	require.Len(t, m.requests(), 1)

	f, m = newDownload(t)
	m.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if len(m.asked) < downloadTries {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return len(m.asked) < downloadTries
	}
	f.installed()
}

func TestAPartThatDoesNotFitIsThrownAway(t *testing.T) {
	for name, c := range map[string]struct {
		part   func(archive []byte) []byte
		answer func(m *mirror, w http.ResponseWriter, r *http.Request) bool
	}{
		"longer than the archive": {part: func(b []byte) []byte { return append(b, b...) }},
		"not of this mirror's": {
			part: func(b []byte) []byte { return b[:len(b)/2] },
			answer: func(_ *mirror, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") != "" {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return true
				}
				return false
			},
		},
		"answered with another range": {
			part: func(b []byte) []byte { return b[:len(b)/2] },
			answer: func(m *mirror, w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Range") == "" {
					return false
				}
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(m.content)-1, len(m.content)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(m.content)
				return true
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newDownload(t)
			if c.answer != nil {
				m.answer = func(w http.ResponseWriter, r *http.Request) bool { return c.answer(m, w, r) }
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(f.part()), 0o700))
			require.NoError(t, os.WriteFile(f.part(), c.part(append([]byte(nil), f.archive...)), 0o600))
			f.installed()
			asked := m.requests()
			require.Equal(t, mavenPath, asked[len(asked)-1], "from the beginning")
		})
	}
}

func TestAMirrorsOtherContentIsThrownAway(t *testing.T) {
	f, m := newDownload(t)
	m.content = append([]byte(nil), f.archive...)
	m.content[100] ^= 1
	require.ErrorContains(t, f.fails(), "is not the archive of Trino 476")
	require.NoFileExists(t, f.part())
	m.content = f.archive
	f.again(nil).installed()
	require.Equal(t, []string{mavenPath, mavenPath}, m.requests())
}
