package trino

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// errOther says that nobody listens on a port, or somebody else does.
var errOther = errors.New("its port is not its own yet")

// dial opens a connection to a node of the cluster. What is shown there opens the cluster and, in a node's place, the storage: so it is not shown to a task of this host
// that took the port before the node did.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := listens(address, s.uid()); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// uid is the user that nodes run as.
func (s *Server) uid() int {
	if c := s.o.Credential; c != nil {
		return int(c.Uid)
	}
	return os.Geteuid()
}

// listens reports, as no error, that all who listen on a port of this host are the user's (proc_pid_net(5)).
func listens(address string, uid int) error {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return err
	}
	found := false
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 8 || f[3] != listening || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				continue
			}
			if f[7] != strconv.Itoa(uid) {
				return errOther
			}
			found = true
		}
	}
	if !found {
		return errOther
	}
	return nil
}

const listening = "0A"
