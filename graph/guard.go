package graph

import (
	"context"
	"strings"

	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// initSocket authenticates the opener of the WebSocket, by connection_init's {"authorization":
// "Bearer …"} or by the upgrade request. An invalid credential closes it with 4401.
func (s *server) initSocket(ctx context.Context, payload transport.InitPayload) (context.Context, *transport.InitPayload, error) {
	cred, err := s.credential(ctx, payload)
	if err != nil {
		e := s.presenter.present(ctx, err)
		return transport.WithWebsocketCloseCode(transport.AppendCloseReason(ctx, short(e.Message)), closeCode(err)), nil, e
	}
	c := socketOf(ctx)
	c.spawn(func() {
		if err := s.Auth.Watch(ctx, cred); err != nil {
			c.end(closeUnauthenticated, domain.AsError(err).Message)
		}
	})
	known := auth.With(ctx, cred.Scope) // not ctx, which the watch reads concurrently
	c.known(known)
	return known, &transport.InitPayload{"version": s.Version}, nil
}

// credential is the bearer token, or the console's session. The WebSocket closes when its rights
// change.
func (s *server) credential(ctx context.Context, payload transport.InitPayload) (auth.Credential, error) {
	header := payload.Authorization()
	if header == "" {
		header = requestOf(ctx).authorization
	}
	if header == "" {
		scope, err := auth.From(ctx)
		return auth.Credential{Scope: scope, SameRole: true}, err
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return auth.Credential{}, domain.Errorf(domain.CodeUnauthenticated, `Send the token as {"authorization": "Bearer <token>"}.`)
	}
	token = strings.TrimSpace(token)
	scope, err := s.bearer(ctx, token)
	return auth.Credential{Scope: scope, Token: token, SameRole: true}, err
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

// short cuts a reason to the length of a close frame.
func short(reason string) string {
	const most = 120
	if len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:most], "")
}
