// Package domain is the kernel that all modules below it share: scopes and permissions, errors,
// ids, pages, audit, idempotency, topics, and the port of the store.
package domain

import "errors"

// Role is the set of permissions of a member, a key or a machine in a workspace.
type Role string

// The roles of people and keys, in rising order, then those of machines.
const (
	RoleViewer Role = "viewer" // reads everything except secrets
	RoleEditor Role = "editor" // creates, runs and changes
	RoleAdmin  Role = "admin"  // manages members, others' keys, quotas and settings
	RoleAgent  Role = "agent"  // the workspace's agent, on its channel only
	RoleSystem Role = "system" // the platform itself
)

// Roles lists the roles that a member or a key can have, in rising order.
var Roles = []Role{RoleViewer, RoleEditor, RoleAdmin}

// AtMost reports whether r grants only permissions that other also grants.
func (r Role) AtMost(other Role) bool { return roleRank(r) <= roleRank(other) }

func roleRank(r Role) int {
	for i, known := range Roles {
		if r == known {
			return i
		}
	}
	return len(Roles)
}

// ParseRole parses the role of a member or a key.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles {
		if string(r) == s {
			return r, nil
		}
	}
	return "", Invalid("role", "%q is not a role; use viewer, editor or admin.", s)
}

// ActorKind is the kind of an actor.
type ActorKind string

// The kinds of actors.
const (
	ActorUser      ActorKind = "user"
	ActorAPIKey    ActorKind = "api_key"
	ActorRun       ActorKind = "run"       // a task's process, with its attempt's token
	ActorStatement ActorKind = "statement" // an engine, with the token of the statement it runs
	ActorAgent     ActorKind = "agent"
	ActorSystem    ActorKind = "system"
)

// Actor is the originator of an action, for audit rows and for CreatedBy and similar fields.
type Actor struct {
	Kind    ActorKind
	ID      string    // of the user, key, attempt, statement or agent
	Name    string    // e-mail or name, as people know it
	Session SessionID // of a user's session; else empty
}

// Who returns the actor's name in a sentence.
func (a Actor) Who() string {
	if a.Kind == ActorRun {
		return "a task of the job " + a.Name
	}
	return a.Name
}

// Scope confines a call to a workspace, with its actor and role. Only authentication and
// SystemScope create one. The zero value is refused everywhere.
type Scope struct {
	workspace WorkspaceID
	actor     Actor
	role      Role
	catalog   bool
}

// NewScope is only for authentication (domain/auth); a test enforces that.
func NewScope(workspace WorkspaceID, actor Actor, role Role) Scope {
	return Scope{workspace: workspace, actor: actor, role: role}
}

// SystemScope returns the scope of the platform itself in a workspace. The reason says which part
// acts, such as the scheduler.
func SystemScope(workspace WorkspaceID, reason string) Scope {
	return Scope{workspace: workspace, actor: Actor{Kind: ActorSystem, ID: "system", Name: reason}, role: RoleSystem}
}

// ForCatalog returns the scope limited to the catalog of tables, for the tokens of engines and
// catalog clients.
func (s Scope) ForCatalog() Scope {
	s.catalog = true
	return s
}

// CatalogOnly reports whether the scope is limited to the catalog of tables.
func (s Scope) CatalogOnly() bool { return s.catalog }

// Workspace returns the workspace of the scope.
func (s Scope) Workspace() WorkspaceID { return s.workspace }

// Actor returns the scope's actor.
func (s Scope) Actor() Actor { return s.actor }

// Role returns the actor's role.
func (s Scope) Role() Role { return s.role }

// UserID returns the acting user's id; empty if the actor is not a user.
func (s Scope) UserID() UserID {
	if s.actor.Kind == ActorUser {
		return UserID(s.actor.ID)
	}
	return ""
}

// ErrNoScope says that a call had a zero Scope, which is a bug in the calling code.
var ErrNoScope = errors.New("a call without a scope")

// Valid refuses the zero Scope with ErrNoScope.
func (s Scope) Valid() error {
	if s.workspace == "" || s.role == "" || s.actor.Kind == "" {
		return ErrNoScope
	}
	return nil
}
