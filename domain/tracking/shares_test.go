package tracking

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestWritesTakeShares: one workspace's large writes leave room for its small ones and for another
// workspace. A write that waits too long is refused.
func TestWritesTakeShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all shares
		take := func(ws domain.WorkspaceID, points int) func() {
			t.Helper()
			end, err := all.take(t.Context(), ws, points)
			require.NoError(t, err)
			return end
		}
		var large []func()
		for range sharesOfOne / 7 {
			large = append(large, take("one", MaxPoints))
		}
		small := take("one", 1)
		waiting := make(chan error)
		go func() {
			end, err := all.take(t.Context(), "one", MaxPoints)
			if err == nil {
				end()
			}
			waiting <- err
		}()
		synctest.Wait()
		take("two", 1)()
		large[0]()
		require.NoError(t, <-waiting)
		held := take("one", MaxPoints)
		_, err := all.take(t.Context(), "one", MaxPoints)
		require.True(t, domain.IsCode(err, domain.CodeRate), "%v", err)
		left, leave := context.WithCancel(t.Context())
		leave()
		_, err = all.take(left, "one", MaxPoints)
		require.ErrorIs(t, err, context.Canceled)
		held()
		for _, end := range large[1:] {
			end()
		}
		small()
		for range 3 {
			take("one", MaxPoints)() // all came back
		}
	})
}
