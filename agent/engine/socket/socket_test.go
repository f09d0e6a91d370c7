package socket

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		require.NoError(t, Listens(l.Addr().String(), os.Geteuid()), address)
		require.ErrorIs(t, Listens(l.Addr().String(), os.Geteuid()+1), ErrOther, "a port that another user has")
		require.NoError(t, l.Close())
		require.ErrorIs(t, Listens(l.Addr().String(), os.Geteuid()), ErrOther, "a port that nobody has")
	}
	require.Error(t, Listens("127.0.0.1:x", 0))
}

// Connections of other users are closed and do not delay later ones.
func TestAListenerHasPeersOfOneUser(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	own := &Listener{Listener: l, UID: os.Geteuid() + 1}
	accepted := make(chan error, 1)
	go func() {
		c, err := own.Accept()
		if err == nil {
			_, err = io.WriteString(c, "welcome\n")
			_ = c.Close()
		}
		accepted <- err
	}()
	other, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = other.Read(make([]byte, 1))
	require.Error(t, err, "another user's connection is closed without an answer")
	require.NoError(t, other.Close())
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-accepted, net.ErrClosed)

	l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	own = &Listener{Listener: l, UID: os.Geteuid()}
	go func() {
		c, err := own.Accept()
		if err == nil {
			_, err = io.WriteString(c, "welcome\n")
			_ = c.Close()
		}
		accepted <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	said, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "welcome\n", said)
	require.NoError(t, <-accepted)
}
