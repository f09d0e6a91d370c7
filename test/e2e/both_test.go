package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// driver runs the operations that both transports have.
type driver interface {
	createJob(tasks []seenTask) (job string, err *seenError)
	startRun(job string) (run string, err *seenError)
	// watch waits until the run, as this transport shows it, satisfies until.
	watch(run string, until func(seenRun) bool) seenRun
	log(run, key string) string // of the task's latest attempt, followed to its end
	cancel(run string) *seenError
	repair(run string) *seenError
}

// seenTask, seenRun and seenError are the compared results.
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

// seenError is an error's code and message; the message names no ids.
type seenError struct{ Code, Message string }

// outcome is the result of a scenario.
type outcome struct {
	Runs   []seenRun
	Logs   []string
	Errors []*seenError
}

// scenarios are written once for both transports.
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

// TestBothTransports runs every scenario through REST and GraphQL; the outcomes are equal.
func TestBothTransports(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--agent-slots", "8"}})
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			p.Lend(t)
			arena := func(name string) string {
				dir := p.Arena + "/" + strings.ReplaceAll(s.name+" by "+name, " ", "-")
				p.Mkdir(dir)
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
type restDriver struct{ p *harness.Platform }

var restCodes = map[int]string{400: "INVALID", 401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "CONFLICT", 413: "TOO_LARGE", 429: "QUOTA_EXCEEDED"}

func (d restDriver) call(path string, body, into any) *seenError {
	err := d.p.Do(d.p.T.Context(), http.MethodPost, path, body, into)
	if err == nil {
		return nil
	}
	var said struct{ Error string }
	require.NoError(d.p.T, json.Unmarshal([]byte(harness.Body(err)), &said), "%v", err)
	return &seenError{restCodes[harness.Status(err)], said.Error}
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
	d.p.T.Helper()
	harness.Await(d.p.T, "the run is as it should be", func() bool {
		r := d.p.RunRow(run)
		seen = seenRun{Status: r.Status, Message: r.Message, Cancelled: r.CancelRequested != nil}
		for _, row := range d.p.Tasks(run) {
			seen.Tasks = append(seen.Tasks, seenTask{Key: row.Key, Status: row.Status, Message: row.Message, RetryCount: row.RetryCount, Attempts: row.Attempts})
		}
		return len(seen.Tasks) > 0 && until(seen)
	})
	return seen
}

func (d restDriver) log(run, key string) string {
	res, err := d.p.Send(d.p.T.Context(), http.MethodGet, "/runs/"+run+"/tasks/"+key+"/logs?follow=true", nil, nil)
	require.NoError(d.p.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(d.p.T, err)
	return string(text)
}

func (d restDriver) cancel(run string) *seenError { return d.call("/runs/"+run+"/cancel", nil, nil) }

func (d restDriver) repair(run string) *seenError { return d.call("/runs/"+run+"/repair", nil, nil) }
