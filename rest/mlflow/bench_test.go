package mlflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkCalls measures whole requests on a real database.
func BenchmarkCalls(b *testing.B) {
	w := newWorld(b)
	x := w.experiment("x")
	run := w.run(x)
	b.Run("log-metric", func(b *testing.B) {
		for i := range b.N {
			w.post("runs/log-metric", fmt.Sprintf(`{"run_uuid":%q,"run_id":%q,"key":"one","value":0.25,"timestamp":1700000000000,"step":%d}`, run, run, i)).done()
		}
	})
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("log-batch-%d", n), func(b *testing.B) {
			for i := range b.N {
				encoded, err := json.Marshal(object{"run_id": run, "metrics": points("many", i*n, n)})
				require.NoError(b, err)
				w.post("runs/log-batch", string(encoded)).done()
			}
		})
	}
	w.series(run, 100_000)
	b.Run("history-100000", func(b *testing.B) {
		for range b.N {
			require.Equal(b, 100_000, strings.Count(w.get("metrics/get-history", "run_id", run, "metric_key", "m").body, "timestamp"))
		}
	})
	b.Run("interval-of-100000", func(b *testing.B) {
		for range b.N {
			require.Equal(b, 1000, strings.Count(w.get("metrics/get-history-bulk-interval", "run_ids", run, "metric_key", "m", "max_results", "1000").body, "timestamp"))
		}
	})
	for range 1000 {
		w.post("runs/log-batch", object{"run_id": w.run(x), "metrics": points("a", 0, 3), "params": pairs("p", 10)}).done()
	}
	b.Run("search-100-of-1000", func(b *testing.B) {
		for range b.N {
			require.Equal(b, 100, strings.Count(w.post("runs/search", object{"experiment_ids": []string{x}, "max_results": 100, "order_by": []string{"metrics.a DESC"}}).body, "run_uuid"))
		}
	})
}
