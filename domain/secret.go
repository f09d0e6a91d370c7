package domain

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// AgentTokenPrefix begins every agent token. BootstrapTokenPrefix begins the single-use tokens that
// are exchanged for them.
const (
	AgentTokenPrefix     = "mp_agt_"
	BootstrapTokenPrefix = "mp_boot_"
)

// NewSecret returns 256 random bits in URL-safe base 64.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand would end the process
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// HashSecret returns the SHA-256 of a secret of 256 random bits, as it is stored. Such a secret
// cannot be guessed, so it needs no slow hash.
func HashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}
