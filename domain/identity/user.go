package identity

import (
	"context"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"github.com/millpond/millpond/domain"
)

// User is a person who signs in with a password, after setting it. A user may be a member of
// several workspaces.
type User struct {
	ID        domain.UserID
	Email     string // lower case, unique in the instance
	Name      string
	CreatedAt time.Time
}

// Member is a user's membership in a workspace. It grants nothing until the user has accepted it by
// a one-time link.
type Member struct {
	User       User
	Role       domain.Role
	CreatedAt  time.Time
	AcceptedAt *time.Time // nil until the invitation is accepted
}

// Invitation lets a person join a workspace, once: with the account's password, or by setting the
// first one. Only the hash of its token is stored.
type Invitation struct {
	TokenHash []byte // SHA-256
	Email     string // empty for the first administrator, who chooses it
	Role      domain.Role
	ExpiresAt time.Time
}

// InvitationLife is how long a one-time link works.
const InvitationLife = 7 * 24 * time.Hour

// memberTx reads and writes the members of the workspace.
type memberTx interface {
	Member(ctx context.Context, id domain.UserID) (Member, error)
	// Members returns at most limit members after the user with the id, in the order of their
	// accounts' creation.
	Members(ctx context.Context, after domain.UserID, limit int) ([]Member, error)
	// Users returns the members of the workspace with the ids.
	Users(ctx context.Context, ids []domain.UserID) ([]User, error)
	// InsertMember invites the user with the e-mail, and creates the user if needed. A pending
	// member gets the new role, and earlier invitations become invalid. It returns CodeConflict if
	// the member has accepted.
	InsertMember(ctx context.Context, u User, role domain.Role, at time.Time) (Member, error)
	UpdateMember(ctx context.Context, id domain.UserID, role domain.Role) error
	// DeleteMember deletes the membership, and the member's sessions, keys and invitations in this
	// workspace.
	DeleteMember(ctx context.Context, id domain.UserID) error
	// LockAdmins locks the memberships of the admins who have accepted, and returns their ids.
	LockAdmins(ctx context.Context) ([]domain.UserID, error)
	InsertInvitation(ctx context.Context, i Invitation) error
}

// Members manages the members of a workspace and their roles.
type Members struct {
	Store domain.Store[Tx]
	Clock domain.Clock
}

// NormalizeEmail returns the address in lower case, or an error about the field "email".
func NormalizeEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 {
		return "", domain.Invalid("email", "%q is not an e-mail address.", s)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", domain.Invalid("email", "%q holds a character that cannot be shown; leave it out.", s)
	}
	return strings.ToLower(s), nil
}

// NormalizeUserName returns a user's name without surrounding space, or an error about the field
// "name". The name may be empty.
func NormalizeUserName(s string) (string, error) { return domain.OptionalName("name", s) }

// List returns members, in the order of their accounts' creation.
func (m *Members) List(ctx context.Context, s domain.Scope, p domain.Page) (domain.List[Member], error) {
	const list = "members"
	if err := domain.Authorize(ctx, m.Store, s, domain.MemberRead); err != nil {
		return domain.List[Member]{}, err
	}
	after, limit, err := p.After(list)
	if err != nil {
		return domain.List[Member]{}, err
	}
	var rows []Member
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Members(ctx, domain.UserID(after), limit+1)
		return err
	})
	return domain.PageOf(list, rows, limit, func(m Member) string { return string(m.User.ID) }), err
}

// Users returns the members of the workspace with the ids.
func (m *Members) Users(ctx context.Context, s domain.Scope, ids []domain.UserID) (users []User, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MemberRead); err != nil {
		return nil, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		users, err = tx.Users(ctx, ids)
		return err
	})
	return users, err
}

// Add invites a person as a member. It returns the token of the one-time link for accepting, which
// is not stored. A new link for a pending member replaces the previous one.
func (m *Members) Add(ctx context.Context, s domain.Scope, email, name string, role domain.Role) (member Member, token string, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MemberManage); err != nil {
		return Member{}, "", err
	}
	if email, err = NormalizeEmail(email); err != nil {
		return Member{}, "", err
	}
	if role, err = domain.ParseRole(string(role)); err != nil {
		return Member{}, "", err
	}
	if name, err = NormalizeUserName(name); err != nil {
		return Member{}, "", err
	}
	now := m.Clock.Now()
	user := User{ID: domain.NewID[domain.UserID](domain.PrefixUser), Email: email, Name: name, CreatedAt: now}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if member, err = tx.InsertMember(ctx, user, role, now); err != nil {
			return err
		}
		token = domain.NewSecret()
		inv := Invitation{TokenHash: domain.HashSecret(token), Email: email, Role: role, ExpiresAt: now.Add(InvitationLife)}
		if err := tx.InsertInvitation(ctx, inv); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.MemberManage, "member", member.User.ID)
	})
	if err != nil {
		return Member{}, "", err
	}
	return member, token, nil
}

// Update changes a member's role, which takes effect at once in open sessions. It returns
// CodeConflict for the last admin who can sign in.
func (m *Members) Update(ctx context.Context, s domain.Scope, id domain.UserID, role domain.Role) (member Member, err error) {
	if err := domain.Authorize(ctx, m.Store, s, domain.MemberManage); err != nil {
		return Member{}, err
	}
	if role, err = domain.ParseRole(string(role)); err != nil {
		return Member{}, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		if err := keepAnAdmin(ctx, tx, id, role); err != nil {
			return err
		}
		if err := tx.UpdateMember(ctx, id, role); err != nil {
			return err
		}
		if member, err = tx.Member(ctx, id); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.MemberManage, "member", id)
	})
	return member, err
}

// Remove deletes a membership or an invitation, with the member's sessions, keys and links in this
// workspace. It returns CodeConflict for the last admin who can sign in.
func (m *Members) Remove(ctx context.Context, s domain.Scope, id domain.UserID) error {
	if err := domain.Authorize(ctx, m.Store, s, domain.MemberManage); err != nil {
		return err
	}
	return m.Store.In(ctx, s, func(tx Tx) error {
		if err := keepAnAdmin(ctx, tx, id, ""); err != nil {
			return err
		}
		if err := tx.DeleteMember(ctx, id); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.MemberManage, "member", id)
	})
}

func keepAnAdmin(ctx context.Context, tx Tx, id domain.UserID, role domain.Role) error {
	admins, err := tx.LockAdmins(ctx)
	if err != nil {
		return err
	}
	member, err := tx.Member(ctx, id)
	if err != nil {
		return err
	}
	if role != domain.RoleAdmin && len(admins) == 1 && admins[0] == id {
		return domain.Errorf(domain.CodeConflict, "%s is the only admin who can sign in; first make another member an admin who has accepted the invitation.", member.User.Email)
	}
	return nil
}
