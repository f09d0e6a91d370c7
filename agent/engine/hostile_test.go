package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

const forever = "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"

// begin sends a statement and returns its stream after the first frame of a kind.
func (s *served) begin(ctx context.Context, st agent.Statement, kind agent.FrameKind) (*http.Response, *bufio.Reader) {
	res := s.open(ctx, st)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	from := bufio.NewReader(res.Body)
	for {
		got, payload, err := agent.ReadFrame(from)
		require.NoError(s.t, err)
		if got == kind && !(kind == agent.FrameProgress && bytes.Contains(payload, []byte(`"kind"`)) && !bytes.Contains(payload, []byte(`"queued":true`))) {
			return res, from // the first progress says that the statement was taken; the others, that it runs or waits
		}
		require.NotEqual(s.t, agent.FrameEnd, got, string(payload))
	}
}

func (s *served) cancel(id string) {
	r, err := http.NewRequest(http.MethodDelete, s.web.URL+fmt.Sprintf(agent.StatementPath, id), nil)
	require.NoError(s.t, err)
	res, err := s.web.Client().Do(r)
	require.NoError(s.t, err)
	require.NoError(s.t, res.Body.Close())
	require.Equal(s.t, http.StatusNoContent, res.StatusCode)
}

func TestALargeResultIsCheapWhereItIsCut(t *testing.T) {
	s := serve(t, nil)
	st := s.statement("SELECT range AS a, 'text ' || range AS b FROM range(1000000000)")
	st.MaxRows = 1000
	a := s.do(st)
	require.Nil(t, a.end.Error)
	require.True(t, a.end.Truncated)
	_, rows := a.table(t)
	require.Len(t, rows, 1000)
	require.Equal(t, []string{"999", "text 999"}, rows[999])
	require.Less(t, a.end.RunMS, int64(5000))

	st = s.statement("FROM range(1000)")
	st.MaxRows = 1000
	require.False(t, s.do(st).end.Truncated, "all of it fits")

	st = s.statement("FROM range(1000000000)")
	st.MaxBytes = 100_000
	a = s.do(st)
	require.True(t, a.end.Truncated)
	require.LessOrEqual(t, a.end.Bytes, st.MaxBytes)
	require.Greater(t, a.end.Rows, int64(6000))
	_, rows = a.table(t)
	require.Len(t, rows, int(a.end.Rows))
	require.Equal(t, fmt.Sprint(a.end.Rows-1), rows[len(rows)-1][0])
}

func TestBatchesAreLarge(t *testing.T) {
	s := serve(t, nil)
	a := s.ok("SELECT range::INTEGER AS a, range % 2 = 0 AS b, [range] AS c, CASE WHEN range % 3 = 0 THEN 'x' || range END AS d FROM range(100000)")
	require.Less(t, a.batches, 20)
	_, rows := a.table(t)
	require.Len(t, rows, 100000)
	for i, r := range rows {
		want := "(null)"
		if i%3 == 0 {
			want = fmt.Sprint("x", i)
		}
		if r[0] != fmt.Sprint(i) || r[1] != fmt.Sprint(i%2 == 0) || r[2] != fmt.Sprintf("[%d]", i) || r[3] != want {
			t.Fatalf("row %d is %v", i, r)
		}
	}
	schema, rows := s.ok("SELECT 1 AS a WHERE false").table(t)
	require.Equal(t, "a", schema.Field(0).Name)
	require.Empty(t, rows)
	require.EqualValues(t, 10, s.ok("SELECT repeat('x', 2000000) FROM range(10)").end.Rows, "rows of many bytes come in messages of their own")
}

func TestASlowReaderHoldsTheStatementBack(t *testing.T) {
	s := serve(t, nil)
	res, from := s.begin(t.Context(), s.statement("SELECT repeat('x', 1000) FROM range(10000000)"), agent.FrameBatch)
	defer res.Body.Close()
	pid := s.child()
	before := resident(t, pid)
	for range 50 {
		_, _, err := agent.ReadFrame(from)
		require.NoError(t, err)
	}
	require.Less(t, resident(t, pid), before+(300<<20))
}

// child returns the process id of a child that runs a statement.
func (s *served) child() int {
	entries, err := os.ReadDir("/proc/self/task")
	require.NoError(s.t, err)
	for _, e := range entries {
		b, _ := os.ReadFile("/proc/self/task/" + e.Name() + "/children")
		for _, pid := range strings.Fields(string(b)) {
			var id int
			fmt.Sscan(pid, &id)
			cwd, _ := os.Readlink("/proc/" + pid + "/cwd")
			if strings.HasPrefix(cwd, s.engine.o.Dir) && !s.idle(id) {
				return id
			}
		}
	}
	require.Fail(s.t, "no child runs a statement")
	return 0
}

func (s *served) idle(pid int) bool {
	s.engine.pool.mu.Lock()
	defer s.engine.pool.mu.Unlock()
	for _, p := range s.engine.pool.idle {
		if p.PID() == pid {
			return true
		}
	}
	return false
}

func resident(t testing.TB, pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	require.NoError(t, err)
	var size, pages int64
	_, err = fmt.Sscan(string(b), &size, &pages)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

func TestCancelling(t *testing.T) {
	s := serve(t, nil)
	st := s.statement(forever)
	res, from := s.begin(t.Context(), st, agent.FrameProgress)
	defer res.Body.Close()
	started := time.Now()
	s.cancel(st.ID)
	a := s.read(from, nil)
	require.Equal(t, agent.FaultCancelled, a.end.Error.Fault)
	require.Less(t, time.Since(started), 2*time.Second)
	s.cancel("stm_unknown")
	s.ok("SELECT 1")
}

func TestTheReadersEndCancelsARead(t *testing.T) {
	s := serve(t, nil)
	for _, c := range []struct {
		query string
		after agent.FrameKind
	}{{forever, agent.FrameHead}, {"FROM range(1000000000000)", agent.FrameBatch}} {
		ctx, leave := context.WithCancel(t.Context())
		st := s.statement(c.query)
		res, _ := s.begin(ctx, st, c.after)
		leave()
		res.Body.Close()
		s.forgotten(st.ID)
	}
	s.ok("SELECT 1")
}

// forgotten waits until a statement has ended.
func (s *served) forgotten(id string) {
	require.Eventually(s.t, func() bool {
		s.engine.mu.Lock()
		defer s.engine.mu.Unlock()
		return s.engine.running[id] == nil
	}, time.Minute, time.Millisecond)
}

func TestAStalledReaderIsLeftBehind(t *testing.T) {
	s := serve(t, nil)
	st := s.statement("SELECT repeat('x', 1000) FROM range(1000000000)")
	res, _ := s.begin(t.Context(), st, agent.FrameBatch)
	defer res.Body.Close()
	s.cancel(st.ID)
	s.forgotten(st.ID)
	s.ok("SELECT 1")
}

func TestTimeouts(t *testing.T) {
	s := serve(t, nil)
	st := s.statement(forever)
	st.Timeout = agent.Duration(100 * time.Millisecond)
	f := s.do(st).end.Error
	require.Equal(t, agent.FaultTimeout, f.Fault)
	require.Contains(t, f.Message, "100ms")
}

func TestAKilledChildFailsOneStatement(t *testing.T) {
	s := serve(t, func(o *Options) { o.Memory = 8 << 30 }) // little of it is used
	res, from := s.begin(t.Context(), s.statement(forever), agent.FrameProgress)
	defer res.Body.Close()
	other, rest := s.begin(t.Context(), s.statement("SELECT count(*) FROM range(300000000) WHERE range % 3 = 1"), agent.FrameHead)
	defer other.Body.Close()
	pid := s.engine.pidOf(t, forever)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	f := s.read(from, nil).end.Error
	require.Equal(t, agent.FaultEngine, f.Fault, "it had used little memory: %s", f.Message)
	require.Nil(t, s.read(rest, nil).end.Error)
	s.ok("SELECT 1")
}

// pidOf finds the child with the most processor time, which runs the endless statement.
func (e *Engine) pidOf(t testing.TB, _ string) int {
	best, most := 0, int64(-1)
	dirs, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, d := range dirs {
		cwd, err := os.Readlink("/proc/" + d.Name() + "/cwd")
		if err != nil || !strings.HasPrefix(cwd, e.o.Dir) {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		var user int64
		fmt.Sscan(fields[11], &user)
		var pid int
		fmt.Sscan(d.Name(), &pid)
		if user > most {
			best, most = pid, user
		}
	}
	return best
}

func TestMemoryEaters(t *testing.T) {
	s := serve(t, func(o *Options) { o.Memory, o.TempLimit = 512<<20, 64<<20 })
	for _, q := range []string{
		"SELECT list(repeat('x', 1000) || range) FROM range(10000000)",
		"SELECT count(*) FROM (SELECT DISTINCT range, random() FROM range(1000000000))",
		"SELECT length(repeat('x', 4000000000))",
		"SELECT string_agg(repeat('x', 1000), ',') FROM range(100000000)",
		"SELECT md5(range::VARCHAR) AS m FROM range(100000000) ORDER BY m", // limited to TempLimit on disk
	} {
		st := s.statement(q)
		st.MaxRows = 1000
		f := s.do(st).end.Error
		require.NotNil(t, f, q)
		require.Contains(t, []agent.StatementFault{agent.FaultResources, agent.FaultQuery}, f.Fault, "%s: %s", q, f.Message)
		require.NotEmpty(t, f.Message)
		s.ok("SELECT 1")
	}
}

func TestHostileText(t *testing.T) {
	s := serve(t, nil)
	deep := strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000)
	joins := "SELECT count(*) FROM range(1) t0" + strings.Repeat(" JOIN range(1) t USING (range)", 1000)
	for name, q := range map[string]string{
		"parentheses": "SELECT " + deep, "nots": "SELECT " + strings.Repeat("NOT ", 200000) + "true", "queries": strings.Repeat("SELECT * FROM (", 5000) + "SELECT 1" + strings.Repeat(")", 5000),
		"joins": joins, "sum": "SELECT 1" + strings.Repeat("+1", 200000), "unions": "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 1500), "minus": "SELECT " + strings.Repeat("- ", 200000) + "1",
		"arrays": "SELECT " + strings.Repeat("[", 50000) + strings.Repeat("]", 50000), "columns": "SELECT 1" + strings.Repeat(",1", 100000),
	} {
		st := s.statement(q)
		st.Timeout = agent.Duration(5 * time.Second)
		started := time.Now()
		a := s.do(st)
		require.Less(t, time.Since(started), 3*time.Minute, name) // it ends, also in a race build
		if f := a.end.Error; f != nil {
			require.Contains(t, []agent.StatementFault{agent.FaultQuery, agent.FaultTimeout, agent.FaultResources}, f.Fault, "%s: %s", name, f.Message)
			require.NotEmpty(t, f.Message, name)
		}
		t.Log(name, time.Since(started), a.end.Error != nil && len(a.end.Error.Message) > 0, describe(a.end.Error))
	}
	s.ok("SELECT 1")
}

func describe(f *agent.StatementFailure) string {
	if f == nil {
		return "done"
	}
	return string(f.Fault) + ": " + sqltext.Cut(f.Message, 120)
}

func TestNothingIsSeenByTheNextStatement(t *testing.T) {
	s := serve(t, func(o *Options) { o.Slots = 1 })
	s.ok("SELECT setseed IS NULL FROM (SELECT NULL AS setseed)")
	require.Equal(t, agent.FaultQuery, s.fails("SELECT setseed(0.5)").Fault)
	s.fails("CREATE TABLE memory.main.left (a INT)")
	s.fails("CREATE TABLE temp.left (a INT)")
	s.fails("FROM memory.main.left")
	first, second := s.ok("SELECT random()").value(t), s.ok("SELECT random()").value(t)
	require.NotEqual(t, first, second)
}

// acquiring counts the goroutines that wait for a slot.
func acquiring() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "semaphore.(*Weighted).Acquire(")
}

func TestTheQueue(t *testing.T) {
	s := serve(t, func(o *Options) { o.Slots, o.Queue = 1, 2 })
	busy := s.statement(forever)
	res, from := s.begin(t.Context(), busy, agent.FrameHead)
	defer res.Body.Close()
	var answers [2]*answered
	var wait sync.WaitGroup
	for i := range answers {
		waiting, rest := s.begin(t.Context(), s.statement("SELECT now()::VARCHAR"), agent.FrameProgress)
		wait.Go(func() {
			defer waiting.Body.Close()
			answers[i] = s.read(rest, nil)
		})
		require.Eventually(t, func() bool { return acquiring() == i+1 }, time.Minute, time.Millisecond, "it stands in the queue")
	}
	full := s.open(t.Context(), s.statement("SELECT 3"))
	full.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, full.StatusCode)
	s.cancel(busy.ID)
	require.Equal(t, agent.FaultCancelled, s.read(from, nil).end.Error.Fault)
	wait.Wait()
	require.Less(t, answers[0].value(t), answers[1].value(t), "who came first runs first")
}

func TestManyAtOnce(t *testing.T) {
	s := serve(t, nil)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			a := s.do(s.statement("SELECT sum(range) FROM range($1)", 1000+i))
			if a.end.Error != nil {
				t.Error(a.end.Error.Message)
			}
		})
	}
	wait.Wait()
	children, err := os.ReadDir(s.engine.o.Dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(children), 3, "two children and the extensions")
}

// A row larger than the limit in JSON ends its statement, and the error names the row.
func TestARowIsBoundedByItsJSON(t *testing.T) {
	s := serve(t, nil)
	s.ok("SELECT repeat('x', 16 * 1024 * 1024 - 100)")
	f := s.fails("SELECT repeat('x', CASE i WHEN 3000 THEN 16 * 1024 * 1024 ELSE 1 END) FROM range(5000) t(i)")
	require.Equal(t, agent.FaultQuery, f.Fault)
	require.Equal(t, "Row 3001 of the result has more than 16 MiB in JSON, which is the most that a row may have. Select less of it.", f.Message)
	f = s.fails("SELECT repeat(chr(1), 4 * 1024 * 1024)")
	require.Contains(t, f.Message, "Row 1 of the result", "six bytes in JSON each")
}

// Batches are limited by their size in JSON, which each frame states. Nulls are much larger in JSON
// than in Arrow.
func TestBatchesAreBoundedByTheirJSON(t *testing.T) {
	s := serve(t, nil)
	s.ok("SELECT 1")
	columns := strings.TrimSuffix(strings.Repeat("NULL::BOOLEAN, ", 100), ", ")
	res := s.open(t.Context(), s.statement("SELECT "+columns+" FROM range(60000)"))
	defer res.Body.Close()
	var said, rows int64
	for from := bufio.NewReader(res.Body); ; {
		kind, payload, err := agent.ReadFrame(from)
		require.NoError(t, err)
		switch kind {
		case agent.FrameBatch:
			size := int64(binary.LittleEndian.Uint32(payload[4:]))
			require.LessOrEqual(t, size, int64(result.BatchJSON))
			said += size
			rows += int64(binary.LittleEndian.Uint32(payload))
		case agent.FrameEnd:
			require.EqualValues(t, 60000, rows)
			require.GreaterOrEqual(t, said, rows*100*5, "null and its comma")
			return
		}
	}
}
