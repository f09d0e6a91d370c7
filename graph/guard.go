package graph

import (
	"context"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// credential is what a WebSocket was opened with: a bearer token, or the console's session if the
// token is empty.
type credential struct {
	token string
	scope domain.Scope
}

// initSocket authenticates the opener of the WebSocket, by connection_init's {"authorization":
// "Bearer …"} or by the upgrade request. An invalid credential closes it with 4401.
func (s *server) initSocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	cred, err := s.credential(ctx, payload)
	if err != nil {
		e := s.presenter.present(ctx, err)
		return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, short(e.Message)), closeCode(err)), nil, e
	}
	c := socketOf(ctx)
	c.spawn(func() { s.guard(ctx, c, cred) })
	known := auth.With(ctx, cred.scope) // not ctx, which the guard reads concurrently
	c.known(known)
	return known, &transport.InitPayload{"version": s.Version}, nil
}

func (s *server) credential(ctx context.Context, payload transport.InitPayload) (credential, error) {
	header := payload.Authorization()
	if header == "" {
		header = requestOf(ctx).authorization
	}
	if header == "" {
		scope, err := auth.From(ctx)
		return credential{scope: scope}, err
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return credential{}, domain.Errorf(domain.CodeUnauthenticated, `Send the token as {"authorization": "Bearer <token>"}.`)
	}
	token = strings.TrimSpace(token)
	scope, err := s.bearer(ctx, token)
	return credential{token: token, scope: scope}, err
}

// bearer accepts the callers of auth's bearer tokens, except agents.
func (s *server) bearer(ctx context.Context, token string) (domain.Scope, error) {
	scope, err := s.Auth.Bearer(ctx, token)
	if err != nil {
		return domain.Scope{}, err
	}
	return auth.From(auth.With(ctx, scope))
}

// closeCode is 4401 for an invalid credential. If the check failed, it makes the client reconnect.
func closeCode(err error) int {
	switch {
	case domain.IsCode(err, domain.CodeUnauthenticated):
		return closeUnauthenticated
	case domain.IsCode(err, domain.CodeForbidden):
		return closeForbidden
	}
	return closeTryAgain
}

// guard closes the WebSocket as soon as its credential ends, or its rights change.
func (s *server) guard(ctx context.Context, c *socket, cred credential) {
	actor := cred.scope.Actor()
	wake, stop := s.Topics.Subscribe(domain.SessionTopic(actor.Session), domain.APIKeyTopic(domain.APIKeyID(actor.ID)))
	defer stop()
	tick := time.NewTicker(s.timing.recheck)
	defer tick.Stop()
	for {
		if reason := s.ended(ctx, cred); reason != "" {
			c.end(closeUnauthenticated, reason)
			return
		}
		select {
		case <-wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ended returns why the credential is no longer valid. A database that does not answer ends no
// session.
func (s *server) ended(ctx context.Context, cred credential) string {
	role, err := s.role(ctx, cred)
	switch {
	case domain.IsCode(err, domain.CodeUnauthenticated) || domain.IsCode(err, domain.CodeForbidden):
		return "The session has ended."
	case err == nil && role != cred.scope.Role():
		return "The role has changed."
	}
	return ""
}

func (s *server) role(ctx context.Context, cred credential) (domain.Role, error) {
	if cred.token != "" {
		scope, err := s.bearer(ctx, cred.token)
		return scope.Role(), err
	}
	session, err := s.Auth.Session(ctx, cred.scope)
	return session.Role, err
}

// short cuts a reason to the length of a close frame.
func short(reason string) string {
	const most = 120
	if len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:most], "")
}
