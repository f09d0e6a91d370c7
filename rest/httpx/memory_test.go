package httpx

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

var statuses = map[domain.Code]int{
	domain.CodeInvalid: http.StatusBadRequest, domain.CodeTooLarge: http.StatusRequestEntityTooLarge,
	domain.CodeRate: http.StatusTooManyRequests, domain.CodeUnavailable: http.StatusServiceUnavailable,
}

// serve runs a face whose callers give their workspace in a header. A caller without the header is
// unknown.
func serve(t *testing.T, b Bounds, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	face := Face{Server: NewServer(b), Log: slog.New(slog.DiscardHandler), Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
		status := statuses[domain.AsError(err).Code]
		if refused, ok := errors.AsType[*Refusal](err); ok {
			status = refused.Status
		}
		w.WriteHeader(status)
	}}
	server := httptest.NewServer(face.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws := r.Header.Get("Workspace"); ws != "" {
			r = r.WithContext(auth.With(r.Context(), domain.SystemScope(domain.WorkspaceID(ws), "test")))
		}
		handler(w, r)
	})))
	t.Cleanup(server.Close)
	return server
}

// take receives a JSON body as a face does.
func take(w http.ResponseWriter, r *http.Request) error {
	body, err := Receive(w, r, 8<<20)
	if err == nil {
		err = Count(r.Context(), body, MaxDepth, MaxValues)
	}
	if err != nil {
		w.WriteHeader(statuses[domain.AsError(err).Code])
	}
	return err
}

func send(t *testing.T, server *httptest.Server, workspace string, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	require.NoError(t, err)
	r.Header.Set("Workspace", workspace)
	res, err := server.Client().Do(r)
	if err != nil { // refused while it was sent
		return 0
	}
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// TestAnonymousCallersSendLittle, with and without a content length, and known callers more.
func TestAnonymousCallersSendLittle(t *testing.T) {
	server := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) { _ = take(w, r) })
	chunked := func(n int) io.Reader { return io.MultiReader(strings.NewReader(strings.Repeat(" ", n))) }
	for _, c := range []struct {
		workspace string
		bytes     int
		status    int
	}{
		{"", AnonymousBytes, 200}, {"", AnonymousBytes + 1, 413}, {"ws_1", AnonymousBytes + 1, 200}, {"ws_1", 8 << 20, 200}, {"ws_1", 8<<20 + 1, 413},
	} {
		require.Equal(t, c.status, send(t, server, c.workspace, strings.NewReader(strings.Repeat(" ", c.bytes))), c)
		require.Equal(t, c.status, send(t, server, c.workspace, chunked(c.bytes)), c)
	}
}

// TestAnAnonymousCallerHoldsWhatHasCome, not the announced length.
func TestAnAnonymousCallerHoldsWhatHasCome(t *testing.T) {
	held := make(chan int64, 1)
	server := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) {
		lease := leaseOf(r.Context())
		r.Body = reading{r.Body, func() { held <- lease.requests }}
		_, _ = Receive(w, r, 8<<20)
	})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n", AnonymousBytes)
	require.NoError(t, err)
	require.LessOrEqual(t, <-held, int64(512))
}

// reading signals when it is read, and then returns EOF.
type reading struct {
	io.ReadCloser
	signal func()
}

func (b reading) Read(p []byte) (int, error) {
	b.signal()
	return 0, io.EOF
}

// TestBodiesInFlightAreBounded for a workspace and for the server. Beyond the bound, a body is
// refused at once and not kept.
func TestBodiesInFlightAreBounded(t *testing.T) {
	const size = 1 << 20
	taken, leave := make(chan struct{}, 100), make(chan struct{})
	release := sync.OnceFunc(func() { close(leave) })
	defer release()
	server := serve(t, Bounds{ServerBytes: 8 * size, WorkspaceBytes: 5 * size}, func(w http.ResponseWriter, r *http.Request) {
		if take(w, r) == nil {
			taken <- struct{}{}
			<-leave
		}
	})
	body := strings.Repeat(" ", size)
	var wait sync.WaitGroup
	begin := func(workspace string) {
		wait.Go(func() {
			if status := send(t, server, workspace, strings.NewReader(body)); status != http.StatusOK {
				t.Errorf("%s: %d", workspace, status)
			}
		})
		<-taken
	}
	for range 2 { // of one megabyte each, and twice as much while it grows
		begin("ws_1")
		begin("ws_2")
	}
	before := heap()
	refused := map[int]int{}
	for range 40 {
		refused[send(t, server, "ws_1", io.MultiReader(strings.NewReader(body), strings.NewReader(body), strings.NewReader(body), strings.NewReader(body)))]++
	}
	require.Zero(t, refused[http.StatusOK], refused)
	require.Positive(t, refused[http.StatusTooManyRequests]+refused[0], refused)
	require.Less(t, heap(), before+4*size)
	begin("ws_3") // the others continue, until the server's bound is reached
	begin("ws_3")
	require.Contains(t, []int{http.StatusServiceUnavailable, 0}, send(t, server, "ws_4", strings.NewReader(strings.Repeat(body, 3))))
	release()
	wait.Wait()
	require.Equal(t, http.StatusOK, send(t, server, "ws_1", strings.NewReader(body)), "the memory is free again")
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestJSONIsCountedBeforeItIsDecoded: a body must not grow to many times its size.
func TestJSONIsCountedBeforeItIsDecoded(t *testing.T) {
	ctx, lease := WithLease(t.Context())
	lease.server = NewServer(Bounds{WorkspaceBytes: 1 << 20})
	many := []byte("[" + strings.Repeat("[],", MaxValues) + "[]]")
	require.True(t, domain.IsCode(Count(ctx, many, MaxDepth, MaxValues), domain.CodeTooLarge))
	require.True(t, domain.IsCode(Count(ctx, many[:60_000], MaxDepth, MaxValues), domain.CodeRate), "no memory at the moment")
	require.True(t, domain.IsCode(Count(ctx, []byte(strings.Repeat("[", MaxDepth+1)), MaxDepth, MaxValues), domain.CodeInvalid))
	require.NoError(t, Count(ctx, []byte(`{"a":["[[[\"[[[", {"b":"\\"}]}`), 3, 12), "texts are not counted")
	require.Positive(t, lease.requests)
	lease.Release()
	require.Empty(t, lease.server.requests.by)
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = Count(context.Background(), []byte(`{"a":[1,2,3]}`), MaxDepth, MaxValues) })-1, "except the lease of this test")
}

// TestWhoeverDoesNotReadIsEnded: eight connections never read a large answer. They hold it for the
// time of one piece, and never more than the bounds allow.
func TestWhoeverDoesNotReadIsEnded(t *testing.T) {
	const size = 32 << 20
	served := make(chan int, 8)
	server := serve(t, Bounds{WorkspaceBytes: 3 * size, SendTime: 300 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		n, _ := w.Write(make([]byte, size))
		served <- n
	})
	before := heap()
	for range 8 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
		require.NoError(t, err)
	}
	for range 8 {
		require.Less(t, <-served, size)
	}
	require.Less(t, heap(), before+size/2)
	require.Eventually(t, func() bool { // the last one releases its lease after the handler
		res, err := server.Client().Get(server.URL)
		if err != nil {
			return false
		}
		defer func() { _ = res.Body.Close() }()
		n, err := io.Copy(io.Discard, res.Body)
		<-served
		return res.StatusCode == http.StatusOK && err == nil && n == size
	}, time.Minute, time.Millisecond)
}

// TestAnAnswerForWhichThereIsNoMemoryIsRefused as a whole, without any part of the first answer.
func TestAnAnswerForWhichThereIsNoMemoryIsRefused(t *testing.T) {
	server := serve(t, Bounds{WorkspaceBytes: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "2097152")
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(make([]byte, 2<<20))
		if r.Method == http.MethodGet {
			require.ErrorIs(t, err, ErrRefused)
		}
	})
	res, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	require.Zero(t, res.ContentLength)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, send(t, server, "", http.NoBody), "a request that may have changed something is answered")
}

// TestAnAnswerIsSentThatIsOnlyAStatus: a followed answer is sent as it grows.
func TestAnAnswerIsSentThatIsOnlyAStatus(t *testing.T) {
	next := make(chan struct{})
	server := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		if r.Method == http.MethodPost {
			return
		}
		_, _ = io.WriteString(w, "a line\n")
		require.NoError(t, http.NewResponseController(w).Flush())
		<-next
	})
	require.Equal(t, http.StatusAccepted, send(t, server, "", http.NoBody))
	res, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "a line\n", line)
	close(next)
	require.NoError(t, res.Body.Close())
}

// TestAPanicIsAnswered if nothing was sent; else the connection ends.
func TestAPanicIsAnswered(t *testing.T) {
	server := serve(t, Bounds{}, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<16))
		}
		panic("oh")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	require.NoError(t, err)
	res, err := server.Client().Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, res.StatusCode)
	require.NoError(t, res.Body.Close())
	res, err = server.Client().Get(server.URL)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.Error(t, err)
	require.NoError(t, res.Body.Close())
}
