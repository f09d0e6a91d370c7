package auth_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/store"
)

// watchedStore reports each check of a credential, after it was read, and can be away.
type watchedStore struct {
	auth.Store
	away   atomic.Bool
	checks chan struct{}
}

func (w *watchedStore) checked(ctx context.Context, err error) error {
	select {
	case w.checks <- struct{}{}:
	case <-ctx.Done():
	}
	if w.away.Load() {
		return errors.New("the database is away")
	}
	return err
}

func (w *watchedStore) Session(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, now time.Time) (auth.Session, error) {
	session, err := w.Store.Session(ctx, ws, id, now)
	return session, w.checked(ctx, err)
}

func (w *watchedStore) APIKey(ctx context.Context, hash []byte, now time.Time) (auth.Key, error) {
	key, err := w.Store.APIKey(ctx, hash, now)
	return key, w.checked(ctx, err)
}

// watched is a member with a key of their own.
type watched struct {
	i      *instance
	admin  domain.Scope
	scope  domain.Scope
	token  string
	key    identity.APIKey
	secret string
	store  *watchedStore
}

func (i *instance) watched(admin domain.Scope) watched {
	in := i.member(admin, rand.Text(), domain.RoleEditor)
	w := watched{i: i, admin: admin, scope: i.scope(in.Token), token: in.Token, store: &watchedStore{Store: i.store.System(), checks: make(chan struct{})}}
	expires := i.clock.Now().Add(time.Hour)
	var err error
	w.key, w.secret, err = i.apiKeys.Create(i.t.Context(), w.scope, identity.NewAPIKey{Name: "ci", Role: domain.RoleEditor, ExpiresAt: &expires})
	require.NoError(i.t, err)
	return w
}

func (w watched) bySession() auth.Credential { return auth.Credential{Scope: w.scope} }
func (w watched) byToken() auth.Credential   { return auth.Credential{Scope: w.scope, Token: w.token} }

func (w watched) byKey() auth.Credential {
	return auth.Credential{Scope: w.i.scope(w.secret), Token: w.secret}
}

func (w watched) nothing(context.Context) error { return nil }

func (w watched) logout(ctx context.Context) error { return w.i.auth.Logout(ctx, w.scope) }

func (w watched) revoke(ctx context.Context) error {
	_, err := w.i.apiKeys.Revoke(ctx, w.scope, w.key.ID)
	return err
}

func (w watched) remove(ctx context.Context) error {
	return w.i.members.Remove(ctx, w.admin, w.scope.UserID())
}

func (w watched) demote(ctx context.Context) error {
	_, err := w.i.members.Update(ctx, w.admin, w.scope.UserID(), domain.RoleViewer)
	return err
}

func (w watched) hour(context.Context) error { w.i.clock.move(time.Hour); return nil }

func (w watched) month(context.Context) error { w.i.clock.move(auth.SessionLife); return nil }

func (w watched) outage(context.Context) error { w.store.away.Store(true); return nil }

func TestAWatchEndsWithItsCredential(t *testing.T) {
	type credential = func(watched) auth.Credential
	type event = func(watched, context.Context) error
	const ended, changed, goesOn = "The session has ended.", "The role has changed.", ""
	const noTick, ticks = time.Hour, time.Millisecond // without a tick, only a notification ends it
	i := newInstance(t)
	_, admin, _ := i.workspace("one")
	for name, c := range map[string]struct {
		of       credential
		sameRole bool
		recheck  time.Duration
		then     event
		want     string
	}{
		"a session ends":                {watched.bySession, true, noTick, watched.logout, ended},
		"an access token's session":     {watched.byToken, true, noTick, watched.logout, ended},
		"a key is revoked":              {watched.byKey, true, noTick, watched.revoke, ended},
		"a member is removed":           {watched.bySession, false, ticks, watched.remove, ended},
		"a key's maker is removed":      {watched.byKey, false, ticks, watched.remove, ended},
		"a session expires":             {watched.bySession, false, ticks, watched.month, ended},
		"an access token expires":       {watched.byToken, false, ticks, watched.hour, ended},
		"its session lives on":          {watched.bySession, false, ticks, watched.hour, goesOn},
		"a key expires":                 {watched.byKey, false, ticks, watched.hour, ended},
		"a session's role changes":      {watched.bySession, true, ticks, watched.demote, changed},
		"an access token's role":        {watched.byToken, true, ticks, watched.demote, changed},
		"a key's role":                  {watched.byKey, true, ticks, watched.demote, changed},
		"any role will do":              {watched.byKey, false, ticks, watched.demote, goesOn},
		"a session is still good":       {watched.bySession, true, ticks, watched.nothing, goesOn},
		"a key is, when a session ends": {watched.byKey, true, ticks, watched.logout, goesOn},
		"a session, and the store away": {watched.bySession, true, ticks, watched.outage, goesOn},
		"a key, and the store away":     {watched.byKey, true, ticks, watched.outage, goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			w := i.watched(admin)
			service := auth.NewService(w.store, store.For[domain.Tx](i.store), i.keys, nil, i.clock)
			service.Recheck = c.recheck
			credential := c.of(w)
			credential.SameRole = c.sameRole
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			end := make(chan error, 1)
			go func() { end <- service.Watch(ctx, credential) }()
			for checks := 0; ; {
				select {
				case <-w.store.checks:
					checks++
					switch {
					case checks == 1:
						require.NoError(t, c.then(w, ctx))
					case checks == 4 && c.want == goesOn: // the second may have begun before
						cancel()
					}
				case err := <-end:
					require.Positive(t, checks, "it ended before anything happened: %v", err)
					if c.want == goesOn {
						require.NoError(t, err)
						require.ErrorIs(t, ctx.Err(), context.Canceled, "it went on until it was stopped")
						return
					}
					require.Equal(t, domain.CodeUnauthenticated, code(err))
					require.Equal(t, c.want, domain.AsError(err).Message)
					return
				}
			}
		})
	}
}
