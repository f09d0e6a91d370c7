package auth

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Exchange returns a fresh token with the same rights for a valid credential, for clients that
// renew tokens. For an API key, or a token derived from one, it is a catalog token of the key. For
// an access token it is the session's next one. A run's or a statement's token is returned
// unchanged: it is valid as long as that lives. life says when to renew. It returns
// domain.CodeUnauthenticated for an invalid credential.
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
