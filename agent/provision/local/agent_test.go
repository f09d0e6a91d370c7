package local

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pauseLog is a log handler that records the pauses before restarts.
type pauseLog struct {
	slog.Handler
	all chan time.Duration
}

// Handle implements slog.Handler.
func (l pauseLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "pause" {
			l.all <- a.Value.Duration()
		}
		return true
	})
	return nil
}

// Enabled implements slog.Handler.
func (pauseLog) Enabled(context.Context, slog.Level) bool { return true }

// TestAnAgentThatEndsAtOnceIsStartedLessAndLessOften. Its log is rotated when it has grown.
func TestAnAgentThatEndsAtOnceIsStartedLessAndLessOften(t *testing.T) {
	log := pauseLog{slog.DiscardHandler, make(chan time.Duration)}
	a := &Agent{Dir: t.TempDir(), Log: slog.New(log), Token: func(context.Context) error { return errors.New("it has no token") }}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	for _, want := range []time.Duration{minRestartPause, 2 * minRestartPause, 4 * minRestartPause} {
		require.Equal(t, want, <-log.all)
	}
	stop()
	running.Wait()

	path := filepath.Join(a.Dir, logFile)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, logLimit+1))
	agent, err := a.start(agentRecord{Args: []string{"echo", "hello"}})
	require.NoError(t, err)
	require.Equal(t, "exit status 0", agent.status())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(b))
	aside, err := os.Stat(path + ".1")
	require.NoError(t, err)
	require.EqualValues(t, logLimit+1, aside.Size())
}

// TestAnAgentOutlivesItsServer: the next server finds it and stops it at its own end. The server of
// a copied directory does not.
func TestAnAgentOutlivesItsServer(t *testing.T) {
	a := &Agent{Dir: t.TempDir(), Directory: "one", Log: slog.New(slog.DiscardHandler)}
	want, err := a.record()
	require.NoError(t, err)
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	want.PID, want.Start = child.Process.Pid, processStart(child.Process.Pid)
	b, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(a.Dir, agentFile), b, 0o600))
	copied := &Agent{Dir: a.Dir, Directory: "two"}
	foreign, _ := copied.find()
	require.False(t, foreign.alive())
	found, _ := a.find()
	require.True(t, found.alive())

	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- a.run(ctx) }()
	stop()
	require.ErrorIs(t, <-result, context.Canceled)
	require.False(t, found.alive())
	_ = child.Wait() // run has reaped it
}
