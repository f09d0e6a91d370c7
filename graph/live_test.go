package graph

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

const runSubscription = `subscription($id: ID!) { run(id: $id) { id status startedAt tasks { key status attempts { number status } } attempts { status logSize } } }`

// until reads events until one matches.
func (c *client) until(id string, holds func(data map[string]any) bool) map[string]any {
	c.w.t.Helper()
	for {
		if data := c.event(id); holds(data) {
			return data
		}
	}
}

func TestARunIsFollowedToItsEnd(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(4)
	run := a.run(a.job(job.Spec{Tasks: []job.TaskSpec{{Key: "one", Command: "true"}, {Key: "two", Command: "true", DependsOn: []string{"one"}}}}))
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(runSubscription, map[string]any{"id": run.ID})
	first := c.event(id)
	require.Equal(t, "PENDING", at(first, "run", "status"), "the state at the start comes at once")
	require.Equal(t, "STARTING", at(first, "run", "tasks", 0, "attempts", 0, "status"))
	for i, key := range []string{"one", "two"} {
		attempt := a.attempt(run.ID)
		require.Equal(t, key, attempt.TaskKey)
		a.begin(attempt.ID)
		// What an earlier event's loaders have read is not shown again.
		c.until(id, func(d map[string]any) bool { return at(d, "run", "tasks", i, "attempts", 0, "status") == "RUNNING" })
		a.exit(attempt.ID, 0, 0)
		c.until(id, func(d map[string]any) bool { return at(d, "run", "tasks", i, "status") == "SUCCESS" })
	}
	data := w.ok(bearer(a.viewer.token), `query($id: ID!) { run(id: $id) { status } }`, map[string]any{"id": run.ID})
	require.Equal(t, "SUCCESS", at(data, "run", "status"))
}

func TestABurstOfChangesIsReadOnce(t *testing.T) {
	slow := quick
	slow.pace = defaultTiming.pace
	w := newWorld(t, slow)
	a := w.tenant("acme")
	run := a.run(a.job(job.Spec{Command: "true"}))
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(runSubscription, map[string]any{"id": run.ID})
	c.event(id)
	before := w.counted.count.Load()
	for range 200 {
		require.NoError(t, w.db.In(t.Context(), a.admin.scope, func(tx *store.Tx) error {
			tx.Notify(domain.RunTopic(run.ID))
			return nil
		}))
	}
	_, err := w.services.Runs.Cancel(t.Context(), a.editor.scope, run.ID)
	require.NoError(t, err)
	c.until(id, func(d map[string]any) bool { return at(d, "run", "status") == "CANCELLED" })
	require.Less(t, w.counted.count.Load()-before, int64(100), "200 wake-ups were read one by one")
}

const runsSubscription = `subscription($f: RunFilter) { runs(filter: $f) { id status } }`

func TestRunsTellsWhatIsNewAndWhatChanges(t *testing.T) {
	w := newWorld(t, quick)
	a, b := w.tenant("acme"), w.tenant("beta")
	a.connect(10)
	j, other := a.job(job.Spec{Command: "true"}), a.job(job.Spec{Command: "true"})
	running := a.run(j)
	a.begin(a.attempt(running.ID).ID)

	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(runsSubscription, map[string]any{"f": map[string]any{"jobId": j.ID, "status": nil}})
	require.Equal(t, map[string]any{"id": string(running.ID), "status": "RUNNING"}, c.event(id)["runs"], "what runs when it starts")

	a.run(other)
	b.run(b.job(job.Spec{Command: "true"}))
	fresh := a.run(j)
	require.Equal(t, map[string]any{"id": string(fresh.ID), "status": "PENDING"}, c.event(id)["runs"], "of this job and workspace alone")
	a.begin(a.attempt(fresh.ID).ID)
	require.Equal(t, map[string]any{"id": string(fresh.ID), "status": "RUNNING"}, c.event(id)["runs"])
	a.exit(a.attempt(running.ID).ID, 1, 0)
	require.Equal(t, map[string]any{"id": string(running.ID), "status": "FAILED"}, c.event(id)["runs"])
	_, err := w.services.Runs.Repair(t.Context(), a.editor.scope, running.ID, domain.Idempotency{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"id": string(running.ID), "status": "PENDING"}, c.event(id)["runs"])
}

func TestRunsOfAStatusTellWhenARunLeavesIt(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(10)
	run := a.run(a.job(job.Spec{Command: "true"}))
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(runsSubscription, map[string]any{"f": map[string]any{"status": []string{"RUNNING"}}})
	a.begin(a.attempt(run.ID).ID)
	require.Equal(t, "RUNNING", at(c.event(id), "runs", "status"), "while it was pending it did not match")
	a.exit(a.attempt(run.ID).ID, 0, 0)
	require.Equal(t, "SUCCESS", at(c.event(id), "runs", "status"))
}

// An active run is followed to its end, even if it is no longer among the newest.
func TestRunsFollowsOldRunsThatAreActive(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(200)
	_, err := w.services.Quotas.Update(t.Context(), a.admin.scope, quota.MaxRunningRuns, new(int64(200)))
	require.NoError(t, err)
	j := a.job(job.Spec{Command: "true"})
	old := a.run(j)
	attempt := a.attempt(old.ID).ID
	a.begin(attempt)
	for range recent + 5 {
		run := a.run(j)
		a.exit(a.attempt(run.ID).ID, 0, 0)
	}
	changes := &runChanges{runs: w.services.Runs, scope: a.viewer.scope, since: w.services.Clock.Now()}
	first, err := changes.next(t.Context())
	require.NoError(t, err)
	require.Len(t, first, 1, "a finished run is not sent at the start")
	require.Equal(t, old.ID, first[0].ID)
	a.exit(attempt, 0, 0)
	next, err := changes.next(t.Context())
	require.NoError(t, err)
	require.Len(t, next, 1)
	require.Equal(t, job.RunSuccess, next[0].Status)
	none, err := changes.next(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)
	require.LessOrEqual(t, len(changes.seen), recent+1)
}

func TestAgentsAreToldAsTheyComeAndGo(t *testing.T) {
	w := newWorld(t, quick)
	a, b := w.tenant("acme"), w.tenant("beta")
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(`subscription { agentUpdated { id status slots busy version } }`, nil)
	first := c.event(id)
	require.Equal(t, "NEW", at(first, "agentUpdated", "status"))
	require.Nil(t, at(first, "agentUpdated", "version"))
	b.connect(7)
	a.connect(4)
	require.Equal(t, map[string]any{"id": string(a.agent.ID), "status": "CONNECTED", "slots": 4.0, "busy": 0.0, "version": "1.2.3"}, c.event(id)["agentUpdated"])
	_, err := w.services.Agents.Heartbeat(t.Context(), a.worker, job.AgentHeartbeat{Session: a.session})
	require.NoError(t, err)
	require.NoError(t, w.services.Agents.Disconnected(t.Context(), a.worker, a.session))
	require.Equal(t, "DISCONNECTED", at(c.event(id), "agentUpdated", "status"), "a heartbeat alone is no event")
}

const logsSubscription = `subscription($a: ID!, $o: Int64) { runLogs(attempt: $a, offset: $o) { chunks { offset stream firstLine data } nextOffset size eof } }`

func TestLogsAreFollowedByteForByteToTheirEnd(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(4)
	run := a.run(a.job(job.Spec{Command: "x"}))
	attempt := a.attempt(run.ID).ID
	a.begin(attempt)
	var log []byte
	for i := range 300 {
		log = fmt.Appendf(log, "line %d \x1b[31m\xff\xfe\x00 %s\n", i, strings.Repeat("é", i))
	}
	half := len(log) / 2
	a.write(attempt, 0, log[:half])
	c := w.open(bearer(a.viewer.token), nil)
	whole := c.subscribe(logsSubscription, map[string]any{"a": attempt})
	from := c.subscribe(logsSubscription, map[string]any{"a": attempt, "o": strconv.Itoa(half - 7)})
	for at := half; at < len(log); at += 4000 {
		a.write(attempt, int64(at), log[at:min(at+4000, len(log))])
	}
	a.exit(attempt, 0, int64(len(log)))
	got, over := map[string][]byte{}, []string{}
	for len(over) < 2 {
		m := c.read()
		if m.Type == "complete" {
			over = append(over, m.ID)
			continue
		}
		got[m.ID] = append(got[m.ID], logBytesOf(t, m)...)
	}
	require.Equal(t, log, got[whole])
	require.Equal(t, log[half-7:], got[from])

	end := c.subscribe(logsSubscription, map[string]any{"a": attempt, "o": strconv.Itoa(len(log))})
	require.Equal(t, true, at(c.event(end), "runLogs", "eof"), "the end of a finished log is sent at once")
	require.Equal(t, message{Type: "complete", ID: end}, c.read())
	beyond := c.subscribe(logsSubscription, map[string]any{"a": attempt, "o": strconv.Itoa(len(log) + 1)})
	require.Equal(t, "RANGE", c.failure(beyond))
	negative := c.subscribe(logsSubscription, map[string]any{"a": attempt, "o": "-1"})
	require.Equal(t, "INVALID", c.failure(negative))

	page := `query($a: ID!, $o: Int64!, $n: Int!) { attemptLog(attempt: $a, offset: $o, maxBytes: $n) { chunks { offset firstLine data stream emittedAt } nextOffset size eof } }`
	var read []byte
	for next := "0"; next != strconv.Itoa(len(log)); {
		p := w.ok(bearer(a.viewer.token), page, map[string]any{"a": attempt, "o": next, "n": 1000})["attemptLog"]
		for _, chunk := range at(p, "chunks").([]any) {
			read = append(read, decoded(t, at(chunk, "data"))...)
		}
		require.Equal(t, strconv.Itoa(len(log)), at(p, "size"))
		next = at(p, "nextOffset").(string)
	}
	require.Equal(t, log, read)
	tail := w.ok(bearer(a.viewer.token), `query($id: ID!) { run(id: $id) { attempts { logSize logTail(bytes: 10) } } }`, map[string]any{"id": run.ID})
	require.Equal(t, strconv.Itoa(len(log)), at(tail, "run", "attempts", 0, "logSize"))
	require.Equal(t, log[len(log)-10:], decoded(t, at(tail, "run", "attempts", 0, "logTail")))
}

func logBytesOf(t *testing.T, m message) (b []byte) {
	require.Equal(t, "next", m.Type, "%s", m.Payload)
	var a answer
	require.NoError(t, json.Unmarshal(m.Payload, &a))
	for _, chunk := range at(a.Data, "runLogs", "chunks").([]any) {
		b = append(b, decoded(t, at(chunk, "data"))...)
	}
	return b
}

func decoded(t *testing.T, v any) []byte {
	b, err := base64.StdEncoding.DecodeString(v.(string))
	require.NoError(t, err)
	return b
}

// A live query survives an unavailable database, and misses nothing.
func TestALiveQueryOutlastsTheDatabase(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	run := a.run(a.job(job.Spec{Command: "true"}))
	c := w.open(bearer(a.viewer.token), nil)
	id := c.subscribe(runSubscription, map[string]any{"id": run.ID})
	c.event(id)
	w.counted.fail.Store(true)
	require.NoError(t, w.db.In(t.Context(), a.admin.scope, func(tx *store.Tx) error {
		tx.Notify(domain.RunTopic(run.ID))
		return nil
	}))
	require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "waits for the database") }, testTimeout, quick.pace)
	w.counted.fail.Store(false)
	_, err := w.services.Runs.Cancel(t.Context(), a.editor.scope, run.ID)
	require.NoError(t, err)
	c.until(id, func(d map[string]any) bool { return at(d, "run", "status") == "CANCELLED" })
}
