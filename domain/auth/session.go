package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
)

// SessionLife is how long a session lasts at most; refreshing does not prolong it.
const SessionLife = 30 * 24 * time.Hour

// Failed logins allowed in a minute, by address and by e-mail.
const (
	failuresByAddress = 20
	failuresByEmail   = 10
)

// Service signs people in and out, and recognises every kind of credential.
type Service struct {
	store   Store
	tenants domain.Store
	clock   domain.Clock
	keys    *Keys
	hashing hashing

	byAddress, byEmail failures
}

// NewService makes the service.
func NewService(store Store, tenants domain.Store, keys *Keys, clock domain.Clock) *Service {
	return &Service{
		store: store, tenants: tenants, clock: clock, keys: keys, hashing: newHashing(),
		byAddress: newFailures(failuresByAddress),
		byEmail:   newFailures(failuresByEmail),
	}
}

// Login is what somebody signs in with.
type Login struct {
	Email     string
	Password  string
	Workspace string // id or name; needed by those who belong to several
	Address   string // the client's, for the rate limit
}

// SignedIn is a session that was just opened.
type SignedIn struct {
	Session Session
	Token   string // access token
	Secret  string // value of the console's cookie
}

// errCredentials is the same for an unknown e-mail and a wrong password.
func errCredentials() error {
	return domain.Errorf(domain.CodeUnauthenticated, "The e-mail or the password is wrong.")
}

// Login opens a session. An unknown e-mail takes as long as a wrong password and has the same error; too many failures in a
// minute are domain.CodeRate.
func (s *Service) Login(ctx context.Context, in Login) (SignedIn, error) {
	email, err := domain.NormalizeEmail(in.Email)
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

// attempt counts somebody's try of a password or of a link, unless there were too many failures.
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

// refused leaves an audit row in the workspaces of a user who exists.
func (s *Service) refused(ctx context.Context, user domain.User) error {
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

// failed leaves an audit row of what the scope's user did not succeed in.
func (s *Service) failed(ctx context.Context, scope domain.Scope, a domain.Action) error {
	row := domain.NewAudit(scope, a, domain.OutcomeFailure, "session", "", "")
	return s.tenants.In(ctx, scope, func(tx domain.Tx) error { return tx.InsertAudit(ctx, row) })
}

// choose finds the workspace by its id or name; without one there must be no choice.
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

func (s *Service) open(ctx context.Context, user domain.User, m Membership) (SignedIn, error) {
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

// newSession makes a session of nobody's yet, and the value of its cookie.
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

// succeeded is the audit row of what was done to the scope's session.
func succeeded(scope domain.Scope, a domain.Action) domain.AuditEvent {
	return domain.NewAudit(scope, a, domain.OutcomeSuccess, "session", string(scope.Actor().Session), "")
}

func randomSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Refresh gives the session of the scope a fresh access token. The session's end stays where it is.
func (s *Service) Refresh(ctx context.Context, scope domain.Scope) (string, error) {
	session, err := s.Session(ctx, scope)
	if err != nil {
		return "", err
	}
	return s.keys.accessToken(session, s.clock.Now())
}

// Session returns the scope's session; domain.CodeForbidden when it has none, as with an API key.
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

// Logout ends the session of the scope at once, everywhere.
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
func (s *Service) ChangePassword(ctx context.Context, scope domain.Scope, current, next string) (domain.User, error) {
	session, err := s.Session(ctx, scope)
	if err != nil {
		return domain.User{}, err
	}
	if err := validPassword("new", next); err != nil {
		return domain.User{}, err
	}
	end, err := s.attempt("", session.User.Email)
	if err != nil {
		return domain.User{}, err
	}
	_, hash, err := s.store.UserByEmail(ctx, session.User.Email)
	if err != nil {
		end(true)
		return domain.User{}, err
	}
	matches, err := s.matches(ctx, current, hash)
	end(matches || err != nil)
	if err != nil {
		return domain.User{}, err
	}
	if !matches {
		return domain.User{}, domain.Invalid("current", "The current password is wrong.")
	}
	if hash, err = s.hashing.hash(ctx, next); err != nil {
		return domain.User{}, err
	}
	return session.User, s.store.SetPassword(ctx, session, hash, s.clock.Now(), succeeded(scope, domain.PasswordChange))
}
