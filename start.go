package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/store"
)

// agentToken is the file with the token of the agent beside the server.
type agentToken struct {
	file     string
	own      bool // the database is embedded, so the agent belongs to this server
	system   *store.System
	instance *setup.Instance
	agents   *job.Agents
	log      *slog.Logger
}

// ensure ensures that the token in the file is the agent's. A first start may have been cut off
// before it stored the token, or somebody may have replaced the token since. An agent that belongs
// to this server gets a new token, unless somebody runs that agent elsewhere.
func (t agentToken) ensure(ctx context.Context) error {
	token, err := os.ReadFile(t.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, _, err = t.system.Agent(ctx, domain.HashSecret(strings.TrimSpace(string(token))))
	if !domain.IsCode(err, domain.CodeNotFound) {
		return err
	}
	if !t.own {
		return fmt.Errorf("%s does not hold an agent's token; replace the token on the console's Agents page and write the new one there", t.file)
	}
	return t.replace(ctx)
}

func (t agentToken) replace(ctx context.Context) error {
	all, err := t.instance.Workspaces(ctx)
	if err != nil {
		return err
	}
	scope := domain.SystemScope(all[0].ID, "agent beside the server")
	agents, err := t.agents.List(ctx, scope, domain.Page{Limit: 1})
	if err != nil {
		return err
	}
	agent := agents.Items[0]
	if agent.Session != "" {
		return fmt.Errorf("the agent %q runs on %s, with a token that replaced this server's; stop it there, or start the server with --no-local-agent", agent.Name, agent.Hostname)
	}
	_, fresh, err := t.agents.RotateToken(ctx, scope, agent.ID)
	if err != nil {
		return err
	}
	t.log.Info("the agent beside the server has a new token: the one in the data directory was not its own", "agent", agent.ID)
	return t.store(fresh)
}

func (t agentToken) store(token string) error {
	if err := os.WriteFile(t.file, []byte(token), 0o600); err != nil {
		return fmt.Errorf("storing the agent's token: %w", err)
	}
	return nil
}

// firstStart creates the first workspace with its sample on a new instance. If a start was cut off,
// the next one, here or on another replica, creates the missing sample. agentToken.ensure replaces
// a token that was not stored.
func (s *server) firstStart(ctx context.Context) error {
	var err error
	_ = retry(ctx, s.log, "the database does not answer at the start", func() error {
		if err = s.tryFirstStart(ctx); domain.IsCode(err, domain.CodeUnavailable) {
			return err
		}
		return nil
	})
	return err
}

func (s *server) tryFirstStart(ctx context.Context) error {
	all, err := s.services.Instance.Workspaces(ctx)
	if err == nil && len(all) == 0 {
		all, err = s.firstWorkspace(ctx)
	}
	if err != nil {
		return err
	}
	return s.services.Samples.Create(ctx, domain.SystemScope(all[0].ID, "sample"), len(s.machines.Providers) > 0)
}

func (s *server) firstWorkspace(ctx context.Context) ([]identity.Workspace, error) {
	ws, _, credentials, err := s.services.Instance.CreateFirstWorkspace(ctx, s.config.Workspace, s.config.Samples)
	if domain.IsCode(err, domain.CodeConflict) { // another replica was first
		return s.services.Instance.Workspaces(ctx)
	}
	if err != nil {
		return nil, err
	}
	return []identity.Workspace{ws}, s.token.store(credentials.AgentToken)
}

// greet prints the platform's address and, while nobody can sign in, the first administrator's
// one-time link.
func (s *server) greet(ctx context.Context) {
	fmt.Printf("Millpond listens on %s\n", s.url)
	needs, err := s.services.Instance.NeedsSetUp(ctx)
	if err != nil || !needs {
		return
	}
	all, err := s.services.Instance.Workspaces(ctx)
	if err != nil || len(all) == 0 {
		return
	}
	token, err := s.services.Instance.InviteAdmin(ctx, all[0].ID)
	if err != nil {
		s.log.Error("making the one-time link", "error", err)
		return
	}
	fmt.Printf("Set the administrator's password: %s\n", setUpURL(s.url, token))
}
