package auth

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hashes counts the password hashes that fn computes: each takes the semaphore once.
func hashes(fn func(hashing)) int {
	taken := make(chan int)
	h := make(hashing)
	done := make(chan struct{})
	go func() {
		n := 0
		for {
			select {
			case <-h: // hashing.key begins
				n++
				h <- struct{}{} // and ends
			case <-done:
				taken <- n
				return
			}
		}
	}()
	fn(h)
	close(done)
	return <-taken
}

// TestAnUnknownEmailCostsAsMuchAsAWrongPassword checks that a login computes one hash, with or
// without a user or a password.
func TestAnUnknownEmailCostsAsMuchAsAWrongPassword(t *testing.T) {
	known, err := newHashing().hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	for name, hash := range map[string]string{"wrong password": known, "unknown e-mail": ""} {
		require.Equal(t, 1, hashes(func(h hashing) {
			matches, err := h.matches(t.Context(), "wrong", hash)
			require.NoError(t, err)
			require.False(t, matches)
		}), name)
	}
	require.Equal(t, strings.Split(known, "$")[:4], strings.Split(nobody, "$")[:4], "nobody's hash has the present cost")
	require.Len(t, nobody, len(known))
}

func TestPasswords(t *testing.T) {
	h := newHashing()
	matches := func(password, hash string) bool {
		matches, err := h.matches(t.Context(), password, hash)
		require.NoError(t, err)
		return matches
	}
	hash, err := h.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.True(t, matches("correct horse battery", hash))
	again, err := h.hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "each has a salt of its own")
	for _, wrong := range []string{"", "correct horse batter", "correct horse battery\x00", "CORRECT HORSE BATTERY"} {
		require.False(t, matches(wrong, hash))
		require.False(t, matches(wrong, ""), "nobody has no password")
	}
	for _, broken := range []string{"x", "$argon2id$v=19$m=19456,t=2,p=1$!!$AAAA", "$argon2id$v=19$m=19456,t=2,p=1$AAAA$!!", "$$$$$$$"} {
		require.False(t, matches("correct horse battery", broken))
	}
	require.NoError(t, validPassword("password", "twelve chars"))
	require.NoError(t, validPassword("password", "zwölf本ßßßß€€"))
	require.Error(t, validPassword("password", "eleven char"))
	require.Error(t, validPassword("password", strings.Repeat("x", 1025)))
}
