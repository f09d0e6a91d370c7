package auth

import (
	"context"

	"go.jetify.com/typeid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// SetUp is the input of Service.SetUp.
type SetUp struct {
	Token    string
	Email    string
	Name     string // of a new account
	Password string // the account's password, or its first one
}

// SetUp accepts an invitation by its one-time link, and signs in. A user without a password sets
// one; others give theirs. A wrong password returns domain.CodeUnauthenticated, changes nothing and
// counts as a failed login. After too many failures in a minute it returns domain.CodeRate.
func (s *Service) SetUp(ctx context.Context, in SetUp) (SignedIn, error) {
	email, err := identity.NormalizeEmail(in.Email)
	if err != nil {
		return SignedIn{}, err
	}
	name, err := identity.NormalizeUserName(in.Name)
	if err != nil {
		return SignedIn{}, err
	}
	end, err := s.attempt(ClientAddress(ctx), "")
	if err != nil {
		return SignedIn{}, err
	}
	signedIn, err := s.accept(ctx, in.Token, identity.User{Email: email, Name: name}, in.Password)
	end(!domain.IsCode(err, domain.CodeInvalid) && !domain.IsCode(err, domain.CodeConflict) && !domain.IsCode(err, domain.CodeUnauthenticated))
	return signedIn, err
}

// accept checks the link before hashing, because anyone could send costly requests otherwise.
func (s *Service) accept(ctx context.Context, token string, user identity.User, password string) (SignedIn, error) {
	n, secret, err := s.newSession()
	if err != nil {
		return SignedIn{}, err
	}
	id, err := typeid.WithPrefix("usr")
	if err != nil {
		return SignedIn{}, err
	}
	user.ID, user.CreatedAt = domain.UserID(id.String()), n.CreatedAt
	a := Acceptance{TokenHash: domain.HashSecret(token), User: user, Session: n}
	inv, err := s.store.Invitation(ctx, a.TokenHash, n.CreatedAt)
	if err != nil {
		return SignedIn{}, linkError(err)
	}
	if inv.Email != "" && inv.Email != user.Email {
		return SignedIn{}, domain.Invalid("email", "This link is for another e-mail address.")
	}
	if a.Checked, a.PasswordHash, err = s.passwordFor(ctx, inv, user.Email, password); err != nil {
		return SignedIn{}, err
	}
	session, err := s.store.AcceptInvitation(ctx, a, func(session Session) domain.AuditEvent { return succeeded(userScope(session), domain.UserSetUp) })
	if err != nil {
		return SignedIn{}, linkError(err)
	}
	return s.signedIn(session, secret)
}

// passwordFor checks the password of a user who has one, and returns its hash as checked. For
// others it returns the hash of the first password.
func (s *Service) passwordFor(ctx context.Context, inv Invited, email, password string) (checked, first string, err error) {
	account, hash, err := s.store.UserByEmail(ctx, email)
	if err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		return "", "", err
	}
	if hash != "" {
		return hash, "", s.check(ctx, inv, account, hash, password)
	}
	if err := validPassword("password", password); err != nil {
		return "", "", err
	}
	first, err = s.hashing.hash(ctx, password)
	return "", first, err
}

// check refuses a wrong password of the account. It records a failed login in the account's
// workspaces, and the failure in the link's workspace.
func (s *Service) check(ctx context.Context, inv Invited, account identity.User, hash, password string) error {
	end, err := s.attempt("", account.Email)
	if err != nil {
		return err
	}
	matches, err := s.matches(ctx, password, hash)
	end(matches || err != nil)
	if err != nil || matches {
		return err
	}
	scope := userScope(Session{Workspace: inv.Workspace, User: account, Role: inv.Role})
	if err := s.failed(ctx, scope, domain.UserSetUp); err != nil {
		return err
	}
	if err := s.refused(ctx, account); !domain.IsCode(err, domain.CodeUnauthenticated) {
		return err
	}
	return domain.Errorf(domain.CodeUnauthenticated, "%s already has an account, and this is not its password: enter the account's password. "+
		"If you do not know it, ask for a link for another e-mail address.", account.Email)
}

// linkError converts the error of an invalid link, or of one that was just used.
func linkError(err error) error {
	if domain.IsCode(err, domain.CodeNotFound) {
		return domain.Invalid("token", "This link is unknown, used or older than a week; ask for a new one.")
	}
	return err
}
