package auth

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// recheckEvery bounds how long a followed log or a WebSocket outlives a credential that expires:
// an expiry sends no notification.
const recheckEvery = 20 * time.Second

// Credential is what a long answer or connection was opened with.
type Credential struct {
	Scope    domain.Scope
	Token    string // bearer token; if empty, the scope's session is checked
	SameRole bool   // a change of the scope's role ends it too
}

// Watch waits until the credential ends, and returns why. It notices the end of a session or of an
// API key at once; an expiry, a changed role or a run's end at the next check. It returns nil if
// ctx ends first.
func (s *Service) Watch(ctx context.Context, c Credential) error {
	actor := c.Scope.Actor()
	wake, stop := s.store.Subscribe(domain.SessionTopic(actor.Session), domain.APIKeyTopic(domain.APIKeyID(actor.ID)))
	defer stop()
	tick := time.NewTicker(s.Recheck)
	defer tick.Stop()
	for { // checked first: the credential may have ended since it was recognised
		if err := s.ended(ctx, c); err != nil {
			return err
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ended returns why the credential is no longer valid. A database that does not answer ends none.
func (s *Service) ended(ctx context.Context, c Credential) error {
	role, err := s.role(ctx, c)
	switch {
	case domain.IsCode(err, domain.CodeUnauthenticated) || domain.IsCode(err, domain.CodeForbidden):
		return domain.Errorf(domain.CodeUnauthenticated, "The session has ended.")
	case err == nil && c.SameRole && role != c.Scope.Role():
		return domain.Errorf(domain.CodeUnauthenticated, "The role has changed.")
	}
	return nil
}

func (s *Service) role(ctx context.Context, c Credential) (domain.Role, error) {
	if c.Token != "" {
		scope, err := s.Bearer(ctx, c.Token)
		return scope.Role(), err
	}
	session, err := s.Session(ctx, c.Scope)
	return session.Role, err
}
