package auth

import (
	"context"
	"strings"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// touchEvery is the precision of an API key's stored last use.
const touchEvery = time.Minute

func errEnded() error {
	return domain.Errorf(domain.CodeUnauthenticated, "The token is missing, expired or revoked; sign in again or refresh it.")
}

// Bearer returns the scope of a bearer token: an access token, an API key or a token derived from
// one, or the token of an agent, a run or a statement. It returns domain.CodeUnauthenticated for an
// invalid token.
func (s *Service) Bearer(ctx context.Context, token string) (domain.Scope, error) {
	scope, err := s.bearer(ctx, token)
	if domain.IsCode(err, domain.CodeNotFound) {
		return domain.Scope{}, errEnded()
	}
	return scope, err
}

func (s *Service) bearer(ctx context.Context, token string) (domain.Scope, error) {
	switch {
	case strings.HasPrefix(token, identity.APIKeyPrefix):
		return s.apiKey(ctx, token)
	case strings.HasPrefix(token, KeyTokenPrefix):
		return s.keyToken(ctx, strings.TrimPrefix(token, KeyTokenPrefix))
	case strings.HasPrefix(token, domain.AgentTokenPrefix):
		return s.agent(ctx, token)
	case strings.HasPrefix(token, RunTokenPrefix):
		return s.run(ctx, strings.TrimPrefix(token, RunTokenPrefix))
	case strings.HasPrefix(token, StatementTokenPrefix):
		return s.statement(ctx, writingStatement, strings.TrimPrefix(token, StatementTokenPrefix))
	case strings.HasPrefix(token, ReadingTokenPrefix):
		return s.statement(ctx, readingStatement, strings.TrimPrefix(token, ReadingTokenPrefix))
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
	return s.used(ctx, key, now)
}

// keyToken returns the scope of a token derived from an API key: the key's current rights, in the
// catalog only.
func (s *Service) keyToken(ctx context.Context, token string) (domain.Scope, error) {
	workspace, id, err := s.keys.parseKeyToken(ctx, token)
	if err != nil {
		return domain.Scope{}, errEnded()
	}
	now := s.clock.Now()
	key, err := s.store.APIKeyByID(ctx, workspace, id, now)
	if err != nil {
		return domain.Scope{}, err
	}
	scope, err := s.used(ctx, key, now)
	return scope.ForCatalog(), err
}

// used returns the scope of a key, and records its use.
func (s *Service) used(ctx context.Context, key Key, now time.Time) (domain.Scope, error) {
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

// run gives a task's process an editor's rights, whoever started the run: runs of an admin must not
// administer.
func (s *Service) run(ctx context.Context, token string) (domain.Scope, error) {
	id, err := s.keys.parseDerived(ctx, "run", token)
	if err != nil {
		return domain.Scope{}, errEnded()
	}
	ref, job, err := s.store.LiveAttempt(ctx, domain.AttemptID(id))
	if err != nil {
		return domain.Scope{}, err
	}
	actor := domain.Actor{Kind: domain.ActorRun, ID: id, Name: job}
	return domain.NewScope(ref.Workspace, actor, domain.RoleEditor), nil
}

// statement gives a statement's engine the statement's rights, or a viewer's rights if the token is
// read-only.
func (s *Service) statement(ctx context.Context, purpose, token string) (domain.Scope, error) {
	id, err := s.keys.parseDerived(ctx, purpose, token)
	if err != nil {
		return domain.Scope{}, errEnded()
	}
	ws, role, who, err := s.store.LiveStatement(ctx, domain.StatementID(id))
	if err != nil {
		return domain.Scope{}, err
	}
	if purpose == readingStatement {
		role = domain.RoleViewer
	}
	actor := domain.Actor{Kind: domain.ActorStatement, ID: id, Name: who}
	return domain.NewScope(ws, actor, role).ForCatalog(), nil
}
