package identity

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// APIKeyPrefix begins every API key's secret, from the specification.
const APIKeyPrefix = "svc_sk_"

// APIKeyRetention is how long an expired key stays in the list, from the specification.
const APIKeyRetention = 30 * 24 * time.Hour

// APIKey is a long-lived credential for CI and scripts. Its secret is shown once; only its hash is
// stored.
type APIKey struct {
	ID         domain.APIKeyID
	Name       string
	Hint       string      // the secret's first characters
	Role       domain.Role // at each use, limited to the current role of its creator
	CreatedBy  domain.UserID
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
	LastUsedAt *time.Time // to the minute
}

// apiKeyTx reads and writes API keys.
type apiKeyTx interface {
	APIKey(ctx context.Context, id domain.APIKeyID) (APIKey, error)
	// APIKeys returns keys, newest first: one creator's, or all keys if maker is empty.
	APIKeys(ctx context.Context, maker domain.UserID, before domain.APIKeyID, limit int) ([]APIKey, error)
	InsertAPIKey(ctx context.Context, k APIKey, hash []byte) error
	RevokeAPIKey(ctx context.Context, id domain.APIKeyID, at time.Time) error
}

// APIKeys creates and revokes API keys.
type APIKeys struct {
	Store domain.Store[Tx]
	Clock domain.Clock
}

// List returns keys, newest first: admins see all keys, others their own.
func (a *APIKeys) List(ctx context.Context, s domain.Scope, p domain.Page) (domain.List[APIKey], error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.APIKeyRead); err != nil {
		return domain.List[APIKey]{}, err
	}
	maker := s.UserID()
	if s.Role().Allows(domain.APIKeyManage) {
		maker = ""
	} else if maker == "" {
		return domain.List[APIKey]{}, nil
	}
	list := domain.ListName("api_keys", maker)
	before, limit, err := p.After(list)
	if err != nil {
		return domain.List[APIKey]{}, err
	}
	var rows []APIKey
	err = a.Store.In(ctx, s, func(tx Tx) (err error) {
		rows, err = tx.APIKeys(ctx, maker, domain.APIKeyID(before), limit+1)
		return err
	})
	return domain.PageOf(list, rows, limit, func(k APIKey) string { return string(k.ID) }), err
}

// NewAPIKey describes the key to create. An empty Role stands for RoleViewer.
type NewAPIKey struct {
	Name      string
	Role      domain.Role
	ExpiresAt *time.Time
}

// Create generates a key and returns its secret, which is not stored. Only users create keys, so
// that a person is accountable for each.
func (a *APIKeys) Create(ctx context.Context, s domain.Scope, n NewAPIKey) (key APIKey, secret string, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.APIKeyCreate); err != nil {
		return APIKey{}, "", err
	}
	if s.UserID() == "" {
		return APIKey{}, "", domain.Errorf(domain.CodeForbidden, "Only a signed-in user can make API keys.")
	}
	now := a.Clock.Now()
	if key, err = n.key(s, now); err != nil {
		return APIKey{}, "", err
	}
	secret = APIKeyPrefix + domain.NewSecret()
	key.Hint = secret[:len(APIKeyPrefix)+4]
	err = a.Store.In(ctx, s, func(tx Tx) error {
		if err := tx.InsertAPIKey(ctx, key, domain.HashSecret(secret)); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.APIKeyCreate, "api_key", key.ID)
	})
	return key, secret, err
}

func (n NewAPIKey) key(s domain.Scope, now time.Time) (APIKey, error) {
	name, err := domain.ValidName("name", n.Name)
	if err != nil {
		return APIKey{}, err
	}
	role := n.Role
	if role == "" {
		role = domain.RoleViewer
	}
	if role, err = domain.ParseRole(string(role)); err != nil {
		return APIKey{}, err
	}
	if !role.AtMost(s.Role()) {
		return APIKey{}, domain.Errorf(domain.CodeForbidden, "A key can have at most your own role, %s.", s.Role())
	}
	if n.ExpiresAt != nil && !n.ExpiresAt.After(now) {
		return APIKey{}, domain.Invalid("expires_at", "expires_at has passed; give a time in the future.")
	}
	return APIKey{
		ID: domain.NewID[domain.APIKeyID](domain.PrefixAPIKey), Name: name, Role: role,
		CreatedBy: s.UserID(), CreatedAt: now, ExpiresAt: n.ExpiresAt,
	}, nil
}

// Revoke invalidates the key immediately. Only admins can revoke keys of others; other callers get
// CodeNotFound.
func (a *APIKeys) Revoke(ctx context.Context, s domain.Scope, id domain.APIKeyID) (key APIKey, err error) {
	if err := domain.Authorize(ctx, a.Store, s, domain.APIKeyRevoke); err != nil {
		return APIKey{}, err
	}
	now := a.Clock.Now()
	err = a.Store.In(ctx, s, func(tx Tx) error {
		if key, err = tx.APIKey(ctx, id); err != nil {
			return err
		}
		if key.CreatedBy != s.UserID() && !s.Role().Allows(domain.APIKeyManage) {
			return domain.NotFound("API key", id)
		}
		if key.RevokedAt != nil {
			return domain.Errorf(domain.CodeConflict, "The key is already revoked.")
		}
		key.RevokedAt = &now
		if err := tx.RevokeAPIKey(ctx, id, now); err != nil {
			return err
		}
		return domain.Audited(ctx, tx, s, domain.APIKeyRevoke, "api_key", id)
	})
	return key, err
}
