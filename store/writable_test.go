package store_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/storetest"
)

// TestWritable uses the tenants' role, and writes no row.
func TestWritable(t *testing.T) {
	dsn := storetest.Database(t, store.Migrate)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	for dsn, refused := range map[string]bool{dsn: false, u.String(): true} {
		s, err := store.Open(t.Context(), dsn, store.Options{})
		require.NoError(t, err)
		err = s.Writable(t.Context())
		require.Equal(t, refused, domain.IsCode(err, domain.CodeUnavailable), err)
		require.Equal(t, refused, err != nil, err)
		require.NoError(t, s.Close())
		require.Error(t, s.Writable(t.Context()))
	}
}
