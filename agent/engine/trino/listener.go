package trino

import (
	"context"
	"net"
	"os"

	"github.com/millpond/millpond/agent/engine/socket"
)

// dial opens a connection to a node of the cluster. Requests carry secrets of the cluster and, for
// a node, of the storage. So dial refuses a task of this host that took the port before the node
// did.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := socket.Listens(address, s.uid()); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// uid returns the user id of the nodes.
func (s *Server) uid() int {
	if c := s.o.Credential; c != nil {
		return int(c.Uid)
	}
	return os.Geteuid()
}
