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
	// Memberships are the workspaces that the user belongs to, oldest first.
	Memberships(ctx context.Context, user domain.UserID) ([]Membership, error)
	InsertSession(ctx context.Context, s NewSession) error
	// Session returns a session that has not ended at now, with the role that its user has now.
	Session(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, now time.Time) (Session, error)
	// SessionBySecret is Session by the hash of the console cookie's value.
	SessionBySecret(ctx context.Context, hash []byte, now time.Time) (Session, error)
	EndSession(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, at time.Time) error
	// SetPassword sets the hash, ends the user's sessions but the one to keep, and returns those ended.
	SetPassword(ctx context.Context, user domain.UserID, hash string, keep domain.SessionID, at time.Time) ([]domain.SessionID, error)
	// AcceptInvitation uses up the invitation and gives its user, made where there is none, the password. An invitation
	// that is unknown, used or expired is domain.CodeNotFound; an e-mail that has a password already is domain.CodeConflict.
	AcceptInvitation(ctx context.Context, tokenHash []byte, u domain.User, passwordHash string, at time.Time) (domain.WorkspaceID, domain.User, error)
	// APIKey returns a key that is neither revoked nor expired, with the lower of its own role and its maker's present one.
	APIKey(ctx context.Context, hash []byte, now time.Time) (Key, error)
	TouchAPIKey(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, at time.Time) error
	Agent(ctx context.Context, tokenHash []byte) (domain.AgentRef, string, error)
	// LiveAttempt returns an attempt that has not ended, and its job's name.
	LiveAttempt(ctx context.Context, id domain.AttemptID) (domain.AttemptRef, string, error)
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
