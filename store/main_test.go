package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func open(t testing.TB) *store.Store {
	s, _ := openDSN(t)
	return s
}

func openDSN(t testing.TB) (*store.Store, string) {
	dsn := storetest.Database(t, store.Migrate)
	s, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, dsn
}

// workspace makes a workspace and returns the scope of its administrator.
func workspace(t testing.TB, s *store.Store, name string) domain.Scope {
	ctx := t.Context()
	instance := &domain.Instance{Store: s.System(), Clock: domain.SystemClock{}}
	_, _, credentials, err := instance.CreateWorkspace(ctx, name)
	require.NoError(t, err)
	keys, err := auth.NewKeys(ctx, s.System(), domain.SystemClock{})
	require.NoError(t, err)
	service := auth.NewService(s.System(), s, keys, domain.SystemClock{})
	in, err := service.SetUp(ctx, auth.SetUp{Token: credentials.SetUpToken, Email: name + "@example.com", Name: name, Password: "correct horse battery"})
	require.NoError(t, err)
	scope, err := service.Bearer(ctx, in.Token)
	require.NoError(t, err)
	return scope
}

func in(t testing.TB, s *store.Store, scope domain.Scope, fn func(ctx context.Context, tx domain.Tx) error) {
	t.Helper()
	require.NoError(t, s.In(t.Context(), scope, func(tx domain.Tx) error { return fn(t.Context(), tx) }))
}
