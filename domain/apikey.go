package domain

import (
	"context"
	"time"
)

// APIKeyPrefix begins every API key's secret, from the specification.
const APIKeyPrefix = "svc_sk_"

// APIKeyRetention is how long an expired key stays in the list, from the specification.
const APIKeyRetention = 30 * 24 * time.Hour

// APIKey is a long-lived credential for CI and scripts. Its secret is shown once; only its hash is
// stored.
type APIKey struct {
	ID         APIKeyID
	Name       string
	Hint       string // the secret's first characters
	Role       Role   // at each use, limited to the current role of its creator
	CreatedBy  UserID
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time // to the minute
}

// APIKeyTx reads and writes API keys.
type APIKeyTx interface {
	APIKey(ctx context.Context, id APIKeyID) (APIKey, error)
	// APIKeys returns keys, newest first: one creator's, or all keys if maker is empty.
	APIKeys(ctx context.Context, maker UserID, before APIKeyID, limit int) ([]APIKey, error)
	InsertAPIKey(ctx context.Context, k APIKey, hash []byte) error
	RevokeAPIKey(ctx context.Context, id APIKeyID, at time.Time) error
}

// APIKeys creates and revokes API keys.
type APIKeys struct {
	Store Store[IdentityModTx]
	Clock Clock
}

// List returns keys, newest first: admins see all keys, others their own.
func (a *APIKeys) List(ctx context.Context, s Scope, p Page) (List[APIKey], error) {
	if err := Authorize(ctx, a.Store, s, APIKeyRead); err != nil {
		return List[APIKey]{}, err
	}
	maker := s.UserID()
	if s.Role().Allows(APIKeyManage) {
		maker = ""
	} else if maker == "" {
		return List[APIKey]{}, nil
	}
	list := ListName("api_keys", maker)
	before, limit, err := p.After(list)
	if err != nil {
		return List[APIKey]{}, err
	}
	var rows []APIKey
	err = a.Store.In(ctx, s, func(tx IdentityModTx) (err error) {
		rows, err = tx.APIKeys(ctx, maker, APIKeyID(before), limit+1)
		return err
	})
	return PageOf(list, rows, limit, func(k APIKey) string { return string(k.ID) }), err
}

// NewAPIKey describes the key to create. An empty Role stands for RoleViewer.
type NewAPIKey struct {
	Name      string
	Role      Role
	ExpiresAt *time.Time
}

// Create generates a key and returns its secret, which is not stored. Only users create keys, so
// that a person is accountable for each.
func (a *APIKeys) Create(ctx context.Context, s Scope, n NewAPIKey) (key APIKey, secret string, err error) {
	if err := Authorize(ctx, a.Store, s, APIKeyCreate); err != nil {
		return APIKey{}, "", err
	}
	if s.UserID() == "" {
		return APIKey{}, "", Errorf(CodeForbidden, "Only a signed-in user can make API keys.")
	}
	now := a.Clock.Now()
	if key, err = n.key(s, now); err != nil {
		return APIKey{}, "", err
	}
	secret = APIKeyPrefix + NewSecret()
	key.Hint = secret[:len(APIKeyPrefix)+4]
	err = a.Store.In(ctx, s, func(tx IdentityModTx) error {
		if err := tx.InsertAPIKey(ctx, key, HashSecret(secret)); err != nil {
			return err
		}
		return Audited(ctx, tx, s, APIKeyCreate, "api_key", key.ID)
	})
	return key, secret, err
}

func (n NewAPIKey) key(s Scope, now time.Time) (APIKey, error) {
	name, err := ValidName("name", n.Name)
	if err != nil {
		return APIKey{}, err
	}
	role := n.Role
	if role == "" {
		role = RoleViewer
	}
	if role, err = ParseRole(string(role)); err != nil {
		return APIKey{}, err
	}
	if !role.AtMost(s.Role()) {
		return APIKey{}, Errorf(CodeForbidden, "A key can have at most your own role, %s.", s.Role())
	}
	if n.ExpiresAt != nil && !n.ExpiresAt.After(now) {
		return APIKey{}, Invalid("expires_at", "expires_at has passed; give a time in the future.")
	}
	return APIKey{
		ID: NewID[APIKeyID](PrefixAPIKey), Name: name, Role: role,
		CreatedBy: s.UserID(), CreatedAt: now, ExpiresAt: n.ExpiresAt,
	}, nil
}

// Revoke invalidates the key immediately. Only admins can revoke keys of others; other callers get
// CodeNotFound.
func (a *APIKeys) Revoke(ctx context.Context, s Scope, id APIKeyID) (key APIKey, err error) {
	if err := Authorize(ctx, a.Store, s, APIKeyRevoke); err != nil {
		return APIKey{}, err
	}
	now := a.Clock.Now()
	err = a.Store.In(ctx, s, func(tx IdentityModTx) error {
		if key, err = tx.APIKey(ctx, id); err != nil {
			return err
		}
		if key.CreatedBy != s.UserID() && !s.Role().Allows(APIKeyManage) {
			return NotFound("API key", id)
		}
		if key.RevokedAt != nil {
			return Errorf(CodeConflict, "The key is already revoked.")
		}
		key.RevokedAt = &now
		if err := tx.RevokeAPIKey(ctx, id, now); err != nil {
			return err
		}
		return Audited(ctx, tx, s, APIKeyRevoke, "api_key", id)
	})
	return key, err
}
