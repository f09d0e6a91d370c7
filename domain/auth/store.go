// Package auth turns credentials into scopes: passwords, access tokens, console sessions, API keys,
// agent tokens and run tokens. It has the one HTTP middleware that REST, GraphQL and WebSocket
// share.
package auth

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

// Store holds authentication's reads and writes without a scope. Its methods return
// domain.CodeNotFound if nothing is found.
type Store interface {
	// UserByEmail returns the user and the password's hash, which is empty before the user has set
	// one.
	UserByEmail(ctx context.Context, email string) (identity.User, string, error)
	// Memberships returns the memberships that the user has accepted, oldest first.
	Memberships(ctx context.Context, user domain.UserID) ([]Membership, error)
	// InsertSession opens a session, with its audit row.
	InsertSession(ctx context.Context, s NewSession, row domain.AuditEvent) error
	// Session returns a session that has not ended at now, with its user's current role.
	Session(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, now time.Time) (Session, error)
	// SessionBySecret is Session by the hash of the console cookie's value.
	SessionBySecret(ctx context.Context, hash []byte, now time.Time) (Session, error)
	// EndSession ends an open session, writes its audit row, and wakes its domain.SessionTopic.
	EndSession(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, at time.Time, row domain.AuditEvent) error
	// SetPassword sets the hash of the session's user. It ends the user's other sessions in every
	// workspace and wakes the topic of each. The audit row goes to the session's workspace.
	SetPassword(ctx context.Context, s Session, hash string, at time.Time, row domain.AuditEvent) error
	// Invitation returns an invitation that can be accepted. It returns domain.CodeNotFound if the
	// invitation is unknown, used or expired.
	Invitation(ctx context.Context, tokenHash []byte, at time.Time) (Invited, error)
	// AcceptInvitation consumes the invitation, makes its user a member and opens the session, with
	// the audit row from row. A user without a password gets the acceptance's. It returns
	// domain.CodeNotFound if the invitation is no longer valid, and domain.CodeConflict if the
	// user's password is not the checked one. It also returns domain.CodeConflict if the invitation
	// names no e-mail, and the user has no password but is invited somewhere.
	AcceptInvitation(ctx context.Context, a Acceptance, row func(Session) domain.AuditEvent) (Session, error)
	// APIKey returns a key that is neither revoked nor expired. Its role is the lower of its own
	// and its creator's current one.
	APIKey(ctx context.Context, hash []byte, now time.Time) (Key, error)
	// APIKeyByID is APIKey for a key's id.
	APIKeyByID(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, now time.Time) (Key, error)
	TouchAPIKey(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, at time.Time) error
	Agent(ctx context.Context, tokenHash []byte) (domain.AgentRef, string, error)
	// LiveAttempt returns an attempt that has not ended, and its job's name.
	LiveAttempt(ctx context.Context, id domain.AttemptID) (domain.AttemptRef, string, error)
	// LiveStatement returns the workspace of a statement that has not ended, its role, and its
	// actor's name.
	LiveStatement(ctx context.Context, id domain.StatementID) (domain.WorkspaceID, domain.Role, string, error)
	// SigningKeys returns keys, newest first.
	SigningKeys(ctx context.Context) ([]SigningKey, error)
	// InsertSigningKey adds a key unless a key newer than the given time exists.
	InsertSigningKey(ctx context.Context, k SigningKey, unlessAfter time.Time) error
	// Subscribe is that of domain.Topics.
	Subscribe(topics ...domain.Topic) (wake <-chan struct{}, stop func())
}

// Membership is a workspace that a user belongs to.
type Membership struct {
	Workspace domain.WorkspaceID
	Name      string
	Role      domain.Role
}

// NewSession is a session to store; Secret is the hash of the console cookie's value.
type NewSession struct {
	ID        domain.SessionID
	Workspace domain.WorkspaceID
	User      domain.UserID
	Secret    []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// Invited is the content of an invitation.
type Invited struct {
	Workspace domain.WorkspaceID
	Email     string // empty if any e-mail may accept
	Role      domain.Role
}

// Acceptance is a request to accept an invitation.
type Acceptance struct {
	TokenHash    []byte
	User         identity.User // a new user's values; a user with a password keeps id and name
	Checked      string        // hash of the password that was checked; empty for a user without one
	PasswordHash string        // hash of the first password, for a user without one
	Session      NewSession    // workspace and user come from the invitation
}

// Session is a session with its user and role.
type Session struct {
	ID        domain.SessionID
	Workspace domain.WorkspaceID
	User      identity.User
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

// SigningKey signs access tokens and derived tokens. Older keys still verify.
type SigningKey struct {
	ID        string
	Secret    []byte // 256 random bits
	CreatedAt time.Time
}
