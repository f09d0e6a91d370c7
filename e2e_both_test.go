package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// driver does by one transport what both can do.
type driver interface {
	createJob(tasks []seenTask) (job string, err *seenError)
	startRun(job string) (run string, err *seenError)
	// watch waits until the run, as this transport shows it, satisfies until.
	watch(run string, until func(seenRun) bool) seenRun
	log(run, key string) string // of the task's latest attempt, followed to its end
	cancel(run string) *seenError
	repair(run string) *seenError
}

// seenTask, seenRun and seenError are what is compared.
type seenTask struct {
	Key, Command string
	After        []string
	Retries      int

	Status, Message string
	RetryCount      int
	Attempts        int
}

type seenRun struct {
	Status, Message string
	Cancelled       bool
	Tasks           []seenTask
}

func (r seenRun) over() bool {
	return r.Status == "success" || r.Status == "failed" || r.Status == "cancelled"
}

// seenError is an error's code and sentence, which says nothing of what is named by an id.
type seenError struct{ Code, Message string }

// outcome is what a scenario has come to.
type outcome struct {
	Runs   []seenRun
	Logs   []string
	Errors []*seenError
}

// scenarios are told once, whatever the transport.
var scenarios = []struct {
	name string
	play func(t *testing.T, d driver, arena string) outcome
}{
	{"a run that succeeds", func(t *testing.T, d driver, _ string) (o outcome) {
		job, err := d.createJob([]seenTask{{Key: "one", Command: "echo first; echo second >&2"}, {Key: "two", Command: "echo after", After: []string{"one"}}})
		require.Nil(t, err)
		run, err := d.startRun(job)
		require.Nil(t, err)
		o.Logs = append(o.Logs, d.log(run, "two"), d.log(run, "one"))
		o.Runs = append(o.Runs, d.watch(run, seenRun.over))
		o.Errors = append(o.Errors, d.cancel(run), d.repair(run))
		return o
	}},
	{"a run that fails and is repaired", func(t *testing.T, d driver, arena string) (o outcome) {
		command := "if test -e " + arena + "/mended; then echo mended; else touch " + arena + "/mended; echo broken; exit 3; fi"
		job, err := d.createJob([]seenTask{{Key: "one", Command: command}, {Key: "two", Command: "echo after", After: []string{"one"}}})
		require.Nil(t, err)
		run, err := d.startRun(job)
		require.Nil(t, err)
		o.Runs = append(o.Runs, d.watch(run, seenRun.over))
		o.Logs = append(o.Logs, d.log(run, "one"))
		o.Errors = append(o.Errors, d.repair(run))
		o.Runs = append(o.Runs, d.watch(run, seenRun.over))
		o.Logs = append(o.Logs, d.log(run, "one"), d.log(run, "two"))
		return o
	}},
	{"a run that is cancelled while it writes", func(t *testing.T, d driver, _ string) (o outcome) {
		job, err := d.createJob([]seenTask{{Key: "one", Command: "echo begun; sleep 3600"}, {Key: "two", Command: "echo after", After: []string{"one"}}})
		require.Nil(t, err)
		run, err := d.startRun(job)
		require.Nil(t, err)
		d.watch(run, func(r seenRun) bool { return r.Tasks[0].Status == "running" })
		o.Errors = append(o.Errors, d.cancel(run))
		o.Runs = append(o.Runs, d.watch(run, seenRun.over))
		o.Errors = append(o.Errors, d.cancel(run))
		return o
	}},
	{"a retry", func(t *testing.T, d driver, _ string) (o outcome) {
		job, err := d.createJob([]seenTask{{Key: "one", Command: "echo $MILLPOND_ATTEMPT; test $MILLPOND_ATTEMPT = 2", Retries: 1}})
		require.Nil(t, err)
		run, err := d.startRun(job)
		require.Nil(t, err)
		o.Runs = append(o.Runs, d.watch(run, seenRun.over))
		o.Logs = append(o.Logs, d.log(run, "one"))
		return o
	}},
	{"what is refused", func(t *testing.T, d driver, _ string) (o outcome) {
		for _, tasks := range [][]seenTask{
			{{Key: "one", Command: "true", After: []string{"two"}}, {Key: "two", Command: "true", After: []string{"one"}}},
			{{Key: "one", Command: "true", After: []string{"nobody"}}},
			{{Key: "one", Command: "true"}, {Key: "one", Command: "true"}},
			{{Key: "a b", Command: "true"}},
			{{Key: "one", Command: ""}},
		} {
			_, err := d.createJob(tasks)
			require.NotNil(t, err)
			o.Errors = append(o.Errors, err)
		}
		empty, err := d.createJob([]seenTask{})
		require.Nil(t, err, "a job without tasks is saved")
		_, err = d.startRun(empty)
		o.Errors = append(o.Errors, err)
		for _, id := range []string{"run_00000000000000000000000000", "nonsense"} {
			o.Errors = append(o.Errors, d.cancel(id), d.repair(id))
		}
		_, err = d.startRun("job_00000000000000000000000000")
		o.Errors = append(o.Errors, err)
		return o
	}},
}

// TestBothTransports plays every scenario through REST and through GraphQL: they come to the same.
func TestBothTransports(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--agent-slots", "8"}})
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			p.lend(t)
			arena := func(name string) string {
				dir := p.arena + "/" + strings.ReplaceAll(s.name+" by "+name, " ", "-")
				p.mkdir(dir)
				return dir
			}
			one, two := arena("REST"), arena("GraphQL")
			byREST, byGraphQL := s.play(t, restDriver{p}, one), s.play(t, graphDriver{p}, two)
			require.Empty(t, cmp.Diff(byREST, byGraphQL))
			require.NotEqual(t, outcome{}, byREST)
		})
	}
}

// restDriver polls.
type restDriver struct{ p *platform }

var restCodes = map[int]string{400: "INVALID", 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT", 413: "TOO_LARGE", 429: "QUOTA_EXCEEDED"}

func (d restDriver) call(path string, body, into any) *seenError {
	err := d.p.do(d.p.t.Context(), http.MethodPost, path, body, into)
	if err == nil {
		return nil
	}
	var said struct{ Error string }
	require.NoError(d.p.t, json.Unmarshal([]byte(trimmed(err)), &said), "%v", err)
	return &seenError{restCodes[status(err)], said.Error}
}

func (d restDriver) createJob(tasks []seenTask) (string, *seenError) {
	all := []any{}
	for _, t := range tasks {
		all = append(all, map[string]any{"key": t.Key, "command": t.Command, "depends_on": t.After, "max_retries": t.Retries})
	}
	var job struct{ ID string }
	err := d.call("/jobs", map[string]any{"name": "both", "tasks": all}, &job)
	return job.ID, err
}

func (d restDriver) startRun(job string) (string, *seenError) {
	var run struct {
		ID string `json:"run_id"`
	}
	err := d.call("/jobs/"+job+"/run", nil, &run)
	return run.ID, err
}

func (d restDriver) watch(run string, until func(seenRun) bool) (seen seenRun) {
	d.p.t.Helper()
	await(d.p.t, "the run is as it should be", func() bool {
		r := d.p.runRow(run)
		seen = seenRun{Status: r.Status, Message: r.Message, Cancelled: r.CancelRequested != nil}
		for _, row := range d.p.tasks(run) {
			seen.Tasks = append(seen.Tasks, seenTask{Key: row.Key, Status: row.Status, Message: row.Message, RetryCount: row.RetryCount, Attempts: row.Attempts})
		}
		return len(seen.Tasks) > 0 && until(seen)
	})
	return seen
}

func (d restDriver) log(run, key string) string {
	res, err := d.p.send(d.p.t.Context(), http.MethodGet, "/runs/"+run+"/tasks/"+key+"/logs?follow=true", nil, nil)
	require.NoError(d.p.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(d.p.t, err)
	return string(text)
}

func (d restDriver) cancel(run string) *seenError { return d.call("/runs/"+run+"/cancel", nil, nil) }

func (d restDriver) repair(run string) *seenError { return d.call("/runs/"+run+"/repair", nil, nil) }

// graphDriver is told.
type graphDriver struct{ p *platform }

type graphError struct {
	Message    string
	Extensions struct{ Code, Field string }
}

var hump = regexp.MustCompile(`[A-Z]`)

// seen tells the error as REST does, which has the field in the sentence.
func (e graphError) seen() *seenError {
	field := hump.ReplaceAllStringFunc(e.Extensions.Field, func(c string) string { return "_" + strings.ToLower(c) })
	if field != "" && !strings.Contains(e.Message, field) {
		e.Message = field + ": " + e.Message
	}
	return &seenError{e.Extensions.Code, e.Message}
}

func (d graphDriver) call(query string, input any, into any) *seenError {
	d.p.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": map[string]any{"input": input}})
	require.NoError(d.p.t, err)
	req, err := http.NewRequestWithContext(d.p.t.Context(), http.MethodPost, d.p.url+"/graphql", strings.NewReader(string(body)))
	require.NoError(d.p.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+d.p.key)
	res, err := web.Do(req)
	require.NoError(d.p.t, err)
	defer res.Body.Close()
	var answer struct {
		Data   json.RawMessage
		Errors []graphError
	}
	require.NoError(d.p.t, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(d.p.t, http.StatusOK, res.StatusCode, "%+v", answer.Errors)
	if len(answer.Errors) > 0 {
		return answer.Errors[0].seen()
	}
	if into != nil {
		require.NoError(d.p.t, json.Unmarshal(answer.Data, into))
	}
	return nil
}

func (d graphDriver) createJob(tasks []seenTask) (string, *seenError) {
	all := []any{}
	for _, t := range tasks {
		all = append(all, map[string]any{"key": t.Key, "command": t.Command, "dependsOn": append([]string{}, t.After...), "maxRetries": t.Retries})
	}
	var made struct {
		CreateJob struct{ Job struct{ ID string } }
	}
	err := d.call(`mutation($input: CreateJobInput!) { createJob(input: $input) { job { id } } }`, map[string]any{"name": "both", "tasks": all}, &made)
	return made.CreateJob.Job.ID, err
}

func (d graphDriver) startRun(job string) (string, *seenError) {
	var made struct {
		StartRun struct{ Run struct{ ID string } }
	}
	err := d.call(`mutation($input: StartRunInput!) { startRun(input: $input) { run { id } } }`, map[string]any{"jobId": job}, &made)
	return made.StartRun.Run.ID, err
}

func (d graphDriver) cancel(run string) *seenError {
	return d.call(`mutation($input: CancelRunInput!) { cancelRun(input: $input) { run { id } } }`, map[string]any{"id": run}, nil)
}

func (d graphDriver) repair(run string) *seenError {
	return d.call(`mutation($input: RepairRunInput!) { repairRun(input: $input) { run { id } } }`, map[string]any{"id": run}, nil)
}

// subscribe calls next with what is pushed, until it answers false or the subscription ends.
func (d graphDriver) subscribe(query string, variables any, next func(json.RawMessage) bool) {
	d.p.t.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, res, err := dialer.DialContext(d.p.t.Context(), "ws"+strings.TrimPrefix(d.p.url, "http")+"/graphql", http.Header{"Authorization": {"Bearer " + d.p.key}})
	require.NoError(d.p.t, err)
	_ = res.Body.Close()
	defer conn.Close()
	require.NoError(d.p.t, conn.SetReadDeadline(time.Now().Add(patience)))
	send := func(kind string, payload any) {
		message := map[string]any{"type": kind}
		if payload != nil {
			message["payload"], message["id"] = payload, "1"
		}
		require.NoError(d.p.t, conn.WriteJSON(message))
	}
	send("connection_init", nil)
	for {
		var m struct {
			Type    string
			Payload struct {
				Data   json.RawMessage
				Errors []graphError
			}
		}
		_, text, err := conn.ReadMessage()
		require.NoError(d.p.t, err)
		_ = json.Unmarshal(text, &m) // an error's payload is a list; the type tells
		switch m.Type {
		case "connection_ack":
			send("subscribe", map[string]any{"query": query, "variables": variables})
		case "ping":
			send("pong", nil)
		case "next":
			require.Empty(d.p.t, m.Payload.Errors, "%s", text)
			if !next(m.Payload.Data) {
				return
			}
		case "complete":
			return
		default:
			require.Fail(d.p.t, "the subscription was answered with", "%s", text)
		}
	}
}

const watchRun = `subscription($id: ID!) { run(id: $id) {
	status message cancelRequestedAt tasks { key status message retryCount attempts { id number } }
} }`

type graphRun struct {
	Status, Message   string
	CancelRequestedAt *time.Time
	Tasks             []struct {
		Key, Status, Message string
		RetryCount           int
		Attempts             []struct {
			ID     string
			Number int
		}
	}
}

func (d graphDriver) each(run string, until func(graphRun) bool) {
	d.p.t.Helper()
	d.subscribe(watchRun, map[string]any{"id": run}, func(data json.RawMessage) bool {
		var pushed struct{ Run graphRun }
		require.NoError(d.p.t, json.Unmarshal(data, &pushed))
		return !until(pushed.Run)
	})
}

func (d graphDriver) watch(run string, until func(seenRun) bool) (seen seenRun) {
	d.p.t.Helper()
	d.each(run, func(r graphRun) bool {
		seen = seenRun{Status: strings.ToLower(r.Status), Message: r.Message, Cancelled: r.CancelRequestedAt != nil}
		for _, row := range r.Tasks {
			seen.Tasks = append(seen.Tasks, seenTask{
				Key: row.Key, Status: strings.ToLower(row.Status), Message: row.Message, RetryCount: row.RetryCount, Attempts: len(row.Attempts),
			})
		}
		return until(seen)
	})
	require.True(d.p.t, until(seen), "the subscription ended with %+v", seen)
	return seen
}

func (d graphDriver) log(run, key string) string {
	var attempt string
	d.each(run, func(r graphRun) bool {
		for _, row := range r.Tasks {
			if row.Key == key && len(row.Attempts) > 0 {
				attempt = row.Attempts[len(row.Attempts)-1].ID
			}
		}
		return attempt != ""
	})
	var text []byte
	var eof bool
	d.subscribe(`subscription($attempt: ID!) { runLogs(attempt: $attempt) { nextOffset eof chunks { offset data } } }`, map[string]any{"attempt": attempt}, func(data json.RawMessage) bool {
		var pushed struct {
			RunLogs struct {
				NextOffset string
				EOF        bool
				Chunks     []struct{ Offset, Data string }
			}
		}
		require.NoError(d.p.t, json.Unmarshal(data, &pushed))
		for _, c := range pushed.RunLogs.Chunks {
			require.Equal(d.p.t, fmt.Sprint(len(text)), c.Offset)
			b, err := base64.StdEncoding.DecodeString(c.Data)
			require.NoError(d.p.t, err)
			text = append(text, b...)
		}
		require.Equal(d.p.t, fmt.Sprint(len(text)), pushed.RunLogs.NextOffset)
		eof = pushed.RunLogs.EOF
		return true
	})
	require.True(d.p.t, eof)
	return string(text)
}
