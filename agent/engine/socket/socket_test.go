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

// The kernel's answer about one socket and its tables agree, over IPv4, IPv6 and IPv4 in an IPv6
// socket; a connection that has ended has no user.
func TestPeer(t *testing.T) {
	for _, c := range []struct{ network, listen, dial string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1"},
		{"tcp6", "[::1]:0", "::1"},
		{"tcp", ":0", "127.0.0.1"},
	} {
		l, err := net.Listen(c.network, c.listen)
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		theirs, err := net.Dial("tcp", net.JoinHostPort(c.dial, port))
		require.NoError(t, err)
		ours, err := l.Accept()
		require.NoError(t, err)

		for _, end := range []net.Conn{ours, theirs} {
			user, err := userOf(end.RemoteAddr(), end.LocalAddr())
			require.NoError(t, err, c)
			require.Equal(t, os.Geteuid(), user)
			require.NoError(t, Peer(end, user))
			require.ErrorIs(t, Peer(end, user+1), ErrOther)
			require.NoError(t, peerInTables(end, user))
			require.ErrorIs(t, peerInTables(end, user+1), ErrOther)
		}
		require.NoError(t, theirs.Close())
		_, err = ours.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.ErrorIs(t, Peer(ours, os.Geteuid()), ErrOther, "a connection whose other end is closed")
		require.ErrorIs(t, peerInTables(ours, os.Geteuid()), ErrOther)
		require.NoError(t, ours.Close())
		require.NoError(t, l.Close())
	}
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
