// Package socket finds the users of TCP sockets of this host (sock_diag(7), proc_pid_net(5)).
package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// ErrOther means that no socket matches, or that a matching socket belongs to another user.
var ErrOther = errors.New("the socket is not the user's")

// The states of a socket.
const (
	listening   = "0A"
	established = "01"
)

// Listens returns nil if all listeners on the port of a loopback address belong to the user. It
// returns ErrOther if they do not.
func Listens(address string, uid int) error {
	port, err := portOf(address)
	if err != nil {
		return err
	}
	return owned(uid, func(local, _, state string) bool { return state == listening && strings.HasSuffix(local, port) })
}

// Peer returns nil if the other end of a loopback connection belongs to the user. It returns
// ErrOther if it does not.
func Peer(c net.Conn, uid int) error {
	user, err := userOf(c.RemoteAddr(), c.LocalAddr())
	if errors.Is(err, ErrOther) {
		return err
	}
	if err != nil { // a kernel or a container that has no answers about sockets
		return peerInTables(c, uid)
	}
	if user != uid {
		return ErrOther
	}
	return nil
}

// peerInTables is Peer by /proc/net.
func peerInTables(c net.Conn, uid int) error {
	theirs, err := portOf(c.RemoteAddr().String())
	if err != nil {
		return err
	}
	ours, err := portOf(c.LocalAddr().String())
	if err != nil {
		return err
	}
	return owned(uid, func(local, remote, state string) bool {
		return state == established && strings.HasSuffix(local, theirs) && strings.HasSuffix(remote, ours)
	})
}

// portOf returns the port of an address in the kernel's format.
func portOf(address string) (string, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return fmt.Sprintf(":%04X", port), err
}

func owned(uid int, matches func(local, remote, state string) bool) error {
	found := false
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 8 || !matches(f[1], f[2], f[3]) {
				continue
			}
			if f[7] != strconv.Itoa(uid) {
				return ErrOther
			}
			found = true
		}
	}
	if !found {
		return ErrOther
	}
	return nil
}

// Listener accepts connections of one user and closes those of others.
type Listener struct {
	net.Listener
	UID int
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || Peer(c, l.UID) == nil {
			return c, err
		}
		_ = c.Close() // connections of others get no answer
	}
}
