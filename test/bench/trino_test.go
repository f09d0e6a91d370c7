package bench

import (
	"database/sql"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"github.com/trinodb/trino-go-client/trino"

	"github.com/millpond/millpond/agent/engine/install/installtest"
)

// bareTrino is Trino's own client, on the Trino of a warehouse and the platform's own catalog. It
// measures a write without the platform's path.
type bareTrino struct {
	b  *testing.B
	db *sql.DB
}

// signed adds a token to the requests. Trino accepts a token over HTTP only with a header that says
// that the request came by HTTPS.
type signed struct {
	key  []byte
	user string
}

// RoundTrip implements http.RoundTripper.
func (s signed) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: s.user, ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))}).SignedString(s.key)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Forwarded-Proto", "https")
	return http.DefaultTransport.RoundTrip(r)
}

// openTrino opens the Trino that runs on the warehouse.
func (w *warehouse) openTrino() bareTrino {
	w.b.Helper()
	etc := filepath.Join(w.dir, "machines", w.id, "data", "engine", "trino", "coordinator", "etc")
	text, err := os.ReadFile(filepath.Join(etc, "jwt.key"))
	require.NoError(w.b, err)
	key, err := base64.StdEncoding.DecodeString(string(text))
	require.NoError(w.b, err)
	config, err := os.ReadFile(filepath.Join(etc, "config.properties"))
	require.NoError(w.b, err)
	_, rest, _ := strings.Cut(string(config), "discovery.uri=http://")
	address, _, _ := strings.Cut(rest, "\n")
	connector, err := trino.NewConnector(&trino.Config{
		ServerURI: "http://platform@" + address, Source: "bench", HTTPClient: &http.Client{Transport: signed{key, "platform"}},
	})
	require.NoError(w.b, err)
	t := bareTrino{w.b, sql.OpenDB(connector)}
	w.b.Cleanup(func() { require.NoError(w.b, t.db.Close()) })
	t.exec(fmt.Sprintf(`CREATE CATALOG bare USING iceberg WITH ("iceberg.catalog.type" = 'rest', "iceberg.rest-catalog.uri" = '%s/api/v1/iceberg', "iceberg.rest-catalog.warehouse" = 'lake',
		"iceberg.rest-catalog.security" = 'OAUTH2', "iceberg.rest-catalog.oauth2.token" = '%s', "iceberg.rest-catalog.oauth2.token-refresh-enabled" = 'false',
		"iceberg.extended-statistics.collect-on-write" = 'false', "fs.hadoop.enabled" = 'true')`, w.url, w.key))
	return t
}

func (t bareTrino) exec(query string) {
	t.b.Helper()
	_, err := t.db.Exec(query)
	require.NoError(t.b, err, query)
}

func newTrinoWarehouse(b *testing.B) (w *warehouse, cold time.Duration) {
	b.Helper()
	w = newWarehouse(b, "--engines-dir", filepath.Dir(installtest.Shared(b).Dir), "--no-samples")
	return w, timed(b, func() error { return w.inTrino("CREATE TABLE first AS SELECT 1 AS n") })
}

// inTrino runs a statement in Trino through the platform, and reads its answer to the end.
func (w *warehouse) inTrino(query string) error {
	res, err := w.executeIn("trino", query, "application/json")
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", query, body)
	}
	return err
}

// The number of runs of each statement both ways, and of warm-up runs for the JVM's compiler.
const (
	trinoPairs   = 10
	trinoWarmUps = 4
)

// BenchmarkTrino measures the platform's overhead for a write in Trino. The same statements run in
// interleaved pairs through the platform and through Trino's own client, which has its own catalog
// there. It also measures the time from a warehouse without Trino to its first committed row. The
// same reads in both engines show the reason for the routing.
func BenchmarkTrino(b *testing.B) {
	w, cold := newTrinoWarehouse(b)
	bare := w.openTrino()
	b.Run("cold", func(b *testing.B) {
		b.ReportMetric(ms(cold), "first-row-ms")
		quiet(b)
	})
	w.inTrinoOK("CREATE TABLE rows AS SELECT a.n * 1000 + c.n AS id, mod(a.n, 100) AS k, CAST(a.n + c.n AS VARCHAR) AS s, a.n * 1.5E0 AS d FROM UNNEST(sequence(1, 6000)) AS a(n) CROSS JOIN UNNEST(sequence(1, 1000)) AS c(n)")
	for _, c := range []struct{ name, prepare, statement string }{
		{"insert", "CREATE TABLE %s (n BIGINT, s VARCHAR)", "INSERT INTO %s VALUES (1, 'one')"},
		{"ctas", "", "CREATE TABLE %s AS SELECT * FROM lake.public.rows"},
	} {
		b.Run(c.name, func(b *testing.B) { w.pairs(b, bare, c.name, c.prepare, c.statement) })
	}
	for name, query := range map[string]string{
		"one": "SELECT 1", "point": "SELECT * FROM rows WHERE id = 1234567", "group": "SELECT k, count(*), sum(d) FROM rows GROUP BY k", "rows": "SELECT * FROM rows WHERE id <= 100000",
	} {
		b.Run("read/"+name, func(b *testing.B) {
			var duck, trino sample
			for range trinoPairs {
				duck = append(duck, timed(b, func() error { _, err := w.drain(query, "application/json"); return err }))
				trino = append(trino, timed(b, func() error { return w.inTrino(query) }))
			}
			b.ReportMetric(ms(duck.median()), "duckdb-ms")
			b.ReportMetric(ms(trino.median()), "trino-ms")
			quiet(b)
		})
	}
}

func (w *warehouse) inTrinoOK(query string) {
	w.b.Helper()
	require.NoError(w.b, w.inTrino(query))
}

// pairs runs a statement both ways in turn, each time on a new table.
func (w *warehouse) pairs(b *testing.B, bare bareTrino, name, prepare, statement string) {
	var ours, theirs sample
	for i := range trinoWarmUps + trinoPairs {
		one, other := fmt.Sprintf("lake.public.%s_a%d", name, i), fmt.Sprintf("bare.public.%s_b%d", name, i)
		if prepare != "" {
			w.inTrinoOK(fmt.Sprintf(prepare, one))
			bare.exec(fmt.Sprintf(prepare, other))
		}
		reference := strings.ReplaceAll(fmt.Sprintf(statement, other), "lake.public.rows", "bare.public.rows")
		ways := []func() error{
			func() error { return w.inTrino(fmt.Sprintf(statement, one)) },
			func() error { _, err := bare.db.Exec(reference); return err },
		}
		var took [2]time.Duration
		for turn := range ways {
			way := (i + turn) % 2 // the second finds warmer code and files
			took[way] = timed(b, ways[way])
		}
		if i >= trinoWarmUps {
			ours, theirs = append(ours, took[0]), append(theirs, took[1])
		}
		w.inTrinoOK("DROP TABLE " + one)
		bare.exec("DROP TABLE " + other)
	}
	b.ReportMetric(ms(ours.median()), "platform-ms")
	b.ReportMetric(ms(theirs.median()), "trino-client-ms")
	b.ReportMetric(ms(ours.median())-ms(theirs.median()), "overhead-ms")
	b.ReportMetric(float64(ours.median())/float64(theirs.median()), "ratio")
	quiet(b)
}
