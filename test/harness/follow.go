package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Follower reads an attempt's log as it grows. After a broken connection it continues at its
// offset.
type Follower struct {
	check     *Check
	BytesRead atomic.Int64
	Breaks    atomic.Int64 // how often its connection broke
	done      chan struct{}
	failure   error // set before done is closed
}

// Follow starts a follower of the attempt's log. The follower ends with the log or with t.
func (p *Platform) Follow(run string, number int, c *Check) *Follower {
	f := &Follower{check: c, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.T.Cleanup(func() {
		cancel()
		<-f.done
	})
	path := fmt.Sprintf("/runs/%s/tasks/work/logs?follow=true&attempt=%d", run, number)
	at := *p.Client
	go func() {
		defer close(f.done)
		f.failure = f.followAll(ctx, &at, path)
	}()
	return f
}

func (f *Follower) followAll(ctx context.Context, c *Client, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		over, err := f.followOnce(ctx, c, path)
		if over || err != nil || ctx.Err() != nil {
			return err
		}
		f.Breaks.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followOnce reads to the end of the log or of the connection. It returns only errors that a retry
// cannot fix.
func (f *Follower) followOnce(ctx context.Context, c *Client, path string) (over bool, err error) {
	res, err := c.Send(ctx, http.MethodGet, fmt.Sprintf("%s&offset=%d", path, f.check.N), nil, nil)
	if err != nil {
		return false, nil
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusInternalServerError {
		return false, nil
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		return false, fmt.Errorf("following from %d: %s: %s", f.check.N, res.Status, said)
	}
	_, err = io.Copy(io.MultiWriter(f.check, counter{&f.BytesRead}), &source{r: res.Body})
	var broken *brokenError
	if errors.As(err, &broken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if next := res.Trailer.Get("X-Log-Next-Offset"); next != fmt.Sprint(f.check.N) {
		return false, fmt.Errorf("the log ended after %d bytes and called that offset %q", f.check.N, next)
	}
	return true, nil
}

// source distinguishes an error of reading from one of comparing.
type source struct{ r io.Reader }

type brokenError struct{ cause error }

// Error implements error.
func (e *brokenError) Error() string { return "the connection broke: " + e.cause.Error() }

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = &brokenError{err}
	}
	return n, err
}

type counter struct{ n *atomic.Int64 }

// Write implements io.Writer.
func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// AwaitRead waits until the follower has read n bytes or has failed.
func (f *Follower) AwaitRead(t testing.TB, n int64) {
	t.Helper()
	Await(t, fmt.Sprintf("the follower has read %d bytes", n), func() bool {
		select {
		case <-f.done:
			require.NoError(t, f.failure)
		default:
		}
		return f.BytesRead.Load() >= n
	})
}

// End waits for the end of the log, however long it is. It gives up only when the log stops
// growing.
func (f *Follower) End(t testing.TB) *Check {
	t.Helper()
	for before := int64(-1); ; {
		select {
		case <-f.done:
			require.NoError(t, f.failure)
			return f.check
		case <-time.After(AwaitTimeout):
		}
		now := f.BytesRead.Load()
		require.Greater(t, now, before, "the log stands still; the connection broke %d times", f.Breaks.Load())
		before = now
	}
}

// ReadLog reads an attempt's whole log from the start and compares it with the stream.
func (p *Platform) ReadLog(run string, number int, c *Check) *Check {
	p.T.Helper()
	res, err := p.Send(p.T.Context(), http.MethodGet, fmt.Sprintf("/runs/%s/tasks/work/logs?attempt=%d", run, number), nil, nil)
	require.NoError(p.T, err)
	defer res.Body.Close()
	require.Equal(p.T, http.StatusOK, res.StatusCode)
	_, err = io.Copy(c, res.Body)
	require.NoError(p.T, err)
	require.Equal(p.T, fmt.Sprint(c.N), res.Header.Get("X-Log-Size"))
	return c
}
