package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

type invitedRow struct {
	Workspace domain.WorkspaceID `db:"workspace_id"`
	Email     string             `db:"email"`
	Role      domain.Role        `db:"role"`
}

// Invitation implements auth.Store.
func (s *System) Invitation(ctx context.Context, tokenHash []byte, at time.Time) (auth.Invited, error) {
	var row invitedRow
	err := s.db.GetContext(ctx, &row, `SELECT workspace_id, COALESCE(email, '') AS email, role FROM invitations
		WHERE token_hash = $1 AND used_at IS NULL AND expires_at > $2`, tokenHash, at)
	return auth.Invited(row), mapError(orMissing(err, errUnknown))
}

// AcceptInvitation implements auth.Store. It locks user, invitation and member, in this order.
func (s *System) AcceptInvitation(ctx context.Context, a auth.Acceptance, row func(auth.Session) domain.AuditEvent) (session auth.Session, err error) {
	err = s.in(ctx, func(tx *sqlx.Tx) error {
		account, err := lockAccount(ctx, tx, a.User)
		if err != nil {
			return err
		}
		inv, err := useInvitation(ctx, tx, a)
		if err != nil {
			return err
		}
		user, err := account.enter(ctx, tx, a, inv.Email != "")
		if err != nil {
			return err
		}
		n := a.Session
		n.Workspace, n.User = inv.Workspace, user.ID
		session = auth.Session{ID: n.ID, Workspace: n.Workspace, User: user, ExpiresAt: n.ExpiresAt}
		if session.Role, err = join(ctx, tx, n, inv); err != nil {
			return err
		}
		return insertSession(ctx, tx, n, row(session))
	})
	return session, err
}

type accountRow struct {
	ID        domain.UserID `db:"id"`
	Name      string        `db:"name"`
	Hash      string        `db:"password_hash"` // empty without a password
	CreatedAt time.Time     `db:"created_at"`
}

// lockAccount returns the user with the e-mail, and creates a missing one. It waits for a
// concurrent insert of the user.
func lockAccount(ctx context.Context, tx *sqlx.Tx, u identity.User) (row accountRow, err error) {
	_, err = tx.ExecContext(ctx, `INSERT INTO users (id, email, name, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (email) DO NOTHING`, u.ID, u.Email, u.Name, u.CreatedAt)
	if err != nil {
		return row, err
	}
	err = tx.GetContext(ctx, &row, `SELECT id, name, COALESCE(password_hash, '') AS password_hash, created_at FROM users WHERE email = $1 FOR UPDATE`, u.Email)
	return row, err
}

func useInvitation(ctx context.Context, tx *sqlx.Tx, a auth.Acceptance) (auth.Invited, error) {
	var row invitedRow
	err := tx.GetContext(ctx, &row, `UPDATE invitations SET used_at = $2
		WHERE token_hash = $1 AND used_at IS NULL AND expires_at > $2 AND COALESCE(email, $3) = $3
		RETURNING workspace_id, COALESCE(email, '') AS email, role`, a.TokenHash, a.Session.CreatedAt, a.User.Email)
	return auth.Invited(row), orMissing(err, errUnknown)
}

// enter accepts a user who gave the right password, and sets a first password but never another. An
// anonymous link sets no password for a user whom a workspace has invited: only that invitation's
// link may.
func (r accountRow) enter(ctx context.Context, tx *sqlx.Tx, a auth.Acceptance, named bool) (identity.User, error) {
	user := identity.User{ID: r.ID, Email: a.User.Email, Name: r.Name, CreatedAt: r.CreatedAt.UTC()}
	if r.Hash != a.Checked {
		return identity.User{}, domain.Errorf(domain.CodeConflict, "The password of %s was changed at this moment; try again.", user.Email)
	}
	if r.Hash != "" {
		return user, nil
	}
	var invited bool
	if err := tx.GetContext(ctx, &invited, `SELECT EXISTS (SELECT FROM members WHERE user_id = $1)`, r.ID); err != nil {
		return identity.User{}, err
	}
	if invited && !named {
		return identity.User{}, domain.Errorf(domain.CodeConflict, "%s is invited already and has no password yet: open the link of that invitation to set it, "+
			"then open this one again. Or use another e-mail address here.", user.Email)
	}
	if a.User.Name != "" {
		user.Name = a.User.Name
	}
	_, err := tx.ExecContext(ctx, `UPDATE users SET password_hash = $2, name = $3 WHERE id = $1`, r.ID, a.PasswordHash, user.Name)
	return user, err
}

// join makes the session's user a member and returns the role. A named invitation must still be
// open: removing it, or a newer link, voids this one.
func join(ctx context.Context, tx *sqlx.Tx, n auth.NewSession, inv auth.Invited) (role domain.Role, err error) {
	if inv.Email == "" {
		_, err = tx.ExecContext(ctx, `INSERT INTO members (workspace_id, user_id, role, created_at, accepted_at) VALUES ($1, $2, $3, $4, $4)
			ON CONFLICT (workspace_id, user_id) DO UPDATE SET role = EXCLUDED.role, accepted_at = COALESCE(members.accepted_at, EXCLUDED.accepted_at)`,
			n.Workspace, n.User, inv.Role, n.CreatedAt)
		return inv.Role, err
	}
	err = tx.GetContext(ctx, &role, `UPDATE members SET accepted_at = $3 WHERE workspace_id = $1 AND user_id = $2 AND accepted_at IS NULL RETURNING role`,
		n.Workspace, n.User, n.CreatedAt)
	return role, orMissing(err, errUnknown)
}
