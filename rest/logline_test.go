package rest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// slowClient takes each write just in time, on a clock that only it moves.
type slowClient struct {
	*httptest.ResponseRecorder
	t         *testing.T
	deadlines int // since the last write
}

func (c *slowClient) SetWriteDeadline(at time.Time) error {
	require.WithinDuration(c.t, time.Now().Add(sendTime), at, sendTime/2)
	c.deadlines++
	return nil
}

func (c *slowClient) Write(b []byte) (int, error) {
	require.Positive(c.t, c.deadlines, "a piece has the time that is left of another")
	require.LessOrEqual(c.t, len(b), sendPiece)
	c.deadlines = 0
	return c.ResponseRecorder.Write(b)
}

// TestASlowDownloadIsNotCut: what bounds the sending is the time of a small piece, not that of a page.
func TestASlowDownloadIsNotCut(t *testing.T) {
	data := bytes.Repeat([]byte("a line of a log\n"), 1<<16)
	for _, size := range []int{100, 32 << 10, 1 << 20} {
		c := &slowClient{ResponseRecorder: httptest.NewRecorder(), t: t}
		out := (&logAnswer{w: http.ResponseWriter(c)}).sink()
		var chunks []domain.LogChunk
		for offset := 0; offset < len(data); offset += size {
			chunks = append(chunks, domain.LogChunk{Offset: int64(offset), Data: data[offset:min(len(data), offset+size)]})
		}
		require.NoError(t, out.write(chunks))
		require.NoError(t, out.end())
		require.True(t, bytes.Equal(data, c.Body.Bytes()))
	}
}
