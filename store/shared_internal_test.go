package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestShared: each caller gets a read that began after its call, and waiting callers share one.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[string, int]()
		var state, reads atomic.Int32
		back := make(chan struct{})
		read := func(context.Context) (int, error) {
			reads.Add(1)
			seen := int(state.Load())
			<-back
			return seen, nil
		}
		ask := func(want int) {
			go func() {
				got, err := s.get(t.Context(), "k", read)
				if err != nil || got != want {
					t.Errorf("got %d, %v; want %d", got, err, want)
				}
			}()
			synctest.Wait()
		}
		ask(0)
		state.Store(1)
		ask(2) // waits
		ask(2)
		state.Store(2)
		back <- struct{}{}
		synctest.Wait() // the second read is running
		state.Store(3)
		ask(3)
		back <- struct{}{}
		back <- struct{}{}
		synctest.Wait()
		require.Equal(t, int32(3), reads.Load())
		require.Empty(t, s.next)
	})
}

// TestSharedIsNobodys: a caller that leaves does not end the read, and each caller gets its error.
func TestSharedIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[string, int]()
		broken := errors.New("broken")
		read := func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Second):
				return 0, broken
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		heard := make(chan error, 3)
		ctx, leave := context.WithCancel(t.Context())
		for _, c := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() {
				_, err := s.get(c, "k", read)
				heard <- err
			}()
			synctest.Wait()
		}
		leave()
		require.ErrorIs(t, <-heard, context.Canceled)
		require.ErrorIs(t, <-heard, broken)
		require.ErrorIs(t, <-heard, broken)
		synctest.Wait()
		require.Empty(t, s.next)
	})
}

// TestSharedDoesNotWaitForASilentConnection: a caller that has waited long reads itself.
func TestSharedDoesNotWaitForASilentConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[string, int]()
		silent := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			_, _ = s.get(t.Context(), "k", func(context.Context) (int, error) { <-silent; return 1, nil })
		})
		synctest.Wait()
		got, err := s.get(t.Context(), "k", func(context.Context) (int, error) { return 2, nil })
		require.NoError(t, err)
		require.Equal(t, 2, got)
		close(silent)
		group.Wait()
		synctest.Wait()
		require.Empty(t, s.next)
	})
}

// TestSharedPanic is an error for all waiting callers, and the next read starts.
func TestSharedPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared[string, int]()
		back := make(chan struct{})
		heard := make(chan error, 2)
		go func() { _, _ = s.get(t.Context(), "k", func(context.Context) (int, error) { <-back; return 1, nil }) }()
		synctest.Wait()
		for range 2 {
			go func() {
				_, err := s.get(t.Context(), "k", func(context.Context) (int, error) { panic("broken") })
				heard <- err
			}()
			synctest.Wait()
		}
		back <- struct{}{}
		require.ErrorContains(t, <-heard, "broken")
		require.ErrorContains(t, <-heard, "broken")
		synctest.Wait()
		require.Empty(t, s.next)
		got, err := s.get(t.Context(), "k", func(context.Context) (int, error) { return 3, nil })
		require.NoError(t, err)
		require.Equal(t, 3, got)
	})
}
