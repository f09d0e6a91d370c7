package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

const (
	listLimit   = 20 // runs on a page
	listRepeats = 150
)

// list is a database full of runs, and the page that is read.
type list struct {
	*platform
	runs, page int
}

// BenchmarkRunList reads page 10 of 1,000 runs and page 10,000 of 1,000,000 by REST, in turn,
// unfiltered and with each filter. Half of the runs belong to one job and half are successful, so
// that the pages exist under every filter.
func BenchmarkRunList(b *testing.B) {
	small, large := list{newPlatform(b, 0), 1_000, 10}, list{newPlatform(b, 0), 1_000_000, 10_000}
	jobs := map[*platform]string{}
	for _, l := range []list{small, large} {
		jobs[l.platform] = l.fill()
	}
	for _, filter := range []string{"none", "status", "job", "job+status"} {
		b.Run("filter="+filter, func(b *testing.B) {
			readSmall, readLarge := small.at(query(filter, jobs[small.platform])), large.at(query(filter, jobs[large.platform]))
			var few, many sample
			for range listRepeats {
				few, many = append(few, readSmall()), append(many, readLarge())
			}
			b.ReportMetric(ms(many.median()), "page-10000-of-1M-ms")
			b.ReportMetric(ms(few.median()), "page-10-of-1k-ms")
			b.ReportMetric(float64(many.median())/float64(few.median()), "ratio")
			quiet(b)
		})
	}
}

func query(filter, job string) url.Values {
	q := url.Values{}
	if strings.Contains(filter, "job") {
		q.Set("job_id", job)
	}
	if strings.Contains(filter, "status") {
		q.Set("status", "success")
	}
	return q
}

// fill inserts the runs as the owner of the tables, and returns the job of half of them.
func (l list) fill() (job string) {
	l.b.Helper()
	tasks := []map[string]any{{"key": "extract", "command": "./extract.sh"}, {"key": "load", "command": "./load.sh", "depends_on": []string{"extract"}}}
	job = l.createJob(map[string]any{"name": "nightly", "tasks": tasks})
	other := l.createJob(map[string]any{"name": "hourly", "tasks": tasks})
	db := l.openDatabase()
	// Ids sort by age, as the platform's own ids do. Four consecutive runs have all combinations of
	// job and outcome.
	_, err := db.ExecContext(context.Background(), fmt.Sprintf(`SET synchronous_commit = off;
		INSERT INTO runs (workspace_id, id, job_id, job_name, spec, parameters, status, run_trigger, started_by_kind, started_by_id, started_by_name,
			admitted, created_at, started_at, finished_at)
		SELECT j.workspace_id, 'run_01' || lpad(n::text, 24, '0'), j.id, j.name, j.spec, '[]', CASE WHEN n %% 4 < 2 THEN 'success' ELSE 'failed' END, 'manual',
			'user', 'usr_ada', 'Ada', true, at, at, at + interval '1 minute'
		FROM generate_series(1, %d) AS n, jobs j, LATERAL (SELECT timestamptz '2026-01-01' + n * interval '10 seconds' AS at) t
		WHERE j.id = CASE WHEN n %% 2 = 0 THEN %s ELSE %s END ORDER BY n;
		ANALYZE runs`, l.runs, pq.QuoteLiteral(job), pq.QuoteLiteral(other)))
	require.NoError(l.b, err)
	_, err = db.Exec(`VACUUM (ANALYZE) runs`)
	require.NoError(l.b, err)
	_, err = db.Exec(`CHECKPOINT`)
	require.NoError(l.b, err)
	return job
}

// runPage is a page of runs.
type runPage struct {
	Data []struct {
		ID string `json:"id"`
	}
	NextCursor string `json:"next_cursor"`
}

// at returns a function that reads the page and returns the time it took. Paging there would take
// 10,000 requests. So the cursor of page 1 is moved to the last run of the previous page, which
// comes from the database.
func (l list) at(filter url.Values) func() time.Duration {
	l.b.Helper()
	var first runPage
	filter.Set("limit", fmt.Sprint(listLimit))
	require.NoError(l.b, l.do(http.MethodGet, "/runs?"+filter.Encode(), nil, &first))
	want := l.expected(filter)
	filter.Set("cursor", moveCursor(l.b, first.NextCursor, want[0]))
	path := "/runs?" + filter.Encode()
	return func() time.Duration {
		var page runPage
		start := time.Now()
		require.NoError(l.b, l.do(http.MethodGet, path, nil, &page))
		took := time.Since(start)
		got := []string{want[0]}
		for _, r := range page.Data {
			got = append(got, r.ID)
		}
		require.Equal(l.b, want, got)
		return took
	}
}

// expected are the runs of the page, after the last run of the previous page.
func (l list) expected(filter url.Values) (ids []string) {
	l.b.Helper()
	rows, err := l.openDatabase().Query(`SELECT id FROM runs WHERE ($1 = '' OR job_id = $1) AND ($2 = '' OR status = $2) ORDER BY id DESC OFFSET $3 LIMIT $4`,
		filter.Get("job_id"), filter.Get("status"), (l.page-1)*listLimit-1, listLimit+1)
	require.NoError(l.b, err)
	defer rows.Close()
	for rows.Next() {
		var id string
		require.NoError(l.b, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(l.b, rows.Err())
	require.Len(l.b, ids, listLimit+1)
	return ids
}

// moveCursor returns a cursor of the same list that continues after another run.
func moveCursor(b *testing.B, cursor, after string) string {
	b.Helper()
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	require.NoError(b, err)
	var inside map[string]string
	require.NoError(b, json.Unmarshal(text, &inside))
	inside["k"] = after
	text, err = json.Marshal(inside)
	require.NoError(b, err)
	return base64.RawURLEncoding.EncodeToString(text)
}
