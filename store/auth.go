package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

var _ auth.Store = (*System)(nil)

var errUnknown = domain.Errorf(domain.CodeNotFound, "There is no such credential.")

// Subscribe implements auth.Store.
func (s *System) Subscribe(topics ...domain.Topic) (wake <-chan struct{}, stop func()) {
	return s.topics.Subscribe(topics...)
}

// UserByEmail implements auth.Store.
func (s *System) UserByEmail(ctx context.Context, email string) (identity.User, string, error) {
	var row struct {
		ID        domain.UserID  `db:"id"`
		Email     string         `db:"email"`
		Name      string         `db:"name"`
		Hash      sql.NullString `db:"password_hash"`
		CreatedAt time.Time      `db:"created_at"`
	}
	err := s.db.GetContext(ctx, &row, `SELECT id, email, name, password_hash, created_at FROM users WHERE email = $1`, email)
	user := identity.User{ID: row.ID, Email: row.Email, Name: row.Name, CreatedAt: row.CreatedAt.UTC()}
	return user, row.Hash.String, mapError(orMissing(err, errUnknown))
}

// Memberships implements auth.Store.
func (s *System) Memberships(ctx context.Context, user domain.UserID) ([]auth.Membership, error) {
	type row struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Name      string             `db:"name"`
		Role      domain.Role        `db:"role"`
	}
	translate := func(r row) (auth.Membership, error) { return auth.Membership(r), nil }
	all, err := rows(ctx, s.db, translate, `SELECT w.workspace_id, w.name, m.role FROM members m JOIN workspaces w USING (workspace_id)
		WHERE m.user_id = $1 AND m.accepted_at IS NOT NULL ORDER BY m.created_at, m.workspace_id`, user)
	return all, mapError(err)
}

// InsertSession implements auth.Store.
func (s *System) InsertSession(ctx context.Context, n auth.NewSession, row domain.AuditEvent) error {
	return s.in(ctx, func(tx *sqlx.Tx) error { return insertSession(ctx, tx, n, row) })
}

func insertSession(ctx context.Context, tx *sqlx.Tx, n auth.NewSession, row domain.AuditEvent) error {
	err := insert(ctx, tx, "sessions", values{
		"workspace_id": n.Workspace, "id": n.ID, "user_id": n.User, "secret_hash": n.Secret, "created_at": n.CreatedAt, "expires_at": n.ExpiresAt,
	})
	if err != nil {
		return err
	}
	return insertAudit(ctx, tx, n.Workspace, row)
}

type sessionRow struct {
	ID        domain.SessionID   `db:"id"`
	Workspace domain.WorkspaceID `db:"workspace_id"`
	User      domain.UserID      `db:"user_id"`
	Email     string             `db:"email"`
	Name      string             `db:"name"`
	CreatedAt time.Time          `db:"created_at"`
	Role      domain.Role        `db:"role"`
	ExpiresAt time.Time          `db:"expires_at"`
}

const selectSession = `SELECT s.id, s.workspace_id, s.user_id, u.email, u.name, u.created_at, m.role, s.expires_at
	FROM sessions s JOIN members m USING (workspace_id, user_id) JOIN users u ON u.id = s.user_id
	WHERE s.ended_at IS NULL AND s.expires_at > $1 AND m.accepted_at IS NOT NULL AND `

func (s *System) session(ctx context.Context, where string, args ...any) (auth.Session, error) {
	var r sessionRow
	if err := s.db.GetContext(ctx, &r, selectSession+where, args...); err != nil {
		return auth.Session{}, mapError(orMissing(err, errUnknown))
	}
	user := identity.User{ID: r.User, Email: r.Email, Name: r.Name, CreatedAt: r.CreatedAt.UTC()}
	return auth.Session{ID: r.ID, Workspace: r.Workspace, User: user, Role: r.Role, ExpiresAt: r.ExpiresAt.UTC()}, nil
}

// Session implements auth.Store.
func (s *System) Session(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, now time.Time) (auth.Session, error) {
	return s.session(ctx, `s.workspace_id = $2 AND s.id = $3`, now, ws, id)
}

// SessionBySecret implements auth.Store.
func (s *System) SessionBySecret(ctx context.Context, hash []byte, now time.Time) (auth.Session, error) {
	return s.session(ctx, `s.secret_hash = $2`, now, hash)
}

// EndSession implements auth.Store.
func (s *System) EndSession(ctx context.Context, ws domain.WorkspaceID, id domain.SessionID, at time.Time, row domain.AuditEvent) error {
	return s.in(ctx, func(tx *sqlx.Tx) error {
		ended, err := endSessions(ctx, tx, `workspace_id = $2 AND id = $3`, at, ws, id)
		if err != nil {
			return err
		}
		if ended == 0 {
			return errUnknown
		}
		return insertAudit(ctx, tx, ws, row)
	})
}

// SetPassword implements auth.Store.
func (s *System) SetPassword(ctx context.Context, keep auth.Session, hash string, at time.Time, row domain.AuditEvent) error {
	return s.in(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $2 WHERE id = $1`, keep.User.ID, hash); err != nil {
			return err
		}
		if _, err := endSessions(ctx, tx, `user_id = $2 AND id <> $3`, at, keep.User.ID, keep.ID); err != nil {
			return err
		}
		return insertAudit(ctx, tx, keep.Workspace, row)
	})
}

// endSessions ends the open ones of the sessions, and notifies their connections.
func endSessions(ctx context.Context, tx *sqlx.Tx, where string, at time.Time, args ...any) (n int, err error) {
	var ended []domain.SessionID
	err = tx.SelectContext(ctx, &ended, `UPDATE sessions SET ended_at = $1 WHERE ended_at IS NULL AND `+where+` RETURNING id`, append([]any{at}, args...)...)
	if err != nil {
		return 0, err
	}
	for _, id := range ended {
		if _, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, channel, domain.SessionTopic(id)); err != nil {
			return 0, err
		}
	}
	return len(ended), nil
}

// in runs fn in one transaction of the system role.
func (s *System) in(ctx context.Context, fn func(*sqlx.Tx) error) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return mapError(err)
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback()
		return mapError(err)
	}
	return mapError(tx.Commit())
}

// APIKey implements auth.Store. Concurrent calls share one query.
func (s *System) APIKey(ctx context.Context, hash []byte, now time.Time) (auth.Key, error) {
	return s.keys.get(ctx, string(hash), func(ctx context.Context) (auth.Key, error) { return s.apiKey(ctx, `k.secret_hash = $2`, now, hash) })
}

// APIKeyByID implements auth.Store.
func (s *System) APIKeyByID(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, now time.Time) (auth.Key, error) {
	return s.apiKey(ctx, `k.workspace_id = $2 AND k.id = $3`, now, ws, id)
}

// apiKey finds a key in use. If the creator's role is lowered, the key's role is lowered with it.
func (s *System) apiKey(ctx context.Context, where string, args ...any) (auth.Key, error) {
	var r struct {
		ID         domain.APIKeyID    `db:"id"`
		Workspace  domain.WorkspaceID `db:"workspace_id"`
		Name       string             `db:"name"`
		Role       domain.Role        `db:"role"`
		MakerRole  domain.Role        `db:"maker_role"`
		LastUsedAt sql.NullTime       `db:"last_used_at"`
	}
	conn, err := s.db.Connx(ctx)
	if err != nil {
		return auth.Key{}, mapError(err)
	}
	defer conn.Close()
	err = conn.GetContext(brief(ctx), &r, `SELECT k.id, k.workspace_id, k.name, k.role, m.role AS maker_role, k.last_used_at FROM api_keys k
		JOIN members m ON m.workspace_id = k.workspace_id AND m.user_id = k.created_by AND m.accepted_at IS NOT NULL
		WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $1) AND `+where, args...)
	if err != nil {
		return auth.Key{}, mapError(orMissing(err, errUnknown))
	}
	if !r.Role.AtMost(r.MakerRole) {
		r.Role = r.MakerRole
	}
	return auth.Key{ID: r.ID, Workspace: r.Workspace, Name: r.Name, Role: r.Role, LastUsedAt: timePtr(r.LastUsedAt)}, nil
}

// TouchAPIKey implements auth.Store.
func (s *System) TouchAPIKey(ctx context.Context, ws domain.WorkspaceID, id domain.APIKeyID, at time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE api_keys SET last_used_at = $3 WHERE workspace_id = $1 AND id = $2`, ws, id, at)
	return mapError(err)
}

// Agent implements auth.Store.
func (s *System) Agent(ctx context.Context, tokenHash []byte) (domain.AgentRef, string, error) {
	var r struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		ID        domain.AgentID     `db:"id"`
		Name      string             `db:"name"`
	}
	err := s.db.GetContext(ctx, &r, `SELECT workspace_id, id, name FROM agents WHERE token_hash = $1`, tokenHash)
	return domain.AgentRef{Workspace: r.Workspace, Agent: r.ID}, r.Name, mapError(orMissing(err, errUnknown))
}

// LiveAttempt implements auth.Store.
func (s *System) LiveAttempt(ctx context.Context, id domain.AttemptID) (domain.AttemptRef, string, error) {
	var r struct {
		Workspace domain.WorkspaceID `db:"workspace_id"`
		Job       string             `db:"job_name"`
	}
	err := s.db.GetContext(prepared(ctx), &r, `SELECT a.workspace_id, r.job_name FROM attempts a JOIN runs r ON r.workspace_id = a.workspace_id AND r.id = a.run_id
		WHERE a.id = $1 AND a.status IN ('starting', 'running')`, id)
	return domain.AttemptRef{Workspace: r.Workspace, Attempt: id}, r.Job, mapError(orMissing(err, errUnknown))
}

// SigningKeys implements auth.Store.
func (s *System) SigningKeys(ctx context.Context) ([]auth.SigningKey, error) {
	type row struct {
		ID        string    `db:"id"`
		Secret    []byte    `db:"secret"`
		CreatedAt time.Time `db:"created_at"`
	}
	translate := func(r row) (auth.SigningKey, error) { return auth.SigningKey(r), nil }
	keys, err := rows(ctx, s.db, translate, `SELECT id, secret, created_at FROM signing_keys ORDER BY created_at DESC, id`)
	return keys, mapError(err)
}

// InsertSigningKey implements auth.Store. The lock prevents two replicas from making a key each.
func (s *System) InsertSigningKey(ctx context.Context, k auth.SigningKey, unlessAfter time.Time) error {
	return s.in(ctx, func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(7236404)`); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO signing_keys (id, secret, created_at) SELECT $1, $2, $3
			WHERE NOT EXISTS (SELECT FROM signing_keys WHERE created_at > $4)`, k.ID, k.Secret, k.CreatedAt, unlessAfter)
		return err
	})
}
