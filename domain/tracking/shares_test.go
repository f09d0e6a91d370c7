package tracking

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

// TestWritesTakeShares: one workspace's large writes leave room for its small ones and for another
// workspace, and for more while that writes. A write that waits too long is refused.
func TestWritesTakeShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all shares
		take := func(ws domain.WorkspaceID, points int) func() {
			t.Helper()
			end, err := all.take(t.Context(), ws, points)
			require.NoError(t, err)
			return end
		}
		full := func(ws domain.WorkspaceID) {
			t.Helper()
			_, err := all.take(t.Context(), ws, MaxPoints)
			require.True(t, domain.IsCode(err, domain.CodeRate), "%v", err)
		}
		first, second, small := take("one", MaxPoints), take("one", MaxPoints), take("one", 1)
		full("one")
		left, leave := context.WithCancel(t.Context())
		leave()
		_, err := all.take(left, "one", MaxPoints)
		require.ErrorIs(t, err, context.Canceled)

		take("two", 1)()
		first()
		second()
		first = take("one", MaxPoints)
		full("one")
		take("one", 1)()
		take("two", 1)()
		first()
		small()

		take("one", 1)()
		time.Sleep(alone)
		first, second = take("one", MaxPoints), take("one", MaxPoints)
		first()
		second()
	})
}
