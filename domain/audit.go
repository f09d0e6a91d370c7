package domain

import (
	"context"
	"time"
)

// Outcome is the result of an audited action.
type Outcome string

// The outcomes.
const (
	OutcomeSuccess Outcome = "success"
	OutcomeDenied  Outcome = "denied"
	OutcomeFailure Outcome = "failure"
)

// AuditEvent is one row of the append-only audit log: the actor, the action, the resource and the
// outcome.
type AuditEvent struct {
	ID           EventID
	At           time.Time // set by the database, in the transaction of the change
	Actor        Actor
	Action       Action
	ResourceType string
	ResourceID   string
	Outcome      Outcome
	Detail       string // a sentence; may be empty
}

// AuditTx writes audit rows, in the transaction of the change that they record.
type AuditTx interface {
	InsertAudit(ctx context.Context, e AuditEvent) error
}

func newAudit(s Scope, a Action, o Outcome, resourceType, resourceID string) AuditEvent {
	return AuditEvent{
		ID: newID[EventID](prefixEvent), Actor: s.actor, Action: a, Outcome: o,
		ResourceType: resourceType, ResourceID: resourceID,
	}
}

// audited writes the audit row of a success.
func audited[T ~string](ctx context.Context, tx Tx, s Scope, a Action, resourceType string, id T) error {
	return tx.InsertAudit(ctx, newAudit(s, a, OutcomeSuccess, resourceType, string(id)))
}

// NewAudit returns an audit row for authentication, which happens outside the nouns' services.
func NewAudit(s Scope, a Action, o Outcome, resourceType, resourceID, detail string) AuditEvent {
	e := newAudit(s, a, o, resourceType, resourceID)
	e.Detail = detail
	return e
}

// The actions of authentication and of the instance's operator. Nobody needs a permission for them.
const (
	SessionLogin    Action = "session.login"
	SessionLogout   Action = "session.logout"
	UserSetUp       Action = "user.set_up"
	WorkspaceCreate Action = "workspace.create"
	AdminInvite     Action = "admin.invite"
	AgentEnroll     Action = "agent.enroll"
)
