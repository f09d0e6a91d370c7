package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/millpond/millpond/domain"
)

// Cost of argon2id, from OWASP's password storage cheat sheet: 19 MiB, two passes, one lane.
const (
	argonMemory = 19 << 10 // KiB
	argonTime   = 2
	argonLanes  = 1
	argonKey    = 32
	argonSalt   = 16
)

// Bounds of a password. The upper one bounds the cost of a request.
const (
	minPassword = 12 // characters
	maxPassword = 1024
)

// hashing bounds the number of parallel hashes, and so their memory.
type hashing chan struct{}

func newHashing() hashing { return make(hashing, max(2, runtime.NumCPU())) }

// key waits for a free slot and computes the password's key. It returns only ctx's error.
func (h hashing) key(ctx context.Context, password string, salt []byte) ([]byte, error) {
	select {
	case h <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h }()
	return argon2.IDKey([]byte(password), salt, argonTime, argonMemory, argonLanes, argonKey), nil
}

// hash returns the password's hash in the PHC string format.
func (h hashing) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt) // never fails
	key, err := h.key(ctx, password, salt)
	if err != nil {
		return "", err
	}
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonLanes,
		b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// nobody is checked if there is no user or no password, so that an unknown e-mail takes as long as
// a wrong password.
const nobody = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// matches reports whether the password has the hash; false for an empty hash. It returns only ctx's
// error.
func (h hashing) matches(ctx context.Context, password, hash string) (bool, error) {
	known := hash != ""
	if !known {
		hash = nobody
	}
	parts := strings.Split(hash, "$")
	if len(parts) != 6 {
		return false, nil
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, nil
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false, nil
	}
	key, err := h.key(ctx, password, salt)
	if err != nil {
		return false, err
	}
	return known && subtle.ConstantTimeCompare(want, key) == 1, nil
}

func validPassword(field, password string) error {
	if n := utf8.RuneCountInString(password); n < minPassword {
		return domain.Invalid(field, "The password has %d characters; use at least %d.", n, minPassword)
	}
	if len(password) > maxPassword || !utf8.ValidString(password) {
		return domain.Invalid(field, "The password is longer than %d bytes or not valid UTF-8.", maxPassword)
	}
	return nil
}
