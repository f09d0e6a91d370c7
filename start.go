package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millpond/millpond/domain"
)

// firstStart makes the first workspace, with its sample, on a new instance.
func (s *server) firstStart(ctx context.Context) error {
	all, err := s.services.Instance.Workspaces(ctx)
	if err != nil || len(all) > 0 {
		return err
	}
	ws, _, credentials, err := s.services.Instance.CreateWorkspace(ctx, s.config.Workspace)
	if domain.IsCode(err, domain.CodeConflict) {
		return nil // another replica was first
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.config.DataDir, agentTokenFile), []byte(credentials.AgentToken), 0o600); err != nil {
		return fmt.Errorf("keeping the agent's token: %w", err)
	}
	if !s.config.Samples {
		return nil
	}
	return s.services.Runs.CreateSample(ctx, domain.SystemScope(ws.ID, "sample"))
}

// greet prints where the platform is, and while nobody can sign in the one-time link for the first administrator.
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
