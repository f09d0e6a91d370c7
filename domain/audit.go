package domain

import (
	"context"
	"time"
)

// Outcome is how an audited action went.
type Outcome string

// The outcomes.
const (
	OutcomeSuccess Outcome = "success"
	OutcomeDenied  Outcome = "denied"
	OutcomeFailure Outcome = "failure"
)

// AuditEvent is one row of the append-only audit log: who did what to which thing, and how it went.
type AuditEvent struct {
	ID           EventID
	At           time.Time // set by the database, in the transaction of the change
	Actor        Actor
	Action       Action
	ResourceType string
	ResourceID   string
	Outcome      Outcome
	Detail       string // a sentence, where there is more to say
}

// AuditTx writes audit rows. They belong to the transaction of what they tell, so neither is there without the other.
type AuditTx interface {
	InsertAudit(ctx context.Context, e AuditEvent) error
}

func newAudit(s Scope, a Action, o Outcome, resourceType, resourceID string) AuditEvent {
	return AuditEvent{
		ID: newID[EventID](prefixEvent), Actor: s.actor, Action: a, Outcome: o,
		ResourceType: resourceType, ResourceID: resourceID,
	}
}

// audited writes the row of a success.
func audited[T ~string](ctx context.Context, tx Tx, s Scope, a Action, resourceType string, id T) error {
	return tx.InsertAudit(ctx, newAudit(s, a, OutcomeSuccess, resourceType, string(id)))
}

// NewAudit is an audit row for what happens in authentication, outside the nouns' services.
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
