package auth

import (
	"context"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
)

// touchEvery is how exact an API key's last use is kept.
const touchEvery = time.Minute

func errEnded() error {
	return domain.Errorf(domain.CodeUnauthenticated, "The token is missing, expired or revoked; sign in again or refresh it.")
}

// Bearer returns the scope of a bearer token: an access token, an API key, an agent's or a run's token. Anything that does not hold is
// domain.CodeUnauthenticated.
func (s *Service) Bearer(ctx context.Context, token string) (domain.Scope, error) {
	scope, err := s.bearer(ctx, token)
	if domain.IsCode(err, domain.CodeNotFound) {
		return domain.Scope{}, errEnded()
	}
	return scope, err
}

func (s *Service) bearer(ctx context.Context, token string) (domain.Scope, error) {
	switch {
	case strings.HasPrefix(token, domain.APIKeyPrefix):
		return s.apiKey(ctx, token)
	case strings.HasPrefix(token, domain.AgentTokenPrefix):
		return s.agent(ctx, token)
	case strings.HasPrefix(token, RunTokenPrefix):
		return s.run(ctx, token)
	}
	c, err := s.keys.parseAccessToken(ctx, token)
	if err != nil {
		return domain.Scope{}, errEnded()
	}
	session, err := s.store.Session(ctx, c.Workspace, c.Session, s.clock.Now())
	if err != nil {
		return domain.Scope{}, err
	}
	return userScope(session), nil
}

// Cookie returns the scope of a console cookie's value.
func (s *Service) Cookie(ctx context.Context, secret string) (domain.Scope, error) {
	session, err := s.store.SessionBySecret(ctx, domain.HashSecret(secret), s.clock.Now())
	if domain.IsCode(err, domain.CodeNotFound) {
		return domain.Scope{}, errEnded()
	}
	if err != nil {
		return domain.Scope{}, err
	}
	return userScope(session), nil
}

func userScope(s Session) domain.Scope {
	actor := domain.Actor{Kind: domain.ActorUser, ID: string(s.User.ID), Name: s.User.Email, Session: s.ID}
	return domain.NewScope(s.Workspace, actor, s.Role)
}

func (s *Service) apiKey(ctx context.Context, token string) (domain.Scope, error) {
	now := s.clock.Now()
	key, err := s.store.APIKey(ctx, domain.HashSecret(token), now)
	if err != nil {
		return domain.Scope{}, err
	}
	if key.LastUsedAt == nil || now.Sub(*key.LastUsedAt) >= touchEvery {
		if err := s.store.TouchAPIKey(ctx, key.Workspace, key.ID, now); err != nil {
			return domain.Scope{}, err
		}
	}
	actor := domain.Actor{Kind: domain.ActorAPIKey, ID: string(key.ID), Name: key.Name}
	return domain.NewScope(key.Workspace, actor, key.Role), nil
}

func (s *Service) agent(ctx context.Context, token string) (domain.Scope, error) {
	ref, name, err := s.store.Agent(ctx, domain.HashSecret(token))
	if err != nil {
		return domain.Scope{}, err
	}
	actor := domain.Actor{Kind: domain.ActorAgent, ID: string(ref.Agent), Name: name}
	return domain.NewScope(ref.Workspace, actor, domain.RoleAgent), nil
}

// run gives a task's process the rights of an editor, whoever started the run: an admin's runs do not administer.
func (s *Service) run(ctx context.Context, token string) (domain.Scope, error) {
	id, err := s.keys.parseRunToken(ctx, token)
	if err != nil {
		return domain.Scope{}, errEnded()
	}
	ref, job, err := s.store.LiveAttempt(ctx, id)
	if err != nil {
		return domain.Scope{}, err
	}
	actor := domain.Actor{Kind: domain.ActorRun, ID: string(id), Name: job}
	return domain.NewScope(ref.Workspace, actor, domain.RoleEditor), nil
}
