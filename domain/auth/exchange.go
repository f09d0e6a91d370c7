package auth

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Exchange gives a fresh token for a credential that holds, with the same rights, for clients that renew theirs: for an API key, or what stands for one,
// a token that stands for the key in the catalog of tables; for an access token the session's next one. A run's or a statement's token is good for as long as that lives, and is
// its own next one. The time says when to renew. Anything that does not hold is domain.CodeUnauthenticated.
func (s *Service) Exchange(ctx context.Context, credential string) (token string, life time.Duration, err error) {
	scope, err := s.Bearer(ctx, credential)
	if err != nil {
		return "", 0, err
	}
	switch scope.Actor().Kind {
	case domain.ActorAPIKey:
		return s.keys.keyToken(scope.Workspace(), domain.APIKeyID(scope.Actor().ID), s.clock.Now().Add(KeyTokenLife)), KeyTokenLife, nil
	case domain.ActorUser:
		token, err = s.Refresh(ctx, scope)
		return token, AccessTokenLife, err
	case domain.ActorRun, domain.ActorStatement:
		return credential, KeyTokenLife, nil
	}
	return "", 0, errEnded()
}
