package main

import (
	"context"
	"fmt"
	"os"

	"github.com/millpond/millpond/domain"
)

// firstStart makes the first workspace, with its sample, on a new instance. A start may be cut off anywhere: the next one, here or on another
// replica, makes the sample that is still to be made, and superviseAgent the token that was not kept.
func (s *server) firstStart(ctx context.Context) error {
	all, err := s.services.Instance.Workspaces(ctx)
	if err == nil && len(all) == 0 {
		all, err = s.firstWorkspace(ctx)
	}
	if err != nil {
		return err
	}
	return s.services.Runs.CreateSample(ctx, domain.SystemScope(all[0].ID, "sample"), len(s.reconciler.Providers) > 0)
}

func (s *server) firstWorkspace(ctx context.Context) ([]domain.Workspace, error) {
	ws, _, credentials, err := s.services.Instance.CreateFirstWorkspace(ctx, s.config.Workspace, s.config.Samples)
	if domain.IsCode(err, domain.CodeConflict) { // another replica was first
		return s.services.Instance.Workspaces(ctx)
	}
	if err != nil {
		return nil, err
	}
	return []domain.Workspace{ws}, s.keepAgentToken(credentials.AgentToken)
}

func (s *server) keepAgentToken(token string) error {
	if err := os.WriteFile(s.path(agentTokenFile), []byte(token), 0o600); err != nil {
		return fmt.Errorf("keeping the agent's token: %w", err)
	}
	return nil
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
