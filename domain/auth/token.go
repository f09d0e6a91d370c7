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

// AccessTokenLife is how long an access token works, from the specification.
const AccessTokenLife = time.Hour

// keyLife is how long a key signs before the next one takes over. It verifies for as long as it is in the database.
const keyLife = 30 * 24 * time.Hour

// Prefixes of the tokens that are derived from what they are for, and good for as long as that is alive.
const (
	RunTokenPrefix       = "mp_run_" // of an attempt's process
	StatementTokenPrefix = "mp_stm_" // of a statement on its engine
)

// KeyTokenPrefix begins a token that stands for an API key for KeyTokenLife, and no longer than the key lives: Iceberg clients get it for the key.
const (
	KeyTokenPrefix = "mp_ice_"
	KeyTokenLife   = time.Hour
)

// Keys signs and verifies with the instance's keys, which all replicas share through the database.
type Keys struct {
	store Store
	clock domain.Clock

	mu   sync.Mutex
	keys []SigningKey // newest first
}

// NewKeys loads the keys, and makes the first one or the next when it is time.
func NewKeys(ctx context.Context, store Store, clock domain.Clock) (*Keys, error) {
	k := &Keys{store: store, clock: clock}
	return k, k.Rotate(ctx)
}

// Rotate loads the keys and adds a new one when the newest has signed for its time. Every replica calls it every few minutes.
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

// find returns the key with the id; one that another replica has just made is loaded.
func (k *Keys) find(ctx context.Context, id string) (SigningKey, error) {
	if key, ok := k.cached(id); ok {
		return key, nil
	}
	if len(id) != 16 { // not one of ours: no reason to ask the database
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

// claims are those of an access token: sub, ws, sid, exp.
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

// RunToken implements domain.Tokens. It is derived, not kept, so an attempt that is delivered again has the same power; whether the attempt is alive is
// asked at each use.
func (k *Keys) RunToken(_ domain.WorkspaceID, attempt domain.AttemptID) string {
	return RunTokenPrefix + k.derived("run", string(attempt))
}

// StatementToken implements domain.StatementTokens, as RunToken does its interface.
func (k *Keys) StatementToken(id domain.StatementID) string {
	return StatementTokenPrefix + k.derived("statement", string(id))
}

// keyToken stands for an API key until the time given.
func (k *Keys) keyToken(ws domain.WorkspaceID, id domain.APIKeyID, until time.Time) string {
	return KeyTokenPrefix + k.derived("key", string(ws)+"~"+string(id)+"~"+strconv.FormatInt(until.Unix(), 10))
}

// parseKeyToken returns the key that a token stands for, unless its time is over.
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

// derived is the id, the signing key's and a MAC over both.
func (k *Keys) derived(purpose, id string) string {
	key := k.newest()
	return id + "." + key.ID + "." + mac(key, purpose, id)
}

// parseDerived returns the id that derived got.
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

// ReplicaToken is what one replica shows another.
func (k *Keys) ReplicaToken() string {
	key := k.newest()
	return key.ID + "." + mac(key, "replica", "")
}

// IsReplicaToken says whether the token is one of this instance's replicas.
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

// NewReplicaID names a replica for as long as it runs.
func NewReplicaID() string { return "rep_" + randomHex(8) }
