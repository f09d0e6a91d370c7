package trino

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		require.NoError(t, listens(l.Addr().String(), os.Geteuid()), address)
		require.ErrorIs(t, listens(l.Addr().String(), os.Geteuid()+1), errOther, "a port that another user has")
		require.NoError(t, l.Close())
		require.ErrorIs(t, listens(l.Addr().String(), os.Geteuid()), errOther, "a port that nobody has")
	}
	require.Error(t, listens("127.0.0.1:x", 0))
}
