package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/machine"
)

// serverMain creates one incarnation of a machine after the other, until it is killed.
func serverMain(arg string) int {
	var first machine.Spec
	var dir string
	if err := json.Unmarshal([]byte(arg), &[]any{&dir, &first}); err != nil {
		return 2
	}
	p, err := open(Options{Dir: dir, Version: "v1"}, roomy, findCgroups())
	if err != nil {
		fmt.Println(err)
		return 2
	}
	for s := first; ; s.Incarnation++ {
		fmt.Println("making", s.Incarnation)
		if err := p.Ensure(context.Background(), s); err != nil {
			fmt.Println(err)
			return 1
		}
	}
}

// TestAServerThatIsKilledLeavesNoProcessThatNobodyKnows kills servers at random moments of creating
// and replacing a machine.
func TestAServerThatIsKilledLeavesNoProcessThatNobodyKnows(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	for range 8 {
		made := killedServer(h, s, time.Duration(rand.Int64N(int64(40*time.Millisecond))))
		h.reopen()
		var running []string
		h.eventually(func() bool { // a child of a dying agent looks like the agent until its exec
			running = h.agents(s.Machine)
			alive := 0
			for _, s.Incarnation = range []int{made - 1, made} {
				if s.Incarnation > 0 && h.alive(s) {
					alive++
				}
			}
			return len(running) <= 1 && alive == len(running)
		})
		was := h.alive(s)
		h.ensure(s)
		now := h.agents(s.Machine)
		require.Len(t, now, 1)
		if was {
			require.Equal(t, running, now, "what runs is known by its incarnation")
		}
		s.Incarnation++
	}
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.Empty(t, h.agents(s.Machine))
}

// killedServer runs a server, kills it after a while, and returns the incarnation that it had
// reached.
func killedServer(h *house, s machine.Spec, after time.Duration) (incarnation int) {
	h.Helper()
	h.Close()
	arg, err := json.Marshal([]any{h.dir, s})
	require.NoError(h, err)
	cmd := exec.Command("/proc/self/exe", "server", string(arg))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(h, err)
	require.NoError(h, cmd.Start())
	lines := bufio.NewScanner(out)
	var killer *time.Timer
	for lines.Scan() {
		_, err := fmt.Sscanf(lines.Text(), "making %d", &incarnation)
		require.NoError(h, err, lines.Text())
		if killer == nil {
			killer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	require.Error(h, cmd.Wait())
	require.NotNil(h, killer)
	return incarnation
}
