package hub_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// A newer agent of the same protocol may send fields that this server does not know.
func TestUnknownFieldsAreLeftAside(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.ok(http.MethodPost, agent.HelloPath, []byte(`{"protocol": 1, "slots": 2, "colour": ["x"], "attempts": [], "later": {"a": 1}}`), nil)
	a := c.attempt(w.first)
	c.ok(http.MethodPost, agent.HeartbeatPath, []byte(`{"attempts": ["`+a.ID+`"], "load": 0.5}`), nil)
	c.ok(http.MethodPut, "/v1/attempts/"+a.ID+"/status", []byte(`{"state": "running", "memory": 1}`), nil)
	require.Equal(t, 2, w.now().Slots)
}

func TestHelloIsAnsweredWithWhatIsWanted(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a, b := c.attempt(w.first), c.attempt(w.first)
	c.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "one\n"), nil)

	again := w.first.connect()
	require.Equal(t, []agent.DesiredAttempt{
		{ID: a.ID, Desire: agent.DesireRun, LogNext: 4},
		{ID: "att_unknown", Desire: agent.DesireForget},
	}, again.hello(running(a.ID), running("att_unknown")).Attempts)
	var sent agent.Attempt
	m := again.next() // its hello did not name this attempt
	require.NoError(t, json.Unmarshal(m.body, &sent))
	require.Equal(t, b, sent)
	require.Equal(t, "/v1/attempts/"+b.ID, m.path)
}

func TestAHeartbeatExtendsTheLeaseAndIsAnsweredWithWhatIsWantedOtherwise(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	before := *w.now().LeaseExpiresAt
	var reply agent.HeartbeatReply
	c.ok(http.MethodPost, agent.HeartbeatPath, agent.Heartbeat{Attempts: []string{a.ID}}, &reply)
	require.Empty(t, reply.Attempts)
	require.Greater(t, *w.now().LeaseExpiresAt, before)

	_, err := w.first.services.Runs.Cancel(t.Context(), w.system, domain.RunID(a.RunID))
	require.NoError(t, err)
	require.Equal(t, message{http.MethodPost, "/v1/attempts/" + a.ID + "/cancel", []byte("null")}, c.next())
	c.ok(http.MethodPost, agent.HeartbeatPath, agent.Heartbeat{Attempts: []string{a.ID, "att_unknown"}}, &reply)
	require.Equal(t, []agent.DesiredAttempt{{ID: a.ID, Desire: agent.DesireCancel}, {ID: "att_unknown", Desire: agent.DesireForget}}, reply.Attempts)
}

func TestAStatusIsTakenOnceItsLogIsThere(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	path, now := "/v1/attempts/"+a.ID+"/status", time.Now()
	c.ok(http.MethodPut, path, agent.Status{State: agent.Running, StartedAt: &now}, nil)
	exited := agent.Status{State: agent.Exited, ExitCode: new(0), StartedAt: &now, FinishedAt: &now, LogEnd: 4}
	require.Equal(t, job.ErrLogIncomplete.Message, c.refused(http.StatusConflict, http.MethodPut, path, encode(t, exited)))
	c.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "one\n"), nil)
	c.ok(http.MethodPut, path, exited, nil)
	c.ok(http.MethodPut, path, exited, nil) // sent twice, stored once
	run, err := w.first.services.Runs.Get(t.Context(), w.system, domain.RunID(a.RunID))
	require.NoError(t, err)
	require.Equal(t, job.RunSuccess, run.Status)

	c.refused(http.StatusNotFound, http.MethodPut, "/v1/attempts/att_unknown/status", encode(t, exited))
	c.refused(http.StatusBadRequest, http.MethodPut, "/v1/attempts/%00/status", encode(t, exited))
	require.NotContains(t, w.first.log.String(), "level=ERROR")
}

func TestAnotherWorkspacesAttemptsAreNotAnAgents(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	_, _, other, err := w.first.instance.CreateWorkspace(t.Context(), "other")
	require.NoError(t, err)
	w.token = other.AgentToken
	thief := w.first.connect()
	thief.hello()
	var receipt agent.LogReply
	thief.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "planted"), &receipt)
	require.Equal(t, agent.LogReply{Next: map[string]int64{}, Forget: []string{a.ID}}, receipt)
	thief.refused(http.StatusNotFound, http.MethodPut, "/v1/attempts/"+a.ID+"/status", encode(t, agent.Status{State: agent.Exited}))
	require.Empty(t, w.first.stored(a.ID))
}

func TestALogBatchIsAnsweredWithWhereEachLogGoesOn(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a, b := c.attempt(w.first), c.attempt(w.first)
	for _, step := range []struct {
		name   string
		chunks [][]byte
		next   map[string]int64
		forget []string
	}{
		{"nothing", nil, map[string]int64{}, nil},
		{"a beginning", [][]byte{chunk(a.ID, 0, "one\n")}, map[string]int64{a.ID: 4}, nil},
		{"said again", [][]byte{chunk(a.ID, 0, "one\n")}, map[string]int64{a.ID: 4}, nil},
		{"a gap", [][]byte{chunk(a.ID, 9, "far\n")}, map[string]int64{a.ID: 4}, nil},
		{"half known", [][]byte{chunk(a.ID, 2, "e\ntwo\n")}, map[string]int64{a.ID: 8}, nil},
		{"two logs", [][]byte{chunk(a.ID, 8, "3"), chunk(b.ID, 0, "b"), chunk(a.ID, 9, "4")}, map[string]int64{a.ID: 10, b.ID: 1}, nil},
		{"one unknown", [][]byte{chunk("att_x", 0, "x"), chunk(b.ID, 1, "c"), chunk("att_x", 1, "x")}, map[string]int64{b.ID: 2}, []string{"att_x"}},
		{"a strange id", [][]byte{chunk("\x00\xff", 0, "x")}, map[string]int64{}, []string{"\x00�"}},
	} {
		var receipt agent.LogReply
		c.ok(http.MethodPost, agent.LogsPath, bytes.Join(step.chunks, nil), &receipt)
		require.Equal(t, agent.LogReply{Next: step.next, Forget: step.forget}, receipt, step.name)
	}
	require.Equal(t, "one\ntwo\n34", w.first.stored(a.ID))
	require.Equal(t, "bc", w.first.stored(b.ID))

	c.ok(http.MethodPut, "/v1/attempts/"+a.ID+"/status", agent.Status{State: agent.Exited, ExitCode: new(0), LogEnd: 10}, nil)
	var receipt agent.LogReply
	c.ok(http.MethodPost, agent.LogsPath, append(chunk(a.ID, 10, "late"), chunk(b.ID, 2, "d")...), &receipt)
	require.Equal(t, agent.LogReply{Next: map[string]int64{b.ID: 3}, Forget: []string{a.ID}}, receipt)
	require.Equal(t, "one\ntwo\n34", w.first.stored(a.ID))
}

func TestABrokenLogBatchIsRefusedWhole(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	good := chunk(a.ID, 0, "one\n")
	after := func(b []byte) []byte { return append(bytes.Clone(good), b...) }
	with := func(change func(*agent.Chunk)) []byte {
		c := agent.Chunk{Attempt: a.ID, Offset: 4, Stream: agent.Stderr, Time: time.Now(), Data: []byte("two\n")}
		change(&c)
		return after(agent.AppendChunk(nil, c))
	}
	large := strings.Repeat("x", agent.MaxChunkBytes)
	many := bytes.Repeat(chunk(a.ID, 0, "x"), 5<<20/len(good))
	for name, body := range map[string][]byte{
		"no batch":            []byte("{}"),
		"an id without end":   after([]byte{60, 'a'}),
		"a huge id":           after(binary.AppendUvarint(nil, 1<<40)),
		"a number too long":   after(bytes.Repeat([]byte{0xff}, 20)),
		"no stream":           with(func(c *agent.Chunk) { c.Stream = 0 }),
		"an unknown stream":   with(func(c *agent.Chunk) { c.Stream = 3 }),
		"a negative offset":   with(func(c *agent.Chunk) { c.Offset = -1 }),
		"an empty chunk":      with(func(c *agent.Chunk) { c.Data = nil }),
		"a chunk too large":   with(func(c *agent.Chunk) { c.Data = []byte(large + "x") }),
		"too many bytes":      bytes.Repeat(chunk(a.ID, 0, large), 2*agent.MaxBatchBytes/agent.MaxChunkBytes+1),
		"too many tiny ones":  many,
		"a chunk cut at data": after(good[:len(good)-1]),
	} {
		require.Contains(t, c.refused(http.StatusBadRequest, http.MethodPost, agent.LogsPath, body), "malformed log batch", name)
		require.Empty(t, w.first.stored(a.ID), name)
	}
	for cut := 1; cut < len(good); cut++ {
		c.refused(http.StatusBadRequest, http.MethodPost, agent.LogsPath, after(good[:cut]))
	}
	require.Empty(t, w.first.stored(a.ID))
	var receipt agent.LogReply
	c.ok(http.MethodPost, agent.LogsPath, good, &receipt)
	require.Equal(t, map[string]int64{a.ID: 4}, receipt.Next)
	require.NotContains(t, w.first.log.String(), "level=ERROR")
}

func TestABatchWhoseSenderGivesUpIsRefusedWhole(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	a := c.attempt(w.first)
	for range 20 { // whenever it is seen
		in, out := io.Pipe()
		gone := errors.New("gone")
		go func() {
			_, _ = out.Write(chunk(a.ID, 0, "lost\n"))
			_ = out.CloseWithError(gone)
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://control"+agent.LogsPath, in)
		require.NoError(t, err)
		res, err := c.link.Client().Do(req)
		if err != nil {
			require.ErrorIs(t, err, gone)
			continue
		}
		require.Equal(t, http.StatusBadRequest, res.StatusCode, "the hub may see the end before the sender has left")
		require.NoError(t, res.Body.Close())
	}
	var receipt agent.LogReply
	c.ok(http.MethodPost, agent.LogsPath, chunk(a.ID, 0, "one\n"), &receipt)
	require.Equal(t, map[string]int64{a.ID: 4}, receipt.Next)
	require.Equal(t, "one\n", w.first.stored(a.ID))
}

// An agent that dies in the middle of a request is not an error of the platform.
func TestAnAgentThatDiesMidRequestIsNoError(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	lock, err := w.sql.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = lock.Rollback() }()
	_, err = lock.ExecContext(t.Context(), `SELECT 1 FROM agents WHERE id = $1 FOR UPDATE`, w.agent.ID)
	require.NoError(t, err)
	beaten := make(chan error, 1)
	go func() {
		_, _, err := c.send(http.MethodPost, agent.HeartbeatPath, []byte("{}"))
		beaten <- err
	}()
	w.eventually("the heartbeat waits", func() bool { return w.waiting("FOR NO KEY UPDATE") == 1 })
	require.NoError(t, c.link.Close())
	require.Error(t, <-beaten)
	w.eventually("the heartbeat is given up", func() bool { return w.waiting("FOR NO KEY UPDATE") == 0 })
	require.NoError(t, lock.Rollback())
	w.first.sessions.Close()
	w.eventually("its handler has ended", func() bool { return !executing("hub.(*Handler).heartbeat") })
	require.NotContains(t, w.first.log.String(), "level=ERROR")
	require.NotContains(t, w.first.log.String(), "level=WARN")
}

// waiting counts the SQL statements that wait for a lock.
func (w *world) waiting(statement string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.sql.QueryRowContext(w.t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND wait_event_type = 'Lock' AND query LIKE '%' || $1`, statement).Scan(&n))
	return n
}

func TestAnErrorOfOursIsLoggedAndTheSessionGoesOn(t *testing.T) {
	w := newWorld(t)
	c := w.first.connect()
	c.hello()
	w.exec(`ALTER TABLE agents RENAME COLUMN hostname TO elsewhere`)
	text := c.refused(http.StatusInternalServerError, http.MethodPost, agent.HeartbeatPath, []byte("{}"))
	require.NotContains(t, text, "hostname", "the cause stays here")
	require.Regexp(t, `level=ERROR .*hostname`, w.first.log.String())
	w.exec(`ALTER TABLE agents RENAME COLUMN elsewhere TO hostname`)
	c.beat()
}
