package enginetest

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of a table that SQL drops are removed once the table can no longer be restored.
func TestDropAsksForThePurge(t *testing.T) {
	var mu sync.Mutex
	var drops []string
	r := newRigWith(t, rigOptions{lake: "file://" + t.TempDir(), between: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodDelete {
				mu.Lock()
				drops = append(drops, q.URL.Query().Get("purgeRequested"))
				mu.Unlock()
			}
			next.ServeHTTP(w, q)
		})
	}})
	r.changes("CREATE TABLE t AS SELECT 1 AS a")
	r.changes("DROP TABLE t")
	require.Equal(t, []string{"true"}, drops)
}
