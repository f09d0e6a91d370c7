package store

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// replicaSilence is how long a replica may be silent before its agents count as disconnected.
const replicaSilence = 30 * time.Second

// SaveReplica records that the replica is alive, and the address at which others reach it.
func (s *System) SaveReplica(ctx context.Context, id, url string, at time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO replicas (id, url, seen_at) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET url = $2, seen_at = $3`, id, url, at)
	return mapError(err)
}

// DeleteReplica records that the replica has ended.
func (s *System) DeleteReplica(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM replicas WHERE id = $1`, id)
	return mapError(err)
}

// AgentReplica returns the id and address of the replica that holds the agent's connection;
// domain.CodeUnavailable if the agent is not connected.
func (s *System) AgentReplica(ctx context.Context, agent domain.AgentID, now time.Time) (id, url string, err error) {
	var r struct {
		ID  string `db:"id"`
		URL string `db:"url"`
	}
	err = s.db.GetContext(ctx, &r, `SELECT r.id, r.url FROM agents a JOIN replicas r ON r.id = a.replica WHERE a.id = $1 AND a.session <> '' AND r.seen_at > $2`,
		agent, now.Add(-replicaSilence))
	away := domain.Errorf(domain.CodeUnavailable, "The agent is not connected.")
	return r.ID, r.URL, mapError(orMissing(err, away))
}
