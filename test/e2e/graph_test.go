package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// graphDriver uses GraphQL, and subscriptions instead of polling.
type graphDriver struct{ p *harness.Platform }

type graphError struct {
	Message    string
	Extensions struct{ Code, Field string }
}

var hump = regexp.MustCompile(`[A-Z]`)

// seen returns the error as REST does, where the message contains the field.
func (e graphError) seen() *seenError {
	field := hump.ReplaceAllStringFunc(e.Extensions.Field, func(c string) string { return "_" + strings.ToLower(c) })
	if field != "" && !strings.Contains(e.Message, field) {
		e.Message = field + ": " + e.Message
	}
	return &seenError{e.Extensions.Code, e.Message}
}

func (d graphDriver) call(query string, input any, into any) *seenError {
	d.p.T.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": map[string]any{"input": input}})
	require.NoError(d.p.T, err)
	req, err := http.NewRequestWithContext(d.p.T.Context(), http.MethodPost, d.p.URL+"/graphql", strings.NewReader(string(body)))
	require.NoError(d.p.T, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+d.p.Key)
	res, err := harness.HTTP.Do(req)
	require.NoError(d.p.T, err)
	defer res.Body.Close()
	var answer struct {
		Data   json.RawMessage
		Errors []graphError
	}
	require.NoError(d.p.T, json.NewDecoder(res.Body).Decode(&answer))
	require.Equal(d.p.T, http.StatusOK, res.StatusCode, "%+v", answer.Errors)
	if len(answer.Errors) > 0 {
		return answer.Errors[0].seen()
	}
	if into != nil {
		require.NoError(d.p.T, json.Unmarshal(answer.Data, into))
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

// subscribe calls next with each pushed message until next returns false or the subscription ends.
func (d graphDriver) subscribe(query string, variables any, next func(json.RawMessage) bool) {
	d.p.T.Helper()
	dialer := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, res, err := dialer.DialContext(d.p.T.Context(), "ws"+strings.TrimPrefix(d.p.URL, "http")+"/graphql", http.Header{"Authorization": {"Bearer " + d.p.Key}})
	require.NoError(d.p.T, err)
	_ = res.Body.Close()
	defer conn.Close()
	require.NoError(d.p.T, conn.SetReadDeadline(time.Now().Add(harness.AwaitTimeout)))
	send := func(kind string, payload any) {
		message := map[string]any{"type": kind}
		if payload != nil {
			message["payload"], message["id"] = payload, "1"
		}
		require.NoError(d.p.T, conn.WriteJSON(message))
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
		require.NoError(d.p.T, err)
		_ = json.Unmarshal(text, &m) // an error's payload is a list; the type shows which it is
		switch m.Type {
		case "connection_ack":
			send("subscribe", map[string]any{"query": query, "variables": variables})
		case "ping":
			send("pong", nil)
		case "next":
			require.Empty(d.p.T, m.Payload.Errors, "%s", text)
			if !next(m.Payload.Data) {
				return
			}
		case "complete":
			return
		default:
			require.Fail(d.p.T, "the subscription was answered with", "%s", text)
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
	d.p.T.Helper()
	d.subscribe(watchRun, map[string]any{"id": run}, func(data json.RawMessage) bool {
		var pushed struct{ Run graphRun }
		require.NoError(d.p.T, json.Unmarshal(data, &pushed))
		return !until(pushed.Run)
	})
}

func (d graphDriver) watch(run string, until func(seenRun) bool) (seen seenRun) {
	d.p.T.Helper()
	d.each(run, func(r graphRun) bool {
		seen = seenRun{Status: strings.ToLower(r.Status), Message: r.Message, Cancelled: r.CancelRequestedAt != nil}
		for _, row := range r.Tasks {
			seen.Tasks = append(seen.Tasks, seenTask{
				Key: row.Key, Status: strings.ToLower(row.Status), Message: row.Message, RetryCount: row.RetryCount, Attempts: len(row.Attempts),
			})
		}
		return until(seen)
	})
	require.True(d.p.T, until(seen), "the subscription ended with %+v", seen)
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
		require.NoError(d.p.T, json.Unmarshal(data, &pushed))
		for _, c := range pushed.RunLogs.Chunks {
			require.Equal(d.p.T, fmt.Sprint(len(text)), c.Offset)
			b, err := base64.StdEncoding.DecodeString(c.Data)
			require.NoError(d.p.T, err)
			text = append(text, b...)
		}
		require.Equal(d.p.T, fmt.Sprint(len(text)), pushed.RunLogs.NextOffset)
		eof = pushed.RunLogs.EOF
		return true
	})
	require.True(d.p.T, eof)
	return string(text)
}
