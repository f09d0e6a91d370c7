package model

import (
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

// Viewer is the caller.
type Viewer struct {
	Scope   domain.Scope
	Session *auth.Session // nil for an API key or a run
}

// ID returns the id of the user, the key or the run's attempt.
func (v Viewer) ID() string { return v.Scope.Actor().ID }

// Role returns the viewer's role.
func (v Viewer) Role() domain.Role { return v.Scope.Role() }

// User returns nil for an API key or a run.
func (v Viewer) User() *identity.User {
	if v.Session == nil {
		return nil
	}
	return &v.Session.User
}

// SessionExpiresAt returns when the session finally ends; nil without a session.
func (v Viewer) SessionExpiresAt() *time.Time {
	if v.Session == nil {
		return nil
	}
	return &v.Session.ExpiresAt
}

// Instance is this installation, as every caller may see it.
type Instance struct {
	Version    string
	NeedsSetup bool
}
