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
	matches := len(in.Password) <= maxPassword && s.hashing.matches(in.Password, hash)
	end(matches)
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
	return s.open(ctx, user, m, domain.SessionLogin)
}

// attempt counts somebody's try of a password, unless there were too many failures.
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
		if err := s.audit(ctx, scope, domain.SessionLogin, domain.OutcomeFailure, ""); err != nil {
			return err
		}
	}
	return errCredentials()
}

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
		return Membership{}, domain.Errorf(domain.CodeForbidden, "You are not a member of any workspace; ask an admin to add you.")
	case workspace == "":
		return Membership{}, domain.Invalid("workspace", "You belong to several workspaces; name one of them: %s.", names[2:])
	}
	return Membership{}, domain.Invalid("workspace", "You do not belong to the workspace %q; yours: %s.", workspace, names[2:])
}

func (s *Service) open(ctx context.Context, user domain.User, m Membership, action domain.Action) (SignedIn, error) {
	id, err := typeid.WithPrefix("ses")
	if err != nil {
		return SignedIn{}, err
	}
	now := s.clock.Now()
	session := Session{ID: domain.SessionID(id.String()), Workspace: m.Workspace, User: user, Role: m.Role, ExpiresAt: now.Add(SessionLife)}
	secret := randomSecret()
	err = s.store.InsertSession(ctx, NewSession{
		ID: session.ID, Workspace: m.Workspace, User: user.ID, Secret: domain.HashSecret(secret), CreatedAt: now, ExpiresAt: session.ExpiresAt,
	})
	if err != nil {
		return SignedIn{}, err
	}
	token, err := s.keys.accessToken(session, now)
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{Session: session, Token: token, Secret: secret}, s.audit(ctx, userScope(session), action, domain.OutcomeSuccess, "")
}

func randomSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func (s *Service) audit(ctx context.Context, scope domain.Scope, a domain.Action, o domain.Outcome, detail string) error {
	return s.tenants.In(ctx, scope, func(tx domain.Tx) error {
		return tx.InsertAudit(ctx, domain.NewAudit(scope, a, o, "session", string(scope.Actor().Session), detail))
	})
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
	if err := s.store.EndSession(ctx, session.Workspace, session.ID, s.clock.Now()); err != nil {
		return err
	}
	return s.ended(ctx, scope, domain.SessionLogout, session.ID)
}

// ended wakes what the sessions still hold open, and leaves an audit row.
func (s *Service) ended(ctx context.Context, scope domain.Scope, a domain.Action, sessions ...domain.SessionID) error {
	return s.tenants.In(ctx, scope, func(tx domain.Tx) error {
		for _, id := range sessions {
			tx.Notify(domain.SessionTopic(id))
		}
		return tx.InsertAudit(ctx, domain.NewAudit(scope, a, domain.OutcomeSuccess, "session", string(scope.Actor().Session), ""))
	})
}

// SetUp is what somebody with a one-time link chooses.
type SetUp struct {
	Token    string
	Email    string
	Name     string
	Password string
}

// SetUp sets the password of a new user by a one-time link, and signs in.
func (s *Service) SetUp(ctx context.Context, in SetUp) (SignedIn, error) {
	email, err := domain.NormalizeEmail(in.Email)
	if err != nil {
		return SignedIn{}, err
	}
	name, err := domain.NormalizeUserName(in.Name)
	if err != nil {
		return SignedIn{}, err
	}
	if err := validPassword("password", in.Password); err != nil {
		return SignedIn{}, err
	}
	id, err := typeid.WithPrefix("usr")
	if err != nil {
		return SignedIn{}, err
	}
	now := s.clock.Now()
	user := domain.User{ID: domain.UserID(id.String()), Email: email, Name: name, CreatedAt: now}
	ws, user, err := s.store.AcceptInvitation(ctx, domain.HashSecret(in.Token), user, s.hashing.hash(in.Password), now)
	if domain.IsCode(err, domain.CodeNotFound) {
		return SignedIn{}, domain.Invalid("token", "This link is unknown, used or older than a week; ask for a new one.")
	}
	if err != nil {
		return SignedIn{}, err
	}
	memberships, err := s.store.Memberships(ctx, user.ID)
	if err != nil {
		return SignedIn{}, err
	}
	m, err := choose(memberships, string(ws))
	if err != nil {
		return SignedIn{}, err
	}
	return s.open(ctx, user, m, domain.UserSetUp)
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
	matches := len(current) <= maxPassword && s.hashing.matches(current, hash)
	end(matches)
	if !matches {
		return domain.User{}, domain.Invalid("current", "The current password is wrong.")
	}
	ended, err := s.store.SetPassword(ctx, session.User.ID, s.hashing.hash(next), session.ID, s.clock.Now())
	if err != nil {
		return domain.User{}, err
	}
	return session.User, s.ended(ctx, scope, domain.PasswordChange, ended...)
}
