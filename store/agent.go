package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
)

type agentRow struct {
	ID             domain.AgentID   `db:"id"`
	Name           string           `db:"name"`
	Version        string           `db:"version"`
	Hostname       string           `db:"hostname"`
	OS             string           `db:"os"`
	Arch           string           `db:"arch"`
	Slots          int              `db:"slots"`
	Instance       string           `db:"instance"`
	MachineID      domain.MachineID `db:"machine_id"`
	TokenHash      []byte           `db:"token_hash"`
	Busy           int              `db:"busy"`
	Session        string           `db:"session"`
	Replica        string           `db:"replica"`
	CreatedAt      time.Time        `db:"created_at"`
	ConnectedAt    sql.NullTime     `db:"connected_at"`
	LastSeenAt     sql.NullTime     `db:"last_seen_at"`
	LeaseExpiresAt sql.NullTime     `db:"lease_expires_at"`
	Changed        domain.Change    `db:"changed"`
}

const agentColumns = `a.id, a.name, a.version, a.hostname, a.os, a.arch, a.slots, a.instance, a.machine_id, a.token_hash, a.session, a.replica, a.created_at, a.connected_at,
	a.last_seen_at, a.lease_expires_at, a.changed, (SELECT count(*) FROM attempts t WHERE t.workspace_id = a.workspace_id AND t.agent_id = a.id
	AND t.status IN ('starting', 'running')) AS busy`

func (r agentRow) toDomain() (machine.Agent, error) {
	return machine.Agent{
		ID: r.ID, Name: r.Name, Version: r.Version, Hostname: r.Hostname, OS: r.OS, Arch: r.Arch, Slots: r.Slots, Busy: r.Busy,
		Instance: r.Instance, TokenHash: r.TokenHash, MachineID: r.MachineID,
		Session: r.Session, Replica: r.Replica, CreatedAt: r.CreatedAt.UTC(), ConnectedAt: timePtr(r.ConnectedAt),
		LastSeenAt: timePtr(r.LastSeenAt), LeaseExpiresAt: timePtr(r.LeaseExpiresAt), Changed: r.Changed,
	}, nil
}

func (t *Tx) agent(ctx context.Context, id domain.AgentID) (machine.Agent, error) {
	var row agentRow
	if err := t.get(prepared(ctx), &row, `SELECT `+agentColumns+` FROM agents a WHERE a.workspace_id = $1 AND a.id = $2`, t.workspace, id); err != nil {
		return machine.Agent{}, orMissing(err, domain.NotFound("agent", id))
	}
	return row.toDomain()
}

// Agent implements machine.Tx.
func (t *Tx) Agent(ctx context.Context, id domain.AgentID) (machine.Agent, error) {
	return t.agent(ctx, id)
}

// Agents implements machine.Tx.
func (t *Tx) Agents(ctx context.Context, after domain.AgentID, limit int) ([]machine.Agent, error) {
	return rows(ctx, t.conn, agentRow.toDomain, `SELECT `+agentColumns+` FROM agents a WHERE a.workspace_id = $1 AND a.id > $2 AND a.machine_id = '' ORDER BY a.id LIMIT $3`,
		t.workspace, after, limit)
}

// AgentsByID implements machine.Tx.
func (t *Tx) AgentsByID(ctx context.Context, ids []domain.AgentID) ([]machine.Agent, error) {
	return rows(ctx, t.conn, agentRow.toDomain, `SELECT `+agentColumns+` FROM agents a WHERE a.workspace_id = $1 AND a.id = ANY($2)`, t.workspace, texts(ids))
}

// LockAgent implements machine.Tx. The lock is a separate statement, so that the reads after it
// see what earlier holders committed, including the number of attempts.
func (t *Tx) LockAgent(ctx context.Context, id domain.AgentID) (machine.Agent, error) {
	var locked int
	if err := t.get(ctx, &locked, `SELECT 1 FROM agents WHERE workspace_id = $1 AND id = $2 FOR NO KEY UPDATE`, t.workspace, id); err != nil {
		return machine.Agent{}, orMissing(err, domain.NotFound("agent", id))
	}
	return t.agent(ctx, id)
}

// LockSession implements machine.Tx. Only FenceSession's lock conflicts with this one, so logs
// are stored while agents are locked for other reasons.
func (t *Tx) LockSession(ctx context.Context, id domain.AgentID) (machine.Agent, error) {
	var locked int
	if err := t.get(ctx, &locked, `SELECT 1 FROM agents WHERE workspace_id = $1 AND id = $2 FOR UPDATE`, t.workspace, id); err != nil {
		return machine.Agent{}, orMissing(err, domain.NotFound("agent", id))
	}
	return t.agent(ctx, id)
}

// LockWorkspaceAgent implements machine.Tx. The oldest agent is the one created with the
// workspace.
func (t *Tx) LockWorkspaceAgent(ctx context.Context) (machine.Agent, error) {
	var id domain.AgentID
	if err := t.get(ctx, &id, `SELECT id FROM agents WHERE workspace_id = $1 AND machine_id = '' ORDER BY id LIMIT 1 FOR NO KEY UPDATE`, t.workspace); err != nil {
		return machine.Agent{}, orMissing(err, domain.NotFound("agent", "of the workspace"))
	}
	return t.agent(ctx, id)
}

// InsertAgent implements machine.Tx.
func (t *Tx) InsertAgent(ctx context.Context, a machine.Agent, tokenHash []byte) error {
	return insertAgent(ctx, t.conn, t.workspace, a, tokenHash)
}

func insertAgent(ctx context.Context, db execer, ws domain.WorkspaceID, a machine.Agent, tokenHash []byte) error {
	return insert(ctx, db, "agents", values{"workspace_id": ws, "id": a.ID, "name": a.Name, "token_hash": tokenHash, "created_at": a.CreatedAt})
}

// UpdateAgent implements machine.Tx.
func (t *Tx) UpdateAgent(ctx context.Context, a machine.Agent) error {
	return t.update(ctx, domain.NotFound("agent", a.ID), "agents", string(a.ID), values{
		"name": a.Name, "version": a.Version, "hostname": a.Hostname, "os": a.OS, "arch": a.Arch, "slots": a.Slots, "session": a.Session, "replica": a.Replica,
		"connected_at": a.ConnectedAt, "last_seen_at": a.LastSeenAt, "lease_expires_at": a.LeaseExpiresAt, "instance": a.Instance,
	})
}

// UpdateAgentToken implements machine.Tx.
func (t *Tx) UpdateAgentToken(ctx context.Context, id domain.AgentID, tokenHash []byte) error {
	return t.execOne(ctx, domain.NotFound("agent", id), `UPDATE agents SET token_hash = $3 WHERE workspace_id = $1 AND id = $2`, t.workspace, id, tokenHash)
}

// LiveAttempts implements job.Tx.
func (t *Tx) LiveAttempts(ctx context.Context, id domain.AgentID) ([]job.Attempt, error) {
	return rows(ctx, t.conn, attemptRow.toDomain, `SELECT `+attemptColumns+` FROM attempts
		WHERE workspace_id = $1 AND agent_id = $2 AND status IN ('starting', 'running') ORDER BY id`, t.workspace, id)
}
