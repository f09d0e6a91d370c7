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

// Audited writes the audit row of a success.
func Audited[T ~string](ctx context.Context, tx AuditTx, s Scope, a Action, resourceType string, id T) error {
	return tx.InsertAudit(ctx, NewAudit(s, a, OutcomeSuccess, resourceType, string(id), ""))
}

// NewAudit returns the audit row of an action on a resource. The detail is a sentence, or empty.
func NewAudit(s Scope, a Action, o Outcome, resourceType, resourceID, detail string) AuditEvent {
	return AuditEvent{
		ID: NewID[EventID](PrefixEvent), Actor: s.actor, Action: a, Outcome: o,
		ResourceType: resourceType, ResourceID: resourceID, Detail: detail,
	}
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
