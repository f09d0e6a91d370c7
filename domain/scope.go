package domain

import "errors"

// Role is what a member, a key or a machine may do in a workspace.
type Role string

// The roles of people and keys, in rising order, and those of machines.
const (
	RoleViewer Role = "viewer" // reads all but secrets
	RoleEditor Role = "editor" // makes, runs and changes
	RoleAdmin  Role = "admin"  // manages members, others' keys, quotas and settings
	RoleAgent  Role = "agent"  // the workspace's agent, on its channel only
	RoleSystem Role = "system" // the platform itself
)

// Roles lists the roles that a member or a key can have, in rising order.
var Roles = []Role{RoleViewer, RoleEditor, RoleAdmin}

// AtMost says whether r grants nothing that other does not.
func (r Role) AtMost(other Role) bool { return roleRank(r) <= roleRank(other) }

func roleRank(r Role) int {
	for i, known := range Roles {
		if r == known {
			return i
		}
	}
	return len(Roles)
}

// ParseRole reads a role of a member or a key.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles {
		if string(r) == s {
			return r, nil
		}
	}
	return "", Invalid("role", "%q is not a role; use viewer, editor or admin.", s)
}

// ActorKind says what acted.
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

// Actor is who acts: kept in audit rows and shown as who started a run.
type Actor struct {
	Kind    ActorKind
	ID      string    // of the user, key, attempt or agent
	Name    string    // e-mail or name, as people know it
	Session SessionID // of a user's session; empty otherwise
}

// who is the actor in a sentence.
func (a Actor) who() string {
	if a.Kind == ActorRun {
		return "a task of the job " + a.Name
	}
	return a.Name
}

// Scope is the workspace a call is confined to, and who makes it with what role. Only authentication and SystemScope make
// one; its zero value is refused everywhere.
type Scope struct {
	workspace WorkspaceID
	actor     Actor
	role      Role
	catalog   bool
}

// NewScope is for authentication (domain/auth) alone; a test holds that.
func NewScope(workspace WorkspaceID, actor Actor, role Role) Scope {
	return Scope{workspace: workspace, actor: actor, role: role}
}

// SystemScope is the platform acting on its own in a workspace, for the reason given: a scheduler's tick, a lease that ran out.
func SystemScope(workspace WorkspaceID, reason string) Scope {
	return Scope{workspace: workspace, actor: Actor{Kind: ActorSystem, ID: "system", Name: reason}, role: RoleSystem}
}

// ForCatalog is the scope for the catalog of tables alone: of the tokens that engines and clients of the catalog hold.
func (s Scope) ForCatalog() Scope {
	s.catalog = true
	return s
}

// CatalogOnly says that the scope is good for the catalog of tables and nothing else.
func (s Scope) CatalogOnly() bool { return s.catalog }

// Workspace is the workspace the scope is confined to.
func (s Scope) Workspace() WorkspaceID { return s.workspace }

// Actor is who acts.
func (s Scope) Actor() Actor { return s.actor }

// Role is what the actor may do.
func (s Scope) Role() Role { return s.role }

// UserID is the acting user's id, and empty when the actor is not a user.
func (s Scope) UserID() UserID {
	if s.actor.Kind == ActorUser {
		return UserID(s.actor.ID)
	}
	return ""
}

// ErrNoScope is returned where a zero Scope is used: a mistake of the caller's code, never of a user.
var ErrNoScope = errors.New("a call without a scope")

// Valid refuses the zero Scope with ErrNoScope.
func (s Scope) Valid() error {
	if s.workspace == "" || s.role == "" || s.actor.Kind == "" {
		return ErrNoScope
	}
	return nil
}
