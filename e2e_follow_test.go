package main_test

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

// follower reads an attempt's log as it grows, and comes back at its offset whenever the connection breaks.
type follower struct {
	check   *check
	read    atomic.Int64
	breaks  atomic.Int64
	done    chan struct{}
	failure error // set before done is closed
}

// follow starts a follower of the attempt's log. It ends with the log, or with t.
func (p *platform) follow(run string, number int, c *check) *follower {
	f := &follower{check: c, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(func() {
		cancel()
		<-f.done
	})
	path := fmt.Sprintf("/runs/%s/tasks/work/logs?follow=true&attempt=%d", run, number)
	at := *p.client
	go func() {
		defer close(f.done)
		f.failure = f.followAll(ctx, &at, path)
	}()
	return f
}

func (f *follower) followAll(ctx context.Context, c *client, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		over, err := f.followOnce(ctx, c, path)
		if over || err != nil || ctx.Err() != nil {
			return err
		}
		f.breaks.Add(1)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// followOnce reads until the end of the log or of the connection. An error is one that no later try can make good.
func (f *follower) followOnce(ctx context.Context, c *client, path string) (over bool, err error) {
	res, err := c.send(ctx, http.MethodGet, fmt.Sprintf("%s&offset=%d", path, f.check.n), nil, nil)
	if err != nil {
		return false, nil
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusInternalServerError {
		return false, nil
	}
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		return false, fmt.Errorf("following from %d: %s: %s", f.check.n, res.Status, said)
	}
	_, err = io.Copy(io.MultiWriter(f.check, counter{&f.read}), &source{r: res.Body})
	var broken *brokenError
	if errors.As(err, &broken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if next := res.Trailer.Get("X-Log-Next-Offset"); next != fmt.Sprint(f.check.n) {
		return false, fmt.Errorf("the log ended after %d bytes and called that offset %q", f.check.n, next)
	}
	return true, nil
}

// source tells an error of reading from one of comparing.
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

// awaitRead waits until the follower has read so many bytes, or has failed.
func (f *follower) awaitRead(t testing.TB, n int64) {
	t.Helper()
	await(t, fmt.Sprintf("the follower has read %d bytes", n), func() bool {
		select {
		case <-f.done:
			require.NoError(t, f.failure)
		default:
		}
		return f.read.Load() >= n
	})
}

// end waits for the end of the log, however long it is: only one that stands still is given up.
func (f *follower) end(t testing.TB) *check {
	t.Helper()
	for before := int64(-1); ; {
		select {
		case <-f.done:
			require.NoError(t, f.failure)
			return f.check
		case <-time.After(patience):
		}
		now := f.read.Load()
		require.Greater(t, now, before, "the log stands still; the connection broke %d times", f.breaks.Load())
		before = now
	}
}

// readLog reads an attempt's whole log afresh and compares it with the stream.
func (p *platform) readLog(run string, number int, c *check) *check {
	p.t.Helper()
	res, err := p.send(p.t.Context(), http.MethodGet, fmt.Sprintf("/runs/%s/tasks/work/logs?attempt=%d", run, number), nil, nil)
	require.NoError(p.t, err)
	defer res.Body.Close()
	require.Equal(p.t, http.StatusOK, res.StatusCode)
	_, err = io.Copy(c, res.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, fmt.Sprint(c.n), res.Header.Get("X-Log-Size"))
	return c
}
