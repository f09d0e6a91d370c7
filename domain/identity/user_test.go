package identity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

func TestEmails(t *testing.T) {
	for in, want := range map[string]string{"Ada@Example.COM": "ada@example.com", " a@b ": "a@b", "jürgen@bücher.example": "jürgen@bücher.example", "a+b@c.d": "a+b@c.d"} {
		got, err := NormalizeEmail(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
	}
	for _, in := range []string{
		"", "a", "a@", "@b", "a b@c", "Ada <a@b>", "a@b, c@d", "a\x00@b", "a@b\x00", "\"a b\"@c", "<a@b>", "a@b>", "a\u202e@b.c", "a@b\u200b.c",
		"\xff@b", strings.Repeat("x", 251) + "@b.c",
	} {
		_, err := NormalizeEmail(in)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), "%q: %v", in, err)
		require.Equal(t, "email", domain.AsError(err).Field)
	}
}

func TestLongEmailsAreRepeatedInPart(t *testing.T) {
	_, err := NormalizeEmail(strings.Repeat("a", 50_000) + "@example.com")
	require.Less(t, len(err.Error()), 500)
}
