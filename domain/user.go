package domain

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/mail"
	"strings"
	"time"
	"unicode"
)

// User is somebody with a password. A user may be a member of several workspaces.
type User struct {
	ID        UserID
	Email     string // lower case, unique in the instance
	Name      string
	CreatedAt time.Time
}

// Member is a user's place in a workspace.
type Member struct {
	User      User
	Role      Role
	CreatedAt time.Time
}

// Invitation lets somebody set the password of a new user, once. Only the hash of its token is kept.
type Invitation struct {
	TokenHash []byte // SHA-256
	Email     string // empty for the first administrator, who chooses
	Role      Role
	ExpiresAt time.Time
}

// invitationLife is how long a one-time link works.
const invitationLife = 7 * 24 * time.Hour

// MemberTx reads and writes the members of the workspace.
type MemberTx interface {
	Member(ctx context.Context, id UserID) (Member, error)
	// Members are in the order of joining: after the user with that id, at most limit.
	Members(ctx context.Context, after UserID, limit int) ([]Member, error)
	// Users returns those of the ids that are or were members of the workspace.
	Users(ctx context.Context, ids []UserID) ([]User, error)
	// InsertMember adds the user with the e-mail, made when there is none; fresh says that it has no password and is
	// a member of no other workspace, so that an invitation may be given.
	InsertMember(ctx context.Context, u User, role Role, at time.Time) (m Member, fresh bool, err error)
	UpdateMember(ctx context.Context, id UserID, role Role) error
	// DeleteMember ends the membership, the member's sessions and keys in this workspace.
	DeleteMember(ctx context.Context, id UserID) error
	// LockAdmins locks the memberships of admins and returns how many there are.
	LockAdmins(ctx context.Context) (int, error)
	InsertInvitation(ctx context.Context, i Invitation) error
}

// Members are who may enter a workspace, and as what.
type Members struct {
	Store Store
	Clock Clock
}

// NormalizeEmail returns the address in lower case, or an error of the field "email".
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

// NormalizeUserName returns a user's name, which may be empty, without space around it, or an error of the field "name".
func NormalizeUserName(s string) (string, error) { return optionalName("name", s) }

// List returns members, oldest first.
func (m *Members) List(ctx context.Context, s Scope, p Page) (List[Member], error) {
	const list = "members"
	if err := authorize(ctx, m.Store, s, MemberRead); err != nil {
		return List[Member]{}, err
	}
	after, limit, err := p.after(list)
	if err != nil {
		return List[Member]{}, err
	}
	var rows []Member
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.Members(ctx, UserID(after), limit+1)
		return err
	})
	return page(list, rows, limit, func(m Member) string { return string(m.User.ID) }), err
}

// Users returns those of the ids that are or were members of the workspace.
func (m *Members) Users(ctx context.Context, s Scope, ids []UserID) (users []User, err error) {
	if err := authorize(ctx, m.Store, s, MemberRead); err != nil {
		return nil, err
	}
	err = m.Store.In(ctx, s, func(tx Tx) (err error) {
		users, err = tx.Users(ctx, ids)
		return err
	})
	return users, err
}

// Add makes somebody a member. For somebody who has no password yet it returns the token of a one-time link; it is not kept.
func (m *Members) Add(ctx context.Context, s Scope, email, name string, role Role) (member Member, token string, err error) {
	if err := authorize(ctx, m.Store, s, MemberManage); err != nil {
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
	user := User{ID: newID[UserID](prefixUser), Email: email, Name: name, CreatedAt: now}
	err = m.Store.In(ctx, s, func(tx Tx) error {
		var fresh bool
		if member, fresh, err = tx.InsertMember(ctx, user, role, now); err != nil {
			return err
		}
		if fresh {
			token = newSecret()
			inv := Invitation{TokenHash: HashSecret(token), Email: email, Role: role, ExpiresAt: now.Add(invitationLife)}
			if err := tx.InsertInvitation(ctx, inv); err != nil {
				return err
			}
		}
		return audited(ctx, tx, s, MemberManage, "member", member.User.ID)
	})
	return member, token, err
}

// Update changes a member's role, at once for the sessions that are open. The last admin stays one.
func (m *Members) Update(ctx context.Context, s Scope, id UserID, role Role) (member Member, err error) {
	if err := authorize(ctx, m.Store, s, MemberManage); err != nil {
		return Member{}, err
	}
	if role, err = ParseRole(string(role)); err != nil {
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
		return audited(ctx, tx, s, MemberManage, "member", id)
	})
	return member, err
}

// Remove ends a membership: the member's sessions and keys in this workspace end with it.
func (m *Members) Remove(ctx context.Context, s Scope, id UserID) error {
	if err := authorize(ctx, m.Store, s, MemberManage); err != nil {
		return err
	}
	return m.Store.In(ctx, s, func(tx Tx) error {
		if err := keepAnAdmin(ctx, tx, id, ""); err != nil {
			return err
		}
		if err := tx.DeleteMember(ctx, id); err != nil {
			return err
		}
		return audited(ctx, tx, s, MemberManage, "member", id)
	})
}

func keepAnAdmin(ctx context.Context, tx Tx, id UserID, role Role) error {
	admins, err := tx.LockAdmins(ctx)
	if err != nil {
		return err
	}
	member, err := tx.Member(ctx, id)
	if err != nil {
		return err
	}
	if member.Role == RoleAdmin && role != RoleAdmin && admins == 1 {
		return Errorf(CodeConflict, "%s is the only admin; make somebody else an admin first.", member.User.Email)
	}
	return nil
}

// newSecret returns 256 random bits in URL-safe base 64.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret is how secrets of 256 random bits are kept. They need no slow hash: they cannot be guessed.
func HashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}
