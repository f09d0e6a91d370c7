package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
)

type memberRow struct {
	ID         domain.UserID `db:"id"`
	Email      string        `db:"email"`
	Name       string        `db:"name"`
	CreatedAt  time.Time     `db:"created_at"`
	Role       domain.Role   `db:"role"`
	AddedAt    time.Time     `db:"added_at"`
	AcceptedAt sql.NullTime  `db:"accepted_at"`
}

const memberColumns = `u.id, u.email, u.name, u.created_at, m.role, m.created_at AS added_at, m.accepted_at`

func (r memberRow) toDomain() (identity.Member, error) {
	user := identity.User{ID: r.ID, Email: r.Email, Name: r.Name, CreatedAt: r.CreatedAt.UTC()}
	return identity.Member{User: user, Role: r.Role, CreatedAt: r.AddedAt.UTC(), AcceptedAt: timePtr(r.AcceptedAt)}, nil
}

// Member implements identity.Tx.
func (t *Tx) Member(ctx context.Context, id domain.UserID) (identity.Member, error) {
	var row memberRow
	err := t.get(ctx, &row, `SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id WHERE m.workspace_id = $1 AND m.user_id = $2`, t.workspace, id)
	if err != nil {
		return identity.Member{}, orMissing(err, domain.NotFound("member", id))
	}
	return row.toDomain()
}

// Members implements identity.Tx.
func (t *Tx) Members(ctx context.Context, after domain.UserID, limit int) ([]identity.Member, error) {
	return rows(ctx, t.conn, memberRow.toDomain, `SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.workspace_id = $1 AND m.user_id > $2 ORDER BY m.user_id LIMIT $3`, t.workspace, after, limit)
}

// Users implements identity.Tx.
func (t *Tx) Users(ctx context.Context, ids []domain.UserID) ([]identity.User, error) {
	translate := func(r memberRow) (identity.User, error) {
		m, err := r.toDomain()
		return m.User, err
	}
	return rows(ctx, t.conn, translate, `SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.workspace_id = $1 AND m.user_id = ANY($2)`, t.workspace, texts(ids))
}

// InsertMember implements identity.Tx. ensure_user locks the user, as AcceptInvitation does, so
// concurrent changes to the user wait. Locks are taken in the order user, invitation, member.
func (t *Tx) InsertMember(ctx context.Context, u identity.User, role domain.Role, at time.Time) (identity.Member, error) {
	var id domain.UserID
	if err := t.get(ctx, &id, `SELECT ensure_user($1, $2, $3, $4)`, u.ID, u.Email, u.Name, at); err != nil {
		return identity.Member{}, err
	}
	if err := t.voidInvitations(ctx, id); err != nil {
		return identity.Member{}, err
	}
	err := t.exec(ctx, `WITH again AS (UPDATE members SET role = $3 WHERE workspace_id = $1 AND user_id = $2 AND accepted_at IS NULL RETURNING user_id)
		INSERT INTO members (workspace_id, user_id, role, created_at) SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT FROM again)`, t.workspace, id, role, at)
	if err != nil {
		return identity.Member{}, err
	}
	return t.Member(ctx, id)
}

func (t *Tx) voidInvitations(ctx context.Context, id domain.UserID) error {
	return t.exec(ctx, `UPDATE invitations i SET used_at = now() FROM users u
		WHERE i.workspace_id = $1 AND u.id = $2 AND i.email = u.email AND i.used_at IS NULL`, t.workspace, id)
}

// UpdateMember implements identity.Tx.
func (t *Tx) UpdateMember(ctx context.Context, id domain.UserID, role domain.Role) error {
	if err := t.notifySessions(ctx, id); err != nil {
		return err
	}
	return t.execOne(ctx, domain.NotFound("member", id), `UPDATE members SET role = $3 WHERE workspace_id = $1 AND user_id = $2`, t.workspace, id, role)
}

// DeleteMember implements identity.Tx. The foreign keys delete the membership's sessions and
// keys. Unused one-time links become used.
func (t *Tx) DeleteMember(ctx context.Context, id domain.UserID) error {
	if err := t.notifySessions(ctx, id); err != nil {
		return err
	}
	if err := t.voidInvitations(ctx, id); err != nil {
		return err
	}
	return t.execOne(ctx, domain.NotFound("member", id), `DELETE FROM members WHERE workspace_id = $1 AND user_id = $2`, t.workspace, id)
}

// LockAdmins implements identity.Tx.
func (t *Tx) LockAdmins(ctx context.Context) (able []domain.UserID, err error) {
	err = t.sel(ctx, &able, `SELECT user_id FROM members WHERE workspace_id = $1 AND role = 'admin' AND accepted_at IS NOT NULL
		ORDER BY user_id FOR UPDATE`, t.workspace)
	return able, err
}

// InsertInvitation implements identity.Tx.
func (t *Tx) InsertInvitation(ctx context.Context, i identity.Invitation) error {
	return t.exec(ctx, insertInvitation, t.workspace, i.TokenHash, i.Email, i.Role, i.ExpiresAt)
}

const insertInvitation = `INSERT INTO invitations (workspace_id, token_hash, email, role, expires_at) VALUES ($1, $2, NULLIF($3, ''), $4, $5)`

// notifySessions notifies the connections of the user's open sessions in this workspace, which are
// then checked again.
func (t *Tx) notifySessions(ctx context.Context, id domain.UserID) error {
	var sessions []domain.SessionID
	if err := t.sel(ctx, &sessions, `SELECT id FROM sessions WHERE workspace_id = $1 AND user_id = $2 AND ended_at IS NULL`, t.workspace, id); err != nil {
		return err
	}
	for _, s := range sessions {
		t.Notify(domain.SessionTopic(s))
	}
	return nil
}
