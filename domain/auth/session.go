package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/quota"
)

// SessionLife is the lifetime of a session; refreshing does not extend it.
const SessionLife = 30 * 24 * time.Hour

// Failed logins allowed in a minute, by address and by e-mail.
const (
	failuresByAddress = 20
	failuresByEmail   = 10
)

// Service signs users in and out, and authenticates every kind of credential.
type Service struct {
	Recheck time.Duration // between Watch's checks, besides the notification of a credential's end

	store    Store
	tenants  domain.Store[domain.Tx]
	clock    domain.Clock
	keys     *Keys
	hashing  hashing
	requests *quota.Requests

	byAddress, byEmail failures
}

// NewService returns the service.
func NewService(store Store, tenants domain.Store[domain.Tx], keys *Keys, requests *quota.Requests, clock domain.Clock) *Service {
	return &Service{
		store: store, tenants: tenants, clock: clock, keys: keys, requests: requests, hashing: newHashing(), Recheck: recheckEvery,
		byAddress: newFailures(failuresByAddress),
		byEmail:   newFailures(failuresByEmail),
	}
}

// Login is the input of Service.Login.
type Login struct {
	Email     string
	Password  string
	Workspace string // id or name; required for members of several
	Address   string // the client's, for the rate limit
}

// SignedIn is a new session.
type SignedIn struct {
	Session Session
	Token   string // access token
	Secret  string // value of the console's cookie
}

// errCredentials is the same error for an unknown e-mail and a wrong password.
func errCredentials() error {
	return domain.Errorf(domain.CodeUnauthenticated, "The e-mail or the password is wrong.")
}

// Login opens a session. An unknown e-mail takes as long as a wrong password and returns the same
// error. After too many failures in a minute it returns domain.CodeRate.
func (s *Service) Login(ctx context.Context, in Login) (SignedIn, error) {
	email, err := identity.NormalizeEmail(in.Email)
	if err != nil {
		return SignedIn{}, err
	}
	end, err := s.attempt(in.Address, email)
	if err != nil {
		return SignedIn{}, err
	}
	user, hash, err := s.store.UserByEmail(ctx, email)
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		end(true)
		return SignedIn{}, err
	}
	matches, err := s.matches(ctx, in.Password, hash)
	end(matches || err != nil)
	if err != nil {
		return SignedIn{}, err
	}
	if !matches {
		return SignedIn{}, s.refused(ctx, user)
	}
	memberships, err := s.store.Memberships(ctx, user.ID)
	if err != nil {
		return SignedIn{}, err
	}
	m, err := choose(memberships, in.Workspace)
	if err != nil {
		return SignedIn{}, err
	}
	return s.open(ctx, user, m)
}

func (s *Service) matches(ctx context.Context, password, hash string) (bool, error) {
	if len(password) > maxPassword {
		return false, nil
	}
	return s.hashing.matches(ctx, password, hash)
}

// attempt counts a try of a password or a link, or returns domain.CodeRate after too many failures.
func (s *Service) attempt(address, email string) (end func(succeeded bool), err error) {
	now := s.clock.Now()
	byAddress, err := s.byAddress.begin(address, now)
	if err != nil {
		return nil, err
	}
	byEmail, err := s.byEmail.begin(email, now)
	if err != nil {
		byAddress(true)
		return nil, err
	}
	return func(succeeded bool) {
		byAddress(succeeded)
		byEmail(succeeded)
	}, nil
}

// refused writes an audit row to each workspace of an existing user.
func (s *Service) refused(ctx context.Context, user identity.User) error {
	if user.ID == "" {
		return errCredentials()
	}
	memberships, err := s.store.Memberships(ctx, user.ID)
	if err != nil {
		return err
	}
	for _, m := range memberships {
		scope := userScope(Session{Workspace: m.Workspace, User: user, Role: m.Role})
		if err := s.failed(ctx, scope, domain.SessionLogin); err != nil {
			return err
		}
	}
	return errCredentials()
}

// failed writes the audit row of a failure of the scope's user.
func (s *Service) failed(ctx context.Context, scope domain.Scope, a domain.Action) error {
	row := domain.NewAudit(scope, a, domain.OutcomeFailure, "session", "", "")
	return s.tenants.In(ctx, scope, func(tx domain.Tx) error { return tx.InsertAudit(ctx, row) })
}

// choose finds the workspace by its id or name. Without one, the user must have exactly one
// workspace.
func choose(memberships []Membership, workspace string) (Membership, error) {
	var names string
	for _, m := range memberships {
		if workspace == string(m.Workspace) || workspace == m.Name || workspace == "" && len(memberships) == 1 {
			return m, nil
		}
		names += ", " + m.Name
	}
	switch {
	case len(memberships) == 0:
		return Membership{}, domain.Errorf(domain.CodeForbidden, "You are not a member of any workspace; open the link of an invitation, or ask an admin for one.")
	case workspace == "":
		return Membership{}, domain.Invalid("workspace", "You belong to several workspaces; name one of them: %s.", names[2:])
	}
	return Membership{}, domain.Invalid("workspace", "You do not belong to the workspace %q; yours: %s.", workspace, names[2:])
}

func (s *Service) open(ctx context.Context, user identity.User, m Membership) (SignedIn, error) {
	n, secret, err := s.newSession()
	if err != nil {
		return SignedIn{}, err
	}
	n.Workspace, n.User = m.Workspace, user.ID
	session := Session{ID: n.ID, Workspace: m.Workspace, User: user, Role: m.Role, ExpiresAt: n.ExpiresAt}
	if err := s.store.InsertSession(ctx, n, succeeded(userScope(session), domain.SessionLogin)); err != nil {
		return SignedIn{}, err
	}
	return s.signedIn(session, secret)
}

// newSession returns a session without a user, and the value of its cookie.
func (s *Service) newSession() (NewSession, string, error) {
	id, err := typeid.WithPrefix("ses")
	if err != nil {
		return NewSession{}, "", err
	}
	now, secret := s.clock.Now(), randomSecret()
	return NewSession{ID: domain.SessionID(id.String()), Secret: domain.HashSecret(secret), CreatedAt: now, ExpiresAt: now.Add(SessionLife)}, secret, nil
}

func (s *Service) signedIn(session Session, secret string) (SignedIn, error) {
	token, err := s.keys.accessToken(session, s.clock.Now())
	return SignedIn{Session: session, Token: token, Secret: secret}, err
}

// succeeded returns the audit row of a success of the scope's session.
func succeeded(scope domain.Scope, a domain.Action) domain.AuditEvent {
	return domain.NewAudit(scope, a, domain.OutcomeSuccess, "session", string(scope.Actor().Session), "")
}

func randomSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Refresh returns a fresh access token for the scope's session. It does not extend the session.
func (s *Service) Refresh(ctx context.Context, scope domain.Scope) (string, error) {
	session, err := s.Session(ctx, scope)
	if err != nil {
		return "", err
	}
	return s.keys.accessToken(session, s.clock.Now())
}

// Session returns the scope's session, or domain.CodeForbidden if it has none, as with an API key.
func (s *Service) Session(ctx context.Context, scope domain.Scope) (Session, error) {
	if scope.Actor().Session == "" {
		return Session{}, domain.Errorf(domain.CodeForbidden, "This needs a session: sign in with e-mail and password.")
	}
	session, err := s.store.Session(ctx, scope.Workspace(), scope.Actor().Session, s.clock.Now())
	if domain.IsCode(err, domain.CodeNotFound) {
		return Session{}, errEnded()
	}
	return session, err
}

// Logout ends the scope's session at once, on all replicas.
func (s *Service) Logout(ctx context.Context, scope domain.Scope) error {
	session, err := s.Session(ctx, scope)
	if err != nil {
		return err
	}
	err = s.store.EndSession(ctx, session.Workspace, session.ID, s.clock.Now(), succeeded(scope, domain.SessionLogout))
	if domain.IsCode(err, domain.CodeNotFound) {
		return errEnded()
	}
	return err
}

// ChangePassword sets a new password and ends the user's other sessions.
func (s *Service) ChangePassword(ctx context.Context, scope domain.Scope, current, next string) (identity.User, error) {
	session, err := s.Session(ctx, scope)
	if err != nil {
		return identity.User{}, err
	}
	if err := validPassword("new", next); err != nil {
		return identity.User{}, err
	}
	end, err := s.attempt("", session.User.Email)
	if err != nil {
		return identity.User{}, err
	}
	_, hash, err := s.store.UserByEmail(ctx, session.User.Email)
	if err != nil {
		end(true)
		return identity.User{}, err
	}
	matches, err := s.matches(ctx, current, hash)
	end(matches || err != nil)
	if err != nil {
		return identity.User{}, err
	}
	if !matches {
		return identity.User{}, domain.Invalid("current", "The current password is wrong.")
	}
	if hash, err = s.hashing.hash(ctx, next); err != nil {
		return identity.User{}, err
	}
	return session.User, s.store.SetPassword(ctx, session, hash, s.clock.Now(), succeeded(scope, domain.PasswordChange))
}
