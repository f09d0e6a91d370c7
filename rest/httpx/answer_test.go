package httpx

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowClient receives each write just before its deadline, on a clock that only it moves.
type slowClient struct {
	*httptest.ResponseRecorder
	t         *testing.T
	deadlines int // since the last write
}

func (c *slowClient) SetWriteDeadline(at time.Time) error {
	if !at.IsZero() { // a zero time removes the previous deadline
		require.WithinDuration(c.t, time.Now().Add(time.Minute), at, 30*time.Second)
		c.deadlines++
	}
	return nil
}

func (c *slowClient) Write(b []byte) (int, error) {
	require.Positive(c.t, c.deadlines, "a piece has its own deadline")
	require.LessOrEqual(c.t, len(b), 18_000*60, "a reader of 18 kB/s is cut")
	c.deadlines = 0
	return c.ResponseRecorder.Write(b)
}

// TestASlowReaderIsNotCut: the deadline is that of a small piece, not of the whole answer.
func TestASlowReaderIsNotCut(t *testing.T) {
	data := bytes.Repeat([]byte("a line of a log\n"), 1<<18)
	for _, size := range []int{100, 32 << 10, len(data)} {
		c := &slowClient{ResponseRecorder: httptest.NewRecorder(), t: t}
		face := Face{Server: NewServer(Bounds{}), Log: slog.New(slog.DiscardHandler)}
		face.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for rest := data; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				n, err := w.Write(rest[:min(size, len(rest))])
				require.NoError(t, err)
				require.Equal(t, min(size, len(rest)), n)
			}
		})).ServeHTTP(c, httptest.NewRequest(http.MethodGet, "/", nil))
		require.True(t, bytes.Equal(data, c.Body.Bytes()))
	}
}
