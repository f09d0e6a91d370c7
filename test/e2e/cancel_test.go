package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/test/harness"
)

// TestNothingIsLeftRunning: a task's processes end with it, however they try to survive.
func TestNothingIsLeftRunning(t *testing.T) {
	t.Parallel()
	p := harness.NewPlatform(t, harness.Options{Args: []string{"--agent-slots", "8"}})
	// Each sleeps for a unique number of seconds. The test finds them by it, even without their
	// session, parent and environment.
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
			p.Lend(t)
			run := p.StartRun(p.CreateJob(map[string]any{"command": command}))
			if c.cancel {
				harness.Await(t, "the process is ready", func() bool { return strings.Contains(p.LogText(run, ""), "ready") })
				p.Must(http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
				err := p.Do(t.Context(), http.MethodPost, "/runs/"+run+"/cancel", nil, nil)
				require.Equal(t, http.StatusConflict, harness.Status(err), "a second cancel")
			}
			p.RequireTrueEnd(run, c.status)
			for _, pr := range harness.AllProcesses() {
				require.NotContains(t, pr.Command, mine, "process %d is left", pr.PID)
			}
			require.Equal(t, "ready\n"+c.text, p.LogText(run, ""))
		})
	}
}
