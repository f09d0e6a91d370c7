package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quick = timing{ping: 50 * time.Millisecond, pong: 300 * time.Millisecond}

// pair is both ends of one tunnel, each serving a handler.
type pair struct{ agent, control *Session }

// wire is a TCP proxy in front of the control plane. A test can cut it or make it a black hole.
type wire struct {
	net.Listener
	target string
	group  sync.WaitGroup
	mu     sync.Mutex
	conns  []net.Conn
	hole   chan struct{} // once closed, no bytes are forwarded and no connection is closed
	rate   int           // bytes a second towards the target; 0 means no limit
}

func newWire(t *testing.T, target string, rate int) *wire {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{Listener: l, target: target, rate: rate, hole: make(chan struct{})}
	w.group.Go(w.serve)
	t.Cleanup(func() { l.Close(); w.cut(); w.group.Wait() })
	return w
}

func (w *wire) serve() {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.target)
		if err != nil {
			in.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, in, out)
		w.mu.Unlock()
		buf := make([]byte, 32<<10)
		if w.rate > 0 {
			_ = in.(*net.TCPConn).SetReadBuffer(16 << 10) // else its buffer hides the slow link
			buf = buf[:4<<10]
		}
		w.group.Go(func() { w.relay(in, out, buf, w.rate) })
		w.group.Go(func() { w.relay(out, in, make([]byte, 32<<10), 0) })
	}
}

func (w *wire) relay(from, to net.Conn, buf []byte, rate int) {
	for {
		n, err := from.Read(buf)
		if rate > 0 {
			<-time.After(time.Duration(n) * time.Second / time.Duration(rate))
		}
		select {
		case <-w.hole:
			continueUntilClosed(from)
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func continueUntilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// connect opens a tunnel through a proxy and serves handler on both ends.
func connect(t testing.TB, tm timing, through func(target string) string, handler http.Handler) pair {
	accepted := make(chan *Session, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := accept(w, r, tm)
		if err != nil {
			return
		}
		accepted <- s
	}))
	t.Cleanup(web.Close)
	target := web.Listener.Addr().String()
	if through != nil {
		target = through(target)
	}
	a, err := dial(context.Background(), "http://"+target, "secret", nil, tm)
	require.NoError(t, err)
	p := pair{agent: a, control: <-accepted}
	var group sync.WaitGroup
	for _, s := range []*Session{p.agent, p.control} {
		server := &http.Server{Handler: handler}
		group.Go(func() { _ = server.Serve(s) })
		t.Cleanup(func() { server.Close() })
	}
	t.Cleanup(func() { p.agent.Close(); p.control.Close(); group.Wait() })
	return p
}

func TestBothEndsServeHTTP(t *testing.T) {
	data := make([]byte, 10<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	p := connect(t, standard, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		_, _ = io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%x", sum.Sum(nil))
	}))
	for _, s := range []*Session{p.agent, p.control} {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				res, err := s.Client().Post("http://peer/sum", "application/octet-stream", bytes.NewReader(data))
				if !assertNoError(t, err) {
					return
				}
				defer res.Body.Close()
				got, _ := io.ReadAll(res.Body)
				if string(got) != fmt.Sprintf("%x", sha256.Sum256(data)) {
					t.Errorf("the peer read other bytes than were sent")
				}
			})
		}
		group.Wait()
	}
	require.NoError(t, p.agent.Err())
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// TestClosingAStreamEndsBothHalves: a reader of the stream returns although the peer has not ended
// its half.
func TestClosingAStreamEndsBothHalves(t *testing.T) {
	release, serving := make(chan struct{}), make(chan struct{})
	p := connect(t, standard, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(serving)
		<-release
	}))
	defer close(release)
	conn, err := p.control.Open(t.Context())
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: agent\r\n\r\n")
	require.NoError(t, err)
	<-serving
	read := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		read <- err
	}()
	require.NoError(t, conn.Close())
	select {
	case err := <-read:
		require.Error(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("a read goes on after Close")
	}
}

func TestStreamsAreReused(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	p := connect(t, standard, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		peers[r.Context().Value(http.LocalAddrContextKey).(net.Addr).String()+r.RemoteAddr] = true
	}))
	for range 20 {
		res, err := p.agent.Client().Get("http://peer/")
		require.NoError(t, err)
		res.Body.Close()
	}
	require.Equal(t, 1, p.agent.mux.NumStreams())
}

func TestASlowStreamHoldsNobodyUp(t *testing.T) {
	release := make(chan struct{})
	p := connect(t, standard, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	var slow sync.WaitGroup
	started := make(chan struct{})
	slow.Go(func() {
		body := &notifying{Reader: bytes.NewReader(make([]byte, 16<<20)), after: 3 << 20, reached: started}
		res, err := p.agent.Client().Post("http://peer/slow", "", body)
		if assertNoError(t, err) {
			res.Body.Close()
		}
	})
	<-started // the slow stream's window is nearly full
	for range 50 {
		begin := time.Now()
		res, err := p.agent.Client().Post("http://peer/fast", "", bytes.NewReader(make([]byte, 100<<10)))
		require.NoError(t, err)
		res.Body.Close()
		require.Less(t, time.Since(begin), 5*time.Second)
	}
	close(release)
	slow.Wait()
}

// TestASlowLinkCarriesWhatIsLarge: a large slow body keeps the session alive, and small requests do
// not wait for all of it.
func TestASlowLinkCarriesWhatIsLarge(t *testing.T) {
	large := make([]byte, 1<<20)
	for name, carry := range map[string]func(p pair) (*http.Response, error){
		"a request": func(p pair) (*http.Response, error) {
			return p.agent.Client().Post("http://peer/", "", bytes.NewReader(large))
		},
		"an answer in one write": func(p pair) (*http.Response, error) { return p.control.Client().Get("http://peer/large") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := connect(t, patient, func(target string) string { return newWire(t, target, 128<<10).Addr().String() },
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/large" {
						_, _ = w.Write(large)
					}
				}))
			begun, through := time.Now(), make(chan struct{})
			var group sync.WaitGroup
			group.Go(func() {
				defer close(through)
				res, err := carry(p)
				if assertNoError(t, err) {
					_, err := io.Copy(io.Discard, res.Body)
					assertNoError(t, err)
					res.Body.Close()
				}
			})
			slowest := slowestRequest(t, p.agent, through)
			group.Wait()
			t.Logf("all of it took %s, the slowest small request %s", time.Since(begun), slowest)
			require.Greater(t, time.Since(begun), 2*patient.pong, "the link is not slow, so nothing is shown")
			require.Less(t, slowest, patient.pong)
			require.NoError(t, errors.Join(p.agent.Err(), p.control.Err()))
		})
	}
}

// slowestRequest makes small requests, one after the other, until over is closed.
func slowestRequest(t *testing.T, s *Session, over <-chan struct{}) (slowest time.Duration) {
	for {
		begun := time.Now()
		res, err := s.Client().Post("http://peer/", "", bytes.NewReader(make([]byte, 1000)))
		require.NoError(t, err)
		res.Body.Close()
		slowest = max(slowest, time.Since(begun))
		select {
		case <-over:
			return slowest
		default:
		}
	}
}

// patient is a timing for a busy machine.
var patient = timing{ping: 300 * time.Millisecond, pong: 3 * time.Second}

// notifying closes reached once a number of bytes has been read.
type notifying struct {
	io.Reader
	after   int
	reached chan struct{}
	once    sync.Once
}

func (n *notifying) Read(p []byte) (int, error) {
	k, err := n.Reader.Read(p)
	if n.after -= k; n.after <= 0 {
		n.once.Do(func() { close(n.reached) })
	}
	return k, err
}

func TestACutConnectionEndsBothSessions(t *testing.T) {
	var w *wire
	p := connect(t, standard, func(target string) string { w = newWire(t, target, 0); return w.Addr().String() }, http.NotFoundHandler())
	w.cut()
	for _, s := range []*Session{p.agent, p.control} {
		waitDone(t, s, 5*time.Second)
		require.Error(t, s.Err())
		_, err := s.Open(context.Background())
		require.Error(t, err)
		_, err = s.Accept()
		require.Error(t, err)
	}
}

func TestABlackHoleIsNoticedByKeepalive(t *testing.T) {
	var w *wire
	hang := make(chan struct{})
	p := connect(t, quick, func(target string) string { w = newWire(t, target, 0); return w.Addr().String() },
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	var group sync.WaitGroup
	group.Go(func() {
		_, err := p.agent.Client().Get("http://peer/")
		if err == nil {
			t.Error("a request over a dead connection did not fail")
		}
	})
	close(w.hole)
	for _, s := range []*Session{p.agent, p.control} {
		waitDone(t, s, 10*quick.pong)
		require.ErrorContains(t, s.Err(), "nothing was received from the other end for 300ms")
	}
	group.Wait()
	close(hang)
}

func TestAnIdleSessionStays(t *testing.T) {
	p := connect(t, quick, nil, http.NotFoundHandler())
	select {
	case <-p.agent.Done():
		t.Fatal(p.agent.Err())
	case <-p.control.Done():
		t.Fatal(p.control.Err())
	case <-time.After(4 * quick.pong):
	}
}

func TestCloseReachesThePeer(t *testing.T) {
	p := connect(t, standard, nil, http.NotFoundHandler())
	require.NoError(t, p.agent.Close())
	waitDone(t, p.control, 5*time.Second)
	require.ErrorContains(t, p.control.Err(), "1000")
}

func waitDone(t *testing.T, s *Session, within time.Duration) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(within):
		t.Fatal("the session did not end")
	}
}

func TestRefusals(t *testing.T) {
	for status, final := range map[int]bool{401: true, 403: true, 426: true, 404: false, 429: false, 500: false, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.Equal(t, agent.ConnectPath, r.URL.Path)
				require.Equal(t, "Bearer secret", r.Header.Get("Authorization"))
				w.WriteHeader(status)
				fmt.Fprint(w, `{"error":"the reason"}`)
			}))
			defer web.Close()
			_, err := Dial(context.Background(), web.URL, "secret", nil)
			require.ErrorContains(t, err, "the reason")
			var refused *FinalError
			require.Equal(t, final, asFinal(err, &refused))
		})
	}
	_, err := Dial(context.Background(), "ftp://nowhere", "secret", nil)
	require.ErrorContains(t, err, "http or https")
}

func TestABrowserOfAnotherOriginIsRefused(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, err := Accept(w, r); err == nil {
			s.Close()
		}
	}))
	defer web.Close()
	r, err := http.NewRequest(http.MethodGet, web.URL+agent.ConnectPath, nil)
	require.NoError(t, err)
	for k, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "https://elsewhere.example",
	} {
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, http.StatusForbidden, res.StatusCode)
}

func BenchmarkRoundTrip(b *testing.B) {
	p := connect(b, standard, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			data := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				res, err := p.agent.Client().Post("http://peer/", "", bytes.NewReader(data))
				if err != nil {
					b.Fatal(err)
				}
				res.Body.Close()
			}
		})
	}
}

func asFinal(err error, target **FinalError) bool { return errors.As(err, target) }
