package main_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNothingIsLeftRunning: what a process started goes with it, however it tries to stay.
func TestNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, options{args: []string{"--agent-slots", "8"}})
	// Each sleeps for a number of seconds of its own, by which it is found: one that has left the session, and lost its parent and its environment.
	const detached = `env -i setsid sleep $SECONDS_OF_MINE & (setsid sh -c 'sleep $SECONDS_OF_MINE & sleep $SECONDS_OF_MINE' &) ; echo ready; `
	for i, c := range []struct {
		name, command string
		cancel        bool
		status        string
		text          string // what it writes, after ready
	}{
		{"cancelled: ends by SIGTERM", `echo ready; exec sleep $SECONDS_OF_MINE`, true, "cancelled", ""},
		{"cancelled: ignores SIGTERM", `trap '' TERM; echo ready; while :; do sleep $SECONDS_OF_MINE; done`, true, "cancelled", ""},
		{"cancelled: detached", detached + `sleep $SECONDS_OF_MINE`, true, "cancelled", ""},
		{"cancelled: detached and ignores SIGTERM", `trap '' TERM; ` + detached + `while :; do sleep $SECONDS_OF_MINE; done`, true, "cancelled", ""},
		{"cancelled: its child has something to say", `(trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.05; done) 2>/dev/null & trap 'wait; exit' TERM; wait`, true, "cancelled", "bye\n"},
		{"ends while its children hold the pipe", detached + `exit 0`, false, "success", ""},
		{"fails while its children hold the pipe", detached + `exit 3`, false, "failed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			mine := fmt.Sprintf("31%02d%d", i, time.Now().UnixNano()%100000)
			command := strings.ReplaceAll(c.command, "$SECONDS_OF_MINE", mine)
			p.lend(t)
			run := p.run(p.job(map[string]any{"command": command}))
			if c.cancel {
				await(t, "the process is ready", func() bool { return strings.Contains(p.text(run, ""), "ready") })
				p.must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
				err := p.do(t.Context(), http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
				require.Equal(t, http.StatusConflict, status(err), "a second cancel")
			}
			p.requireTrueEnd(run, c.status)
			for _, pr := range allProcesses() {
				require.NotContains(t, pr.command, mine, "process %d is left", pr.pid)
			}
			require.Equal(t, "ready\n"+c.text, p.text(run, ""))
		})
	}
}
