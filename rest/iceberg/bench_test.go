package iceberg_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoadTable measures a warm load over HTTP, with the metadata and with 304.
func BenchmarkLoadTable(b *testing.B) {
	w := newWorld(b)
	w.table(w.ours, "t")
	url := w.url + w.ns(w.ours, "/public/tables/t")
	etag := w.call(w.ours.key, "GET", w.ns(w.ours, "/public/tables/t"), nil).header.Get("ETag")
	for name, sent := range map[string]string{"whole": "", "unchanged": etag} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
				require.NoError(b, err)
				r.Header.Set("Authorization", "Bearer "+w.ours.key)
				r.Header.Set("If-None-Match", sent)
				began := time.Now()
				res, err := http.DefaultClient.Do(r)
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				require.NoError(b, res.Body.Close())
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}
