package auth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
)

// TestWhatStandsForAKey checks that such a token has the key's rights, for an hour at most, and not
// longer than the key.
func TestWhatStandsForAKey(t *testing.T) {
	i := newInstance(t)
	ctx := t.Context()
	_, admin, _ := i.workspace("one")
	member := i.member(admin, "ada", domain.RoleEditor)
	maker := i.scope(member.Token)
	key, secret, err := i.apiKeys.Create(ctx, maker, identity.NewAPIKey{Name: "ci", Role: maker.Role()})
	require.NoError(t, err)
	token, life, err := i.auth.Exchange(ctx, secret)
	require.NoError(t, err)
	require.Equal(t, auth.KeyTokenLife, life)
	require.Equal(t, i.scope(secret).ForCatalog(), i.scope(token))
	require.NotContains(t, token, secret)
	require.Equal(t, 0, strings.Count(token, "="))

	parts := strings.Split(strings.TrimPrefix(token, auth.KeyTokenPrefix), ".")
	require.Len(t, parts, 3)
	later := strings.Replace(parts[0], "~1", "~2", 1)
	for _, forged := range []string{
		auth.KeyTokenPrefix, auth.KeyTokenPrefix + "a.b.c", token + "x", auth.KeyTokenPrefix + later + "." + parts[1] + "." + parts[2],
		auth.RunTokenPrefix + strings.Join(parts, "."), auth.StatementTokenPrefix + strings.Join(parts, "."),
	} {
		require.False(t, i.opens(forged), "%q", forged)
		_, _, err := i.auth.Exchange(ctx, forged)
		require.Equal(t, domain.CodeUnauthenticated, code(err), "%q", forged)
	}

	_, err = i.members.Update(ctx, admin, maker.UserID(), domain.RoleViewer)
	require.NoError(t, err)
	require.Equal(t, domain.RoleViewer, i.scope(token).Role(), "the rights are those of the key at each use")

	i.clock.move(auth.KeyTokenLife - time.Second)
	next, _, err := i.auth.Exchange(ctx, token)
	require.NoError(t, err)
	i.clock.move(time.Second)
	require.False(t, i.opens(token))
	_, _, err = i.auth.Exchange(ctx, token)
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	require.True(t, i.opens(next))
	_, err = i.apiKeys.Revoke(ctx, admin, key.ID)
	require.NoError(t, err)
	require.False(t, i.opens(next))
}

// TestExchangeOfOtherTokens checks that an access token becomes the session's next one, and that
// tokens without a session stay the same.
func TestExchangeOfOtherTokens(t *testing.T) {
	i := newInstance(t)
	in, _, agent := i.workspace("one")
	next, life, err := i.auth.Exchange(t.Context(), in.Token)
	require.NoError(t, err)
	require.Equal(t, auth.AccessTokenLife, life)
	require.Equal(t, i.scope(in.Token), i.scope(next))
	for _, refused := range []string{"", "x", agent} {
		_, _, err := i.auth.Exchange(t.Context(), refused)
		require.Equal(t, domain.CodeUnauthenticated, code(err), "%.10q", refused)
	}
}
