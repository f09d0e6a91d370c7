package model

import (
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// Viewer is whoever is asking.
type Viewer struct {
	Scope   domain.Scope
	Session *auth.Session // nil for an API key or a run
}

// ID is that of the user, the key or the run's attempt.
func (v Viewer) ID() string { return v.Scope.Actor().ID }

// Role is what the viewer may do.
func (v Viewer) Role() domain.Role { return v.Scope.Role() }

// User is nil for an API key or a run.
func (v Viewer) User() *domain.User {
	if v.Session == nil {
		return nil
	}
	return &v.Session.User
}

// SessionExpiresAt is when the session ends for good; nil without one.
func (v Viewer) SessionExpiresAt() *time.Time {
	if v.Session == nil {
		return nil
	}
	return &v.Session.ExpiresAt
}

// Instance is this installation, as everybody may see it.
type Instance struct {
	Version    string
	NeedsSetup bool
}
