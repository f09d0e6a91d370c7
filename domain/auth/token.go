package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/millpond/millpond/domain"
)

// AccessTokenLife is the lifetime of an access token, from the specification.
const AccessTokenLife = time.Hour

// keyLife is how long a key signs before the next one replaces it. It verifies as long as it is in
// the database.
const keyLife = 30 * 24 * time.Hour

// Prefixes of tokens that are derived from an id. They are valid as long as the attempt or
// statement is alive.
const (
	RunTokenPrefix       = "mp_run_" // of an attempt's process
	StatementTokenPrefix = "mp_stm_" // of a statement on its engine
	ReadingTokenPrefix   = "mp_str_" // of a statement on its engine, read only
)

// KeyTokenPrefix begins a catalog token that is derived from an API key, for Iceberg clients. It is
// valid for KeyTokenLife, and not longer than the key.
const (
	KeyTokenPrefix = "mp_ice_"
	KeyTokenLife   = time.Hour
)

// Keys signs and verifies tokens with the instance's keys. All replicas share them through the
// database.
type Keys struct {
	store Store
	clock domain.Clock

	mu   sync.Mutex
	keys []SigningKey // newest first
}

// NewKeys loads the keys. It calls Rotate, which adds one if needed.
func NewKeys(ctx context.Context, store Store, clock domain.Clock) (*Keys, error) {
	k := &Keys{store: store, clock: clock}
	return k, k.Rotate(ctx)
}

// Rotate loads the keys and adds a new one if the newest is older than keyLife. Every replica calls
// it every few minutes.
func (k *Keys) Rotate(ctx context.Context) error {
	keys, err := k.store.SigningKeys(ctx)
	if err != nil {
		return err
	}
	now := k.clock.Now()
	if len(keys) == 0 || now.Sub(keys[0].CreatedAt) > keyLife {
		fresh := SigningKey{ID: randomHex(8), Secret: make([]byte, 32), CreatedAt: now}
		_, _ = rand.Read(fresh.Secret) // never fails
		if err := k.store.InsertSigningKey(ctx, fresh, now.Add(-keyLife)); err != nil {
			return err
		}
		if keys, err = k.store.SigningKeys(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	k.keys = keys
	k.mu.Unlock()
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (k *Keys) newest() SigningKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[0]
}

// find returns the key with the id. It loads a key that another replica has just added.
func (k *Keys) find(ctx context.Context, id string) (SigningKey, error) {
	if key, ok := k.cached(id); ok {
		return key, nil
	}
	if len(id) != 16 { // no key of ours: skip the database
		return SigningKey{}, errUnknownKey
	}
	if err := k.Rotate(ctx); err != nil {
		return SigningKey{}, err
	}
	if key, ok := k.cached(id); ok {
		return key, nil
	}
	return SigningKey{}, errUnknownKey
}

var errUnknownKey = errors.New("unknown signing key")

func (k *Keys) cached(id string) (SigningKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range k.keys {
		if key.ID == id {
			return key, true
		}
	}
	return SigningKey{}, false
}

// claims are the claims of an access token: sub, ws, sid, exp.
type claims struct {
	Workspace domain.WorkspaceID `json:"ws"`
	Session   domain.SessionID   `json:"sid"`
	jwt.RegisteredClaims
}

func (k *Keys) accessToken(s Session, now time.Time) (string, error) {
	key := k.newest()
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		Workspace: s.Workspace, Session: s.ID,
		RegisteredClaims: jwt.RegisteredClaims{Subject: string(s.User.ID), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(AccessTokenLife))},
	})
	t.Header["kid"] = key.ID
	return t.SignedString(key.Secret)
}

func (k *Keys) parseAccessToken(ctx context.Context, token string) (claims, error) {
	var c claims
	_, err := jwt.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		key, err := k.find(ctx, id)
		return key.Secret, err
	}, jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(k.clock.Now))
	return c, err
}

// RunToken implements job.Tokens. It derives the token instead of storing it, so a repeated
// delivery has an equal token. Each use checks that the attempt is alive.
func (k *Keys) RunToken(_ domain.WorkspaceID, attempt domain.AttemptID) string {
	return RunTokenPrefix + k.derived("run", string(attempt))
}

// StatementToken implements statement.Tokens, in the same way.
func (k *Keys) StatementToken(id domain.StatementID, write bool) string {
	if !write {
		return ReadingTokenPrefix + k.derived(readingStatement, string(id))
	}
	return StatementTokenPrefix + k.derived(writingStatement, string(id))
}

// The purposes of statements' tokens, so that neither is accepted as the other.
const (
	writingStatement = "statement"
	readingStatement = "reading statement"
)

// keyToken returns a token of the API key that is valid until then.
func (k *Keys) keyToken(ws domain.WorkspaceID, id domain.APIKeyID, until time.Time) string {
	return KeyTokenPrefix + k.derived("key", string(ws)+"~"+string(id)+"~"+strconv.FormatInt(until.Unix(), 10))
}

// parseKeyToken returns the API key of an unexpired token.
func (k *Keys) parseKeyToken(ctx context.Context, token string) (domain.WorkspaceID, domain.APIKeyID, error) {
	derived, err := k.parseDerived(ctx, "key", token)
	if err != nil {
		return "", "", err
	}
	parts := strings.Split(derived, "~")
	if len(parts) != 3 {
		return "", "", errors.New("malformed token")
	}
	until, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return "", "", err
	}
	if !k.clock.Now().Before(time.Unix(until, 0)) {
		return "", "", errors.New("expired token")
	}
	return domain.WorkspaceID(parts[0]), domain.APIKeyID(parts[1]), nil
}

// derived returns the id, the signing key's id and a MAC of both.
func (k *Keys) derived(purpose, id string) string {
	key := k.newest()
	return id + "." + key.ID + "." + mac(key, purpose, id)
}

// parseDerived verifies a result of derived and returns its id.
func (k *Keys) parseDerived(ctx context.Context, purpose, token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", errors.New("malformed token")
	}
	key, err := k.find(ctx, parts[1])
	if err != nil {
		return "", err
	}
	if !hmac.Equal([]byte(parts[2]), []byte(mac(key, purpose, parts[0]))) {
		return "", errors.New("forged token")
	}
	return parts[0], nil
}

// ReplicaToken authenticates one replica to another.
func (k *Keys) ReplicaToken() string {
	key := k.newest()
	return key.ID + "." + mac(key, "replica", "")
}

// IsReplicaToken reports whether the token is from a replica of this instance.
func (k *Keys) IsReplicaToken(ctx context.Context, token string) bool {
	id, given, _ := strings.Cut(token, ".")
	key, err := k.find(ctx, id)
	return err == nil && hmac.Equal([]byte(given), []byte(mac(key, "replica", "")))
}

func mac(k SigningKey, purpose, of string) string {
	h := hmac.New(sha256.New, k.Secret)
	h.Write([]byte(purpose + "\x00" + of))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// NewReplicaID returns an id for the lifetime of a replica.
func NewReplicaID() string { return "rep_" + randomHex(8) }
