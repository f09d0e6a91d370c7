package bench

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// catalogTime is the duration of each measurement of the catalog.
const catalogTime = 2 * time.Second

// pace is the result of a number of clients: their rate and latencies.
type pace struct {
	sample
	perSecond float64
}

// paced makes each client repeat its work, after a warm-up.
func paced(b *testing.B, clients int, work func(client int) error) pace {
	b.Helper()
	run := func(d time.Duration) pace {
		var p pace
		var mu sync.Mutex
		var group sync.WaitGroup
		began := time.Now()
		for c := range clients {
			group.Go(func() {
				var own sample
				for time.Since(began) < d {
					start := time.Now()
					if err := work(c); err != nil {
						b.Error(err)
						return
					}
					own = append(own, time.Since(start))
				}
				mu.Lock()
				defer mu.Unlock()
				p.sample = append(p.sample, own...)
			})
		}
		group.Wait()
		p.perSecond = float64(len(p.sample)) / time.Since(began).Seconds()
		return p
	}
	run(catalogTime / 8)
	return run(catalogTime)
}

// report reports the pace beside its reference, and the CPU time by process.
func (l lake) report(b *testing.B, name string, clients int, reference, work func(client int) error) {
	before := paced(b, clients, reference)
	used := l.used()
	got := paced(b, clients, work)
	now := l.used()
	after := paced(b, clients, reference)
	b.ReportMetric(got.perSecond, name+"/s")
	b.ReportMetric(2*got.perSecond/(before.perSecond+after.perSecond), "ratio")
	b.ReportMetric((before.perSecond+after.perSecond)/2, "reference/s")
	b.ReportMetric(ms(got.median()), "p50-ms")
	b.ReportMetric(ms(got.at(0.99)), "p99-ms")
	n := float64(len(got.sample)) * (1 + 1.0/8) // including the warm-up
	for part := range used {
		b.ReportMetric(float64((now[part]-used[part]).Microseconds())/n, part+"-cpu-µs")
	}
	b.ReportMetric(inMiB(rss(b, l.serverPID())), "server-MiB")
	quiet(b)
}

// used is the CPU time of server, database and clients so far.
func (l lake) used() map[string]time.Duration {
	_, used := processes()
	all := map[string]time.Duration{"server": used[l.serverPID()], "clients": used[os.Getpid()], "postgres": 0}
	for _, pid := range l.postgresPIDs() {
		all["postgres"] += used[pid]
	}
	return all
}

// bare is a database and a directory without a platform.
type bare struct {
	db  *sql.DB
	dir string
}

func (l lake) bare() bare {
	l.b.Helper()
	cfg, err := pq.NewConfig(l.database)
	require.NoError(l.b, err)
	cfg.BinaryParameters = true
	connector, err := pq.NewConnectorConfig(cfg)
	require.NoError(l.b, err)
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(catalogClients)
	l.b.Cleanup(func() { require.NoError(l.b, db.Close()) })
	_, err = db.Exec(fmt.Sprintf(`CREATE SCHEMA IF NOT EXISTS bench; CREATE TABLE bench.pointers (id int PRIMARY KEY, location text NOT NULL);
		INSERT INTO bench.pointers SELECT n, 'none' FROM generate_series(0, %d) n`, catalogClients))
	require.NoError(l.b, err)
	return bare{db, newDir(l.b)}
}

// load reads a pointer in a transaction.
func (r bare) load(client int) error {
	tx, err := r.db.Begin()
	if err != nil {
		return err
	}
	var set, location string
	err = errors.Join(tx.QueryRow(`SELECT set_config('app.workspace', 'ws', true)`).Scan(&set),
		tx.QueryRow(`SELECT location FROM bench.pointers WHERE id = $1`, client).Scan(&location))
	return errors.Join(err, tx.Commit())
}

// commit writes a durable file of this size, and swaps a pointer to it.
func (r bare) commit(client int, data []byte) error {
	name := filepath.Join(r.dir, uuid.NewString())
	if err := durable(name, data); err != nil {
		return err
	}
	if _, err := r.db.Exec(`UPDATE bench.pointers SET location = $2 WHERE id = $1`, client, name); err != nil {
		return err
	}
	return os.Remove(name)
}

func durable(name string, data []byte) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close(), os.Rename(name+".part", name)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// BenchmarkCatalogLoad loads tables over HTTP: whole, with only the snapshots that branches name,
// and with an ETag that is current. The reference is a bare transaction that reads a pointer.
func BenchmarkCatalogLoad(b *testing.B) {
	l := newLake(b)
	reference := l.bare()
	for _, n := range []int{100, 10_000} {
		t := l.table(fmt.Sprintf("t%d", n), n)
		for _, kind := range []string{"whole", "refs", "unchanged"} {
			etag, want := "", http.StatusOK
			if kind == "unchanged" {
				etag, want = l.etag(b, t), http.StatusNotModified
			}
			for _, clients := range []int{1, catalogClients} {
				b.Run(fmt.Sprintf("snapshots=%d/%s/clients=%d", n, kind, clients), func(b *testing.B) {
					var bytes atomic.Int64
					l.report(b, "loads", clients, reference.load, func(int) error {
						n, err := l.load(t, kind == "refs", etag, want)
						bytes.Store(int64(n))
						return err
					})
					b.ReportMetric(float64(bytes.Load())/1024, "answer-KiB")
				})
			}
		}
	}
}

func (l lake) etag(b *testing.B, t table) string {
	req, err := http.NewRequest(http.MethodGet, l.url+l.path(t.name), nil)
	require.NoError(b, err)
	req.Header.Set("Authorization", "Bearer "+l.key)
	res, err := l.http.Do(req)
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
	return res.Header.Get("ETag")
}

// BenchmarkCatalogCommit appends to tables over HTTP, each client to its own table. The reference
// writes a file of the size of the table's metadata, and swaps a pointer to it.
func BenchmarkCatalogCommit(b *testing.B) {
	l := newLake(b)
	reference := l.bare()
	for _, n := range []int{100, 10_000} {
		for _, clients := range []int{1, catalogClients} {
			if n == 10_000 && clients > 1 {
				continue // equals one client times the machine's cores
			}
			tables := make([]table, clients)
			for i := range tables {
				tables[i] = l.table(fmt.Sprintf("t%d_%d_%d", n, clients, i), n)
			}
			size, err := l.load(tables[0], false, "", http.StatusOK)
			require.NoError(b, err)
			b.Run(fmt.Sprintf("snapshots=%d/clients=%d", n, clients), func(b *testing.B) {
				l.report(b, "commits", clients, func(c int) error { return reference.commit(c, make([]byte, size)) }, func(c int) error {
					done, err := l.append(&tables[c], rand.Int64(), false)
					if err == nil && !done {
						err = errors.New("an append to one's own table was refused")
					}
					return err
				})
				b.ReportMetric(float64(size)/1024, "metadata-KiB")
			})
		}
	}
}

// BenchmarkCatalogHotTable lets sixteen writers append to one table. Each asserts the snapshot that
// it builds on. Before a retry it waits at random up to 20 ms, doubled each time. The reference
// commits serially.
func BenchmarkCatalogHotTable(b *testing.B) {
	l := newLake(b)
	reference := l.bare()
	t := l.table("hot", 100)
	size, err := l.load(t, false, "", http.StatusOK)
	require.NoError(b, err)
	var one sync.Mutex
	bareCommit := func(int) error {
		one.Lock()
		defer one.Unlock()
		return reference.commit(0, make([]byte, size))
	}
	b.Run("appends", func(b *testing.B) {
		writers := make([]table, catalogClients)
		for i := range writers {
			writers[i] = t
		}
		var attempts, done atomic.Int64
		l.report(b, "commits", catalogClients, bareCommit, func(c int) error {
			n, err := l.persist(&writers[c])
			attempts.Add(n)
			done.Add(1)
			return err
		})
		b.ReportMetric(float64(attempts.Load())/float64(done.Load()), "attempts")
	})
	b.Run("without-assertion", func(b *testing.B) { // no commit is retried
		l.report(b, "commits", catalogClients, bareCommit, func(c int) error {
			status, body, err := l.call(http.MethodPost, l.path(t.name), nil, map[string]any{"requirements": []any{}, "updates": []any{
				map[string]any{"action": "set-properties", "updates": map[string]string{fmt.Sprint("writer-", c): uuid.NewString()}},
			}})
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("the commit answered %d: %s", status, body)
			}
			return err
		})
	})
}

// persist retries an append until it succeeds, and returns the number of attempts.
func (l lake) persist(t *table) (attempts int64, err error) {
	wait := 20 * time.Millisecond
	for {
		attempts++
		if err := l.refresh(t); err != nil {
			return attempts, err
		}
		if done, err := l.append(t, rand.Int64(), true); done || err != nil {
			return attempts, err
		}
		<-time.After(rand.N(wait))
		wait = min(2*wait, time.Second)
	}
}
