package domain

import (
	"context"
	"net/mail"
	"strings"
	"time"
	"unicode"
)

// User is a person who signs in with a password, after setting it. A user may be a member of
// several workspaces.
type User struct {
	ID        UserID
	Email     string // lower case, unique in the instance
	Name      string
	CreatedAt time.Time
}

// Member is a user's membership in a workspace. It grants nothing until the user has accepted it by
// a one-time link.
type Member struct {
	User       User
	Role       Role
	CreatedAt  time.Time
	AcceptedAt *time.Time // nil until the invitation is accepted
}

// Invitation lets a person join a workspace, once: with the account's password, or by setting the
// first one. Only the hash of its token is stored.
type Invitation struct {
	TokenHash []byte // SHA-256
	Email     string // empty for the first administrator, who chooses it
	Role      Role
	ExpiresAt time.Time
}

// invitationLife is how long a one-time link works.
const invitationLife = 7 * 24 * time.Hour

// MemberTx reads and writes the members of the workspace.
type MemberTx interface {
	Member(ctx context.Context, id UserID) (Member, error)
	// Members returns at most limit members after the user with the id, in the order of their
	// accounts' creation.
	Members(ctx context.Context, after UserID, limit int) ([]Member, error)
	// Users returns the members of the workspace with the ids.
	Users(ctx context.Context, ids []UserID) ([]User, error)
	// InsertMember invites the user with the e-mail, and creates the user if needed. A pending
	// member gets the new role, and earlier invitations become invalid. It returns CodeConflict if
	// the member has accepted.
	InsertMember(ctx context.Context, u User, role Role, at time.Time) (Member, error)
	UpdateMember(ctx context.Context, id UserID, role Role) error
	// DeleteMember deletes the membership, and the member's sessions, keys and invitations in this
	// workspace.
	DeleteMember(ctx context.Context, id UserID) error
	// LockAdmins locks the memberships of the admins who have accepted, and returns their ids.
	LockAdmins(ctx context.Context) ([]UserID, error)
	InsertInvitation(ctx context.Context, i Invitation) error
}

// Members manages the members of a workspace and their roles.
type Members struct {
	Store Store[IdentityModTx]
	Clock Clock
}

// NormalizeEmail returns the address in lower case, or an error about the field "email".
func NormalizeEmail(s string) (string, error) {
	s = strings.TrimSpace(s)
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 {
		return "", Invalid("email", "%q is not an e-mail address.", s)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", Invalid("email", "%q holds a character that cannot be shown; leave it out.", s)
	}
	return strings.ToLower(s), nil
}

// NormalizeUserName returns a user's name without surrounding space, or an error about the field
// "name". The name may be empty.
func NormalizeUserName(s string) (string, error) { return OptionalName("name", s) }

// List returns members, in the order of their accounts' creation.
func (m *Members) List(ctx context.Context, s Scope, p Page) (List[Member], error) {
	const list = "members"
	if err := Authorize(ctx, m.Store, s, MemberRead); err != nil {
		return List[Member]{}, err
	}
	after, limit, err := p.After(list)
	if err != nil {
		return List[Member]{}, err
	}
	var rows []Member
	err = m.Store.In(ctx, s, func(tx IdentityModTx) (err error) {
		rows, err = tx.Members(ctx, UserID(after), limit+1)
		return err
	})
	return PageOf(list, rows, limit, func(m Member) string { return string(m.User.ID) }), err
}

// Users returns the members of the workspace with the ids.
func (m *Members) Users(ctx context.Context, s Scope, ids []UserID) (users []User, err error) {
	if err := Authorize(ctx, m.Store, s, MemberRead); err != nil {
		return nil, err
	}
	err = m.Store.In(ctx, s, func(tx IdentityModTx) (err error) {
		users, err = tx.Users(ctx, ids)
		return err
	})
	return users, err
}

// Add invites a person as a member. It returns the token of the one-time link for accepting, which
// is not stored. A new link for a pending member replaces the previous one.
func (m *Members) Add(ctx context.Context, s Scope, email, name string, role Role) (member Member, token string, err error) {
	if err := Authorize(ctx, m.Store, s, MemberManage); err != nil {
		return Member{}, "", err
	}
	if email, err = NormalizeEmail(email); err != nil {
		return Member{}, "", err
	}
	if role, err = ParseRole(string(role)); err != nil {
		return Member{}, "", err
	}
	if name, err = NormalizeUserName(name); err != nil {
		return Member{}, "", err
	}
	now := m.Clock.Now()
	user := User{ID: NewID[UserID](PrefixUser), Email: email, Name: name, CreatedAt: now}
	err = m.Store.In(ctx, s, func(tx IdentityModTx) error {
		if member, err = tx.InsertMember(ctx, user, role, now); err != nil {
			return err
		}
		token = NewSecret()
		inv := Invitation{TokenHash: HashSecret(token), Email: email, Role: role, ExpiresAt: now.Add(invitationLife)}
		if err := tx.InsertInvitation(ctx, inv); err != nil {
			return err
		}
		return Audited(ctx, tx, s, MemberManage, "member", member.User.ID)
	})
	if err != nil {
		return Member{}, "", err
	}
	return member, token, nil
}

// Update changes a member's role, which takes effect at once in open sessions. It returns
// CodeConflict for the last admin who can sign in.
func (m *Members) Update(ctx context.Context, s Scope, id UserID, role Role) (member Member, err error) {
	if err := Authorize(ctx, m.Store, s, MemberManage); err != nil {
		return Member{}, err
	}
	if role, err = ParseRole(string(role)); err != nil {
		return Member{}, err
	}
	err = m.Store.In(ctx, s, func(tx IdentityModTx) error {
		if err := keepAnAdmin(ctx, tx, id, role); err != nil {
			return err
		}
		if err := tx.UpdateMember(ctx, id, role); err != nil {
			return err
		}
		if member, err = tx.Member(ctx, id); err != nil {
			return err
		}
		return Audited(ctx, tx, s, MemberManage, "member", id)
	})
	return member, err
}

// Remove deletes a membership or an invitation, with the member's sessions, keys and links in this
// workspace. It returns CodeConflict for the last admin who can sign in.
func (m *Members) Remove(ctx context.Context, s Scope, id UserID) error {
	if err := Authorize(ctx, m.Store, s, MemberManage); err != nil {
		return err
	}
	return m.Store.In(ctx, s, func(tx IdentityModTx) error {
		if err := keepAnAdmin(ctx, tx, id, ""); err != nil {
			return err
		}
		if err := tx.DeleteMember(ctx, id); err != nil {
			return err
		}
		return Audited(ctx, tx, s, MemberManage, "member", id)
	})
}

func keepAnAdmin(ctx context.Context, tx IdentityModTx, id UserID, role Role) error {
	admins, err := tx.LockAdmins(ctx)
	if err != nil {
		return err
	}
	member, err := tx.Member(ctx, id)
	if err != nil {
		return err
	}
	if role != RoleAdmin && len(admins) == 1 && admins[0] == id {
		return Errorf(CodeConflict, "%s is the only admin who can sign in; first make another member an admin who has accepted the invitation.", member.User.Email)
	}
	return nil
}
