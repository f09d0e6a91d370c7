package tracking

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestSearchesTakeTurns: one workspace's searches leave room for another's. A search that waits too
// long is refused, and one that runs too long is ended.
func TestSearchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		one, two := domain.SystemScope("one", "test"), domain.SystemScope("two", "test")
		endless := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ended := make(chan error)
		for range 20 {
			go func() { ended <- all.do(t.Context(), one, endless) }()
		}
		synctest.Wait()
		require.NoError(t, all.do(t.Context(), two, func(context.Context) error { return nil }))
		began := time.Now()
		codes := map[domain.Code]int{}
		for range 20 {
			codes[domain.AsError(<-ended).Code]++
		}
		require.Equal(t, map[domain.Code]int{domain.CodeInvalid: searchesOfOne, domain.CodeRate: 20 - searchesOfOne}, codes)
		require.Equal(t, searchTime, time.Since(began))
		require.NoError(t, all.do(t.Context(), one, func(context.Context) error { return nil }))

		left, leave := context.WithCancel(t.Context())
		leave()
		require.ErrorIs(t, all.do(left, one, endless), context.Canceled)
	})
}
