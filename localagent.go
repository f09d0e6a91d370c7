package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/domain"
)

// Files of the agent beside the server, in the data directory.
const (
	agentTokenFile   = "agent.token"
	agentProcessFile = "agent.json" // an agentRecord
	agentLogFile     = "agent.log"
	agentDir         = "agent"
)

// agentRecord says which process is the agent, and what it was started with.
type agentRecord struct {
	PID    int
	Start  string // of the process, in the kernel's ticks: a pid alone may be somebody else's by now
	Binary string
	Args   []string
}

// Pauses of the supervisor. The one before a restart doubles with every agent that does not live four times as long.
const (
	minRestartPause = 500 * time.Millisecond
	maxRestartPause = time.Minute
	adoptedPoll     = 100 * time.Millisecond
)

// superviseAgent runs an agent beside the server, adopts the one that an earlier server started, and starts it again when it dies. The function
// returned ends the agent; its tasks run on under their shims until the lease ends.
func (s *server) superviseAgent(ctx context.Context) (stop func()) {
	wanted := s.database != nil
	if s.config.LocalAgent != nil {
		wanted = *s.config.LocalAgent
	}
	if !wanted {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.keepAgent(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (s *server) keepAgent(ctx context.Context) {
	pause := minRestartPause
	for ctx.Err() == nil {
		began := time.Now()
		err := s.runAgent(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > 4*pause {
			pause = minRestartPause
		}
		s.log.Error("there is no agent beside the server; starting it again", "error", err, "pause", pause)
		sleep(ctx, pause)
		pause = min(2*pause, maxRestartPause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *server) path(name string) string { return filepath.Join(s.config.DataDir, name) }

// runAgent runs the agent until it ends or ctx does. One that an earlier server left is kept when it was started alike, else replaced: the
// tasks do not notice.
func (s *server) runAgent(ctx context.Context) error {
	want, err := s.agentRecord()
	if err != nil {
		return err
	}
	running, was := s.findAgent()
	if running != nil && (was.Binary != want.Binary || strings.Join(was.Args, "\x00") != strings.Join(want.Args, "\x00")) {
		running.stop()
		running = nil
	}
	if running == nil {
		if err := s.ownAgentToken(ctx); err != nil {
			return err
		}
		if running, err = s.startAgent(want); err != nil {
			return err
		}
	}
	s.log.Info("the agent beside the server", "pid", running.process.Pid)
	select {
	case err := <-running.ended:
		return err
	case <-ctx.Done():
		running.stop()
		return ctx.Err()
	}
}

// ownAgentToken sees to it that the token in the data directory is the agent's: a first start may have been cut off before it was kept, and
// somebody may have replaced it since. Beside the embedded database the agent is this server's own, and gets another token; but not while somebody
// runs it elsewhere.
func (s *server) ownAgentToken(ctx context.Context) error {
	token, err := os.ReadFile(s.path(agentTokenFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, _, err = s.store.System().Agent(ctx, domain.HashSecret(strings.TrimSpace(string(token))))
	if !domain.IsCode(err, domain.CodeNotFound) {
		return err
	}
	if s.database == nil {
		return fmt.Errorf("%s does not hold an agent's token; replace the token on the console's page of agents and write the new one there", s.path(agentTokenFile))
	}
	return s.replaceAgentToken(ctx)
}

func (s *server) replaceAgentToken(ctx context.Context) error {
	all, err := s.services.Instance.Workspaces(ctx)
	if err != nil {
		return err
	}
	scope := domain.SystemScope(all[0].ID, "agent beside the server")
	agents, err := s.services.Agents.List(ctx, scope, domain.Page{Limit: 1})
	if err != nil {
		return err
	}
	own := agents.Items[0]
	if own.Session != "" {
		return fmt.Errorf("the agent %q runs on %s, with a token that replaced this server's; stop it there, or start the server with --no-local-agent", own.Name, own.Hostname)
	}
	_, fresh, err := s.services.Agents.RotateToken(ctx, scope, own.ID)
	if err != nil {
		return err
	}
	s.log.Info("the agent beside the server has a new token: the one in the data directory was not its own", "agent", own.ID)
	return s.keepAgentToken(fresh)
}

// agentRecord says what the agent is to be started with.
func (s *server) agentRecord() (agentRecord, error) {
	self, err := os.Executable()
	if err != nil {
		return agentRecord{}, err
	}
	binary, err := os.Stat(self)
	if err != nil {
		return agentRecord{}, err
	}
	args := []string{self, "agent", "--server", s.url, "--token-file", s.path(agentTokenFile), "--data-dir", s.path(agentDir), "--log-format", s.config.LogFormat}
	if s.config.AgentLogLimit > 0 {
		args = append(args, "--log-limit", fmt.Sprint(s.config.AgentLogLimit))
	}
	if s.config.AgentSlots > 0 {
		args = append(args, "--slots", fmt.Sprint(s.config.AgentSlots))
	}
	return agentRecord{Binary: fmt.Sprintf("%s %d %d", version, binary.Size(), binary.ModTime().UnixNano()), Args: args}, nil
}

// agentProcess is the agent, started by this server or by an earlier one.
type agentProcess struct {
	process *os.Process
	ended   chan error
}

func (a *agentProcess) stop() {
	_ = a.process.Signal(syscall.SIGTERM)
	select {
	case <-a.ended:
	case <-time.After(stopTime):
		_ = a.process.Kill()
		<-a.ended
	}
}

func (s *server) startAgent(r agentRecord) (*agentProcess, error) {
	out, err := local.OpenLog(s.path(agentLogFile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(r.Args[0], r.Args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl+C in the server's terminal is not for the agent
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &agentProcess{process: cmd.Process, ended: make(chan error, 1)}
	go func() { a.ended <- cmd.Wait() }()
	r.PID, r.Start = cmd.Process.Pid, local.ProcessStart(cmd.Process.Pid)
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(s.path(agentProcessFile), b, 0o600)
	}
	if err != nil {
		a.stop()
		return nil, err
	}
	return a, nil
}

// findAgent returns the agent that an earlier server started and that still runs; nil when there is none.
func (s *server) findAgent() (*agentProcess, agentRecord) {
	var r agentRecord
	b, err := os.ReadFile(s.path(agentProcessFile))
	if err != nil || json.Unmarshal(b, &r) != nil || r.Start == "" || local.ProcessStart(r.PID) != r.Start {
		return nil, r
	}
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return nil, r
	}
	a := &agentProcess{process: p, ended: make(chan error, 1)}
	go func() { // not a child of ours, so it cannot be waited for
		for local.ProcessStart(r.PID) == r.Start {
			<-time.After(adoptedPoll)
		}
		a.ended <- errors.New("the adopted agent has ended")
	}()
	return a, r
}
