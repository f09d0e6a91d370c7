package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// slowWrite is a write that never ends by itself.
const slowWrite = "INSERT INTO t SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range * b.range = -1"

// unready waits until the server reports that it is stopping.
func unready(s *harness.Server) {
	s.T.Helper()
	harness.Await(s.T, "the server reports that it is stopping", func() bool {
		res, err := harness.HTTP.Get(s.URL + "/readyz")
		if err != nil {
			return s.Over()
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusServiceUnavailable
	})
	require.False(s.T, s.Over(), "it has ended without reporting the stop")
}

// awaitEnd waits for the server's end, which must be clean.
func awaitEnd(s *harness.Server) {
	s.T.Helper()
	harness.Await(s.T, "the server ends", s.Over)
	require.Zero(s.T, s.Cmd.ProcessState.ExitCode(), s.Out.String())
}

// send sends a statement in the background and returns the channel of its answer.
func send(p *harness.Platform, query string, more ...any) <-chan harness.Result {
	answer := make(chan harness.Result, 1)
	go func() {
		r, err := p.TrySQL(context.Background(), query, more...)
		if err != nil {
			r = harness.Result{Raw: []byte(err.Error())}
		}
		answer <- r
	}()
	return answer
}

// awaitListed waits until a statement with the text is in one of the states.
func awaitListed(p *harness.Platform, text string, states ...string) (st harness.StatementRow) {
	p.T.Helper()
	harness.Await(p.T, fmt.Sprintf("%q is %v", text, states), func() bool {
		var all harness.Page[harness.StatementRow]
		if !p.Get("/sql/statements?search="+text, &all) || len(all.Data) == 0 {
			return false
		}
		st = all.Data[0]
		return slices.Contains(states, st.State)
	})
	return st
}

// TestStopEndsWhatRuns: SIGTERM ends the server within its bound although a write and a read do not
// end. While they last, the server is not ready but serves, and its agent runs. Both statements
// report their outcome, and a task is not affected.
func TestStopEndsWhatRuns(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--no-samples", "--drain", "3s"}})
	s := p.Servers[0]
	w := steady(p, "kept")
	run := p.StartRun(p.CreateJob(w.Spec(0)))
	a := p.AwaitAttempt(run, 1, "running")
	pids, _ := harness.ProcessesOf(a.ID)
	p.OK("CREATE TABLE t (n BIGINT)")
	read, write := send(p, harness.SlowQuery+" -- reader"), send(p, slowWrite)
	awaitListed(p, "reader", "running")
	id := awaitListed(p, "insert", "running").StatementID

	asked := time.Now()
	require.NoError(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	unready(s)
	require.Equal(t, "running", p.Statement(id).State)
	require.Positive(t, p.AgentPID(), "the agent was stopped first")
	require.Equal(t, 503, p.SQL("SELECT 1").Status, "a new statement is refused")
	for _, c := range []struct {
		answer <-chan harness.Result
		says   string
	}{{read, "Run the statement again."}, {write, "Nothing of it was committed: run it again."}} {
		r := <-c.answer
		require.Equal(t, 503, r.Status, "%s", r.Raw)
		require.Contains(t, r.Error, "The server was stopped")
		require.Contains(t, r.Error, c.says)
	}
	awaitEnd(s)
	require.Less(t, time.Since(asked), time.Minute, "the stop takes too long")

	s.Start()
	require.Equal(t, "failed", p.Statement(id).State)
	p.AwaitAgent("connected")
	w.Release(t)
	require.Len(t, p.RequireTrueEnd(run, "success"), 1, "the task was lost")
	now, _ := harness.ProcessesOf(a.ID)
	require.Subset(t, pids, now)
	harness.Await(t, "the table can be read", func() bool {
		r, err := p.TrySQL(t.Context(), "SELECT count(*) FROM t")
		return err == nil && r.Status == 200 && r.Rows[0][0] == 0.0
	})
}

// TestStopLetsStatementsEnd: a statement that ends in time is answered. A second signal ends the
// others.
func TestStopLetsStatementsEnd(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples", "--drain", "1h"}})
	s := p.Servers[0]
	p.OK("SELECT 1")
	short := send(p, "SELECT count(*) AS short FROM range(30000) a, range(30000) b WHERE a.range * b.range % 7 = 8")
	long := send(p, harness.SlowQuery+" -- reader")
	awaitListed(p, "short", "running")
	awaitListed(p, "reader", "running")
	require.NoError(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	unready(s)
	r := <-short
	require.Equal(t, 200, r.Status, "%s", r.Raw)
	require.False(t, s.Over())
	require.NoError(t, s.Cmd.Process.Signal(syscall.SIGTERM))
	r = <-long
	require.Equal(t, 503, r.Status, "%s", r.Raw)
	awaitEnd(s)
}

// TestQueuedStatementsAtTheEnd: waiting statements with an id or a key known to the client run on
// the next server. The others fail and say that nothing was committed. A client that sends them
// again applies each once.
func TestQueuedStatementsAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples"}})
			s := p.Servers[0]
			p.OK("CREATE TABLE t (n BIGINT)")
			p.Must(http.MethodPost, "/sql/warehouses/"+p.Warehouse()+"/stop", nil, nil)
			harness.Await(t, "the warehouse is stopped", func() bool { return p.MachineAgent(p.Warehouse()) == 0 })
			s.Signal(syscall.SIGTERM)
			with := s.Args
			s.Args = append(slices.Clone(with), "--no-local-machines") // statements wait for their warehouse
			s.Start()

			pending := p.SQL("INSERT INTO t VALUES (1)", "wait_timeout", "0s")
			require.Equal(t, 202, pending.Status)
			keyed := send(p, "INSERT INTO t VALUES (2)", "Idempotency-Key", "two")
			plain := send(p, "INSERT INTO t VALUES (3)")
			awaitListed(p, "%282%29", "queued")
			lost := awaitListed(p, "%283%29", "queued").StatementID
			s.Signal(signal)
			if r := <-plain; signal == syscall.SIGTERM {
				require.Equal(t, 503, r.Status, "%s", r.Raw)
				require.Contains(t, r.Error, "Nothing of it was committed: run it again.")
				r = <-keyed
				require.Equal(t, 503, r.Status, "%s", r.Raw)
				require.Contains(t, r.Error, "same Idempotency-Key")
			}

			s.Args = with
			s.Start()
			harness.Await(t, "the statement without a key is over", func() bool { return p.Statement(lost).State == "failed" })
			require.Contains(t, p.Statement(lost).Error.Message, "Nothing of it was committed: run it again.")
			p.OK("INSERT INTO t VALUES (2)", "Idempotency-Key", "two")
			p.OK("INSERT INTO t VALUES (3)")
			p.AwaitStatement(pending.StatementID, "succeeded")
			require.Equal(t, [][]any{{1.0}, {2.0}, {3.0}}, p.OK("SELECT n FROM t ORDER BY n").Rows)
		})
	}
}

// TestAStatementWithoutAPlaceAtTheEnd: a statement that waits for a free place on its warehouse
// runs after the stop. A warehouse that does not answer does not delay the stop.
func TestAStatementWithoutAPlaceAtTheEnd(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples", "--drain", "100ms"}})
	s := p.Servers[0]
	p.OK("CREATE TABLE t (n BIGINT)")
	id := ""
	for try := 0; id == ""; try++ { // fill the warehouse
		require.Less(t, try, 100)
		p.SQL(harness.SlowQuery, "wait_timeout", "0s")
		r := p.SQL("INSERT INTO t VALUES (1)", "wait_timeout", "0s")
		require.Equal(t, 202, r.Status, "%s", r.Raw)
		var st harness.StatementRow
		harness.Await(t, "the write waits or is over", func() bool {
			st = p.Statement(r.StatementID)
			return st.Message == "Waits for a place on its warehouse." || st.State == "succeeded"
		})
		if st.State == "queued" {
			id = r.StatementID
		}
	}
	s.Signal(syscall.SIGTERM)
	s.Start()
	p.AwaitStatement(id, "succeeded")
	n := p.OK("SELECT count(*) FROM t").Rows[0][0]

	startStatement(p, slowWrite)
	agent := p.MachineAgent(p.Warehouse())
	harness.Stop(t, agent)
	defer func() { _ = syscall.Kill(agent, syscall.SIGCONT) }()
	asked := time.Now()
	s.Signal(syscall.SIGTERM)
	require.Less(t, time.Since(asked), time.Minute, "the stop takes too long")
	require.NoError(t, syscall.Kill(agent, syscall.SIGCONT))
	s.Start()
	harness.Await(t, "the table can be read", func() bool {
		r, err := p.TrySQL(t.Context(), "SELECT count(*) FROM t")
		return err == nil && r.Status == 200 && r.Rows[0][0] == n
	})
}

// TestAnotherServerTakesUpQueuedStatements: a stopping server hands its waiting statements to the
// others.
func TestAnotherServerTakesUpQueuedStatements(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Replicas: 2, NoAgent: true, Args: []string{"--no-samples", "--no-local-machines"}})
	other := *p
	other.Client = &harness.Client{URL: p.Servers[0].URL, Key: p.Key}
	pending := p.SQL("SELECT 1", "wait_timeout", "0s")
	require.Equal(t, 202, pending.Status)
	p.Servers[1].Signal(syscall.SIGTERM)
	db := p.Database()
	defer db.Close()
	harness.Await(t, "the other server has it", func() bool {
		n := 0
		return db.QueryRowContext(t.Context(), "SELECT count(*) FROM statements s JOIN replicas r ON r.id = s.replica WHERE s.id = $1", pending.StatementID).Scan(&n) == nil && n == 1
	})
	other.Must(http.MethodPost, "/sql/statements/"+pending.StatementID+"/cancel", nil, nil)
	other.AwaitStatement(pending.StatementID, "cancelled")
}

// TestAWriteThatWaitsOutlivesItsClient: when the client leaves, the statement is not yet classified
// as a write.
func TestAWriteThatWaitsOutlivesItsClient(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples"}})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := p.TrySQL(ctx, "CREATE TABLE t AS SELECT 1 AS n")
		left <- err
	}()
	id := awaitListed(p, "create", "queued").StatementID
	leave()
	require.Error(t, <-left)
	p.AwaitStatement(id, "succeeded")
}

// TestWritesAreAppliedOnceAcrossStops stops the server repeatedly while clients write, with and
// without a key. Clients send statements again that were answered 503.
func TestWritesAreAppliedOnceAcrossStops(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{NoAgent: true, Args: []string{"--no-samples", "--drain", "100ms"}})
	s := p.Servers[0]
	p.OK("CREATE TABLE t (n BIGINT)")
	var next, again atomic.Int64
	var failed, cut sync.Map
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for writer := range 6 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := next.Add(1)
				again.Add(insertOnce(p, n, writer%2 == 0, &failed, &cut))
			}
		})
	}
	for range 4 {
		from := next.Load()
		harness.Await(t, "some are written", func() bool { return next.Load() > from+12 })
		s.Signal(syscall.SIGTERM)
		require.Zero(t, s.Cmd.ProcessState.ExitCode())
		s.Start()
	}
	close(stop)
	writers.Wait()
	failed.Range(func(n, why any) bool {
		t.Errorf("%d: %v", n, why)
		return true
	})
	require.Positive(t, again.Load(), "no stop met a write")
	written := map[int64]int{}
	for _, row := range p.OK("SELECT n FROM t").Rows {
		written[int64(row[0].(float64))]++
	}
	for n := int64(1); n <= next.Load(); n++ {
		if _, unknown := cut.Load(n); unknown && written[n] == 0 {
			continue
		}
		require.Equal(t, 1, written[n], n)
	}
	t.Logf("%d writes, %d of them sent again", next.Load(), again.Load())
}

// insertOnce writes a row, and sends it again after a 503 or if the server is away. It returns the
// number of 503s. Without a key, a connection that breaks before the answer leaves the outcome
// unknown; the row is then recorded in cut.
func insertOnce(p *harness.Platform, n int64, keyed bool, failed, cut *sync.Map) (again int64) {
	var more []any
	if keyed {
		more = []any{"Idempotency-Key", fmt.Sprint("row ", n)}
	}
	for {
		r, err := p.TrySQL(context.Background(), fmt.Sprintf("INSERT INTO t VALUES (%d)", n), more...)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) && keyed: // nothing was sent, or the key identifies it
			harness.Await(p.T, "the server is back", p.Servers[0].Ready)
		case errors.Is(err, io.EOF):
			cut.Store(n, err)
			return again
		case err != nil:
			failed.Store(n, err)
			return again
		case r.Status == 503:
			again++
		case r.Status != 200:
			failed.Store(n, string(r.Raw))
			return again
		default:
			return again
		}
	}
}
