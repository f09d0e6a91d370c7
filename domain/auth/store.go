// Package auth turns credentials into scopes: passwords, access tokens, console sessions, API keys, agent tokens and run tokens. It
// has the one HTTP middleware that REST, GraphQL and WebSocket share.
package auth

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Store is what authentication reads and writes before there is a scope. Nothing found is an error of domain.CodeNotFound.
type Store interface {
	// UserByEmail returns the user and the password's hash, which is empty before the user has set one.
	UserByEmail(ctx context.Context, email string) (domain.User, string, error)
	// Memberships are those that the user has accepted, oldest first.
	Memberships(ctx context.Context, user domain.UserID) ([]Membership, error)
	// InsertSession opens a session, with its audit row.
	InsertSession(ctx context.Context, s NewSession, row domain.AuditEvent) error
	// Session returns a session that has not ended at now, with the role that its user has now.
	Session(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, now time.Time) (Session, error)
	// SessionBySecret is Session by the hash of the console cookie's value.
	SessionBySecret(ctx context.Context, hash []byte, now time.Time) (Session, error)
	// EndSession ends a session that is open, with its audit row, and wakes its domain.SessionTopic.
	EndSession(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, at time.Time, row domain.AuditEvent) error
	// SetPassword sets the hash of the session's user and ends the user's other sessions, in every workspace, waking the topic of each. The audit
	// row goes to the session's workspace.
	SetPassword(ctx context.Context, s Session, hash string, at time.Time, row domain.AuditEvent) error
	// Invitation returns an invitation that can be accepted; one that is unknown, used or expired is domain.CodeNotFound.
	Invitation(ctx context.Context, tokenHash []byte, at time.Time) (Invited, error)
	// AcceptInvitation uses up the invitation, makes its user a member and opens the session, with the audit row that is made from it. A user who
	// has no password gets the acceptance's. An invitation that does not hold any longer is domain.CodeNotFound. A user whose password is not the
	// one that was checked is domain.CodeConflict, and so, where the invitation names no e-mail, is one who has no password and is invited anywhere.
	AcceptInvitation(ctx context.Context, a Acceptance, row func(Session) domain.AuditEvent) (Session, error)
	// APIKey returns a key that is neither revoked nor expired, with the lower of its own role and its maker's present one.
	APIKey(ctx context.Context, hash []byte, now time.Time) (Key, error)
	// APIKeyByID is APIKey by its id.
	APIKeyByID(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, now time.Time) (Key, error)
	TouchAPIKey(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, at time.Time) error
	Agent(ctx context.Context, tokenHash []byte) (domain.AgentRef, string, error)
	// LiveAttempt returns an attempt that has not ended, and its job's name.
	LiveAttempt(ctx context.Context, id domain.AttemptID) (domain.AttemptRef, string, error)
	// LiveStatement returns a statement that has not ended, with which role it runs and for whom.
	LiveStatement(ctx context.Context, id domain.StatementID) (domain.StatementRef, domain.Role, string, error)
	// SigningKeys are newest first.
	SigningKeys(ctx context.Context) ([]SigningKey, error)
	// InsertSigningKey adds a key unless one newer than the time given exists.
	InsertSigningKey(ctx context.Context, k SigningKey, unlessAfter time.Time) error
}

// Membership is a workspace that a user belongs to.
type Membership struct {
	Workspace domain.WorkspaceID
	Name      string
	Role      domain.Role
}

// NewSession is a session as it is stored; Secret is the hash of the console cookie's value.
type NewSession struct {
	ID        domain.SessionID
	Workspace domain.WorkspaceID
	User      domain.UserID
	Secret    []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Invited is where an invitation leads.
type Invited struct {
	Workspace domain.WorkspaceID
	Email     string // empty where anybody may accept
	Role      domain.Role
}

// Acceptance is somebody's answer to an invitation.
type Acceptance struct {
	TokenHash    []byte
	User         domain.User // what a new user would be; one who has a password keeps id and name
	Checked      string      // the hash of the user's password, which was given; empty for a user who has none
	PasswordHash string      // of the first password, for a user who has none
	Session      NewSession  // its workspace and its user are the invitation's
}

// Session is who is signed in, and as what.
type Session struct {
	ID        domain.SessionID
	Workspace domain.WorkspaceID
	User      domain.User
	Role      domain.Role
	ExpiresAt time.Time
}

// Key is an API key in use.
type Key struct {
	ID         domain.APIKeyID
	Workspace  domain.WorkspaceID
	Name       string
	Role       domain.Role
	LastUsedAt *time.Time
}

// SigningKey signs access tokens and run tokens. Older ones still verify.
type SigningKey struct {
	ID        string
	Secret    []byte // 256 random bits
	CreatedAt time.Time
}
