package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/millpond/millpond/domain/machine"
)

// Agent is the agent beside the server, which belongs to no machine. An agent that an earlier
// server started is adopted.
type Agent struct {
	Dir       string                      // holds agentFile and the log
	Directory string                      // id of Dir; the agent of a copied directory is not adopted
	Version   string                      // of the binary
	Args      []string                    // command line, without the binary
	Token     func(context.Context) error // ensures before a start that the agent's token is in its file
	Log       *slog.Logger
}

// agentFile in the directory of an Agent holds an agentRecord.
const agentFile = "agent.json"

// agentRecord identifies the agent's process and how it was started.
type agentRecord struct {
	PID       int
	Start     string // of the process, in the kernel's ticks; the pid may have been reused
	Directory string // id of the data directory; empty when an earlier version wrote the record
	Binary    string
	Args      []string
}

// Pauses of an Agent. The pause before a restart doubles unless the agent lived four times as long.
const (
	minRestartPause = 500 * time.Millisecond
	maxRestartPause = time.Minute
	agentGrace      = 5 * time.Second // between SIGTERM and SIGKILL
)

// Run runs the agent until ctx ends, and restarts it when it dies. Then it stops the agent; its
// tasks run on under their shims until the lease ends.
func (a *Agent) Run(ctx context.Context) {
	for pause := minRestartPause; ctx.Err() == nil; pause = min(2*pause, maxRestartPause) {
		began := time.Now()
		err := a.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 4*pause {
			pause = minRestartPause
		}
		a.Log.Error("the agent beside the server has ended; restarting it", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// run runs the agent until the agent or ctx ends. An earlier server's agent is kept if it was
// started with the same record, else replaced. Tasks are not affected.
func (a *Agent) run(ctx context.Context) error {
	want, err := a.record()
	if err != nil {
		return err
	}
	running, was := a.find()
	if running.alive() && (was.Binary != want.Binary || !slices.Equal(was.Args, want.Args)) {
		if err := running.end(context.Background(), agentGrace); err != nil {
			return err
		}
	}
	if !running.alive() {
		if err := a.Token(ctx); err != nil {
			return err
		}
		if running, err = a.start(want); err != nil {
			return err
		}
	}
	a.Log.Info("the agent beside the server", "pid", running.Pid)
	w := newWatch(machine.Ref{}, running)
	defer context.AfterFunc(ctx, w.stop)()
	if w.wait() {
		return errors.New(running.status())
	}
	if err := running.end(context.Background(), agentGrace); err != nil {
		a.Log.Error("stopping the agent beside the server", "error", err)
	}
	return ctx.Err()
}

// record returns the record with which the agent must be started.
func (a *Agent) record() (agentRecord, error) {
	self, err := os.Executable()
	if err != nil {
		return agentRecord{}, err
	}
	binary, err := os.Stat(self)
	if err != nil {
		return agentRecord{}, err
	}
	return agentRecord{
		Directory: a.Directory, Binary: fmt.Sprintf("%s %d %d", a.Version, binary.Size(), binary.ModTime().UnixNano()), Args: append([]string{self}, a.Args...),
	}, nil
}

// start starts the agent and records its process, which run reaps.
func (a *Agent) start(r agentRecord) (process, error) {
	out, err := openLog(filepath.Join(a.Dir, logFile))
	if err != nil {
		return process{}, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(r.Args[0], r.Args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl+C in the server's terminal must not reach the agent
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	r.PID, r.Start = cmd.Process.Pid, processStart(cmd.Process.Pid)
	p := process{Pid: r.PID, Start: r.Start}
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.Dir, agentFile), b, 0o600)
	}
	if err != nil {
		return process{}, errors.Join(err, p.end(context.Background(), agentGrace))
	}
	return p, cmd.Process.Release()
}

// find returns the process of the record, or the zero value if it is not this directory's agent.
func (a *Agent) find() (p process, r agentRecord) {
	b, err := os.ReadFile(filepath.Join(a.Dir, agentFile))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return process{}, r
	}
	if r.Directory != "" && r.Directory != a.Directory { // the agent of the directory that this one is a copy of
		return process{}, r
	}
	return process{Pid: r.PID, Start: r.Start}, r
}
