package hub

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millpond/millpond/domain"
)

// RelayPath opens a stream to an agent for another replica, by an upgrade of the HTTP connection.
const RelayPath = "/internal/v1/agents/{id}/stream"

// upgrade names the protocol of the upgraded connection: the bytes of one stream.
const upgrade = "millpond-stream"

// dialTimeout bounds connecting to another replica.
const dialTimeout = 5 * time.Second

// Relay serves RelayPath for other replicas, which authenticate with the instance's replica token.
func (s *Sessions) Relay(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !s.o.Tokens.IsReplicaToken(r.Context(), token) {
		respond(w, nil, domain.Errorf(domain.CodeUnauthenticated, "Only a replica of this instance opens this connection."))
		return
	}
	one := s.local(domain.AgentID(chi.URLParam(r, "id")))
	if one == nil {
		respond(w, nil, domain.Errorf(domain.CodeUnavailable, "The agent is not connected here."))
		return
	}
	stream, err := one.Open(r.Context())
	if err != nil {
		respond(w, nil, domain.Errorf(domain.CodeUnavailable, "The agent does not answer.").Because(err))
		return
	}
	defer func() { _ = stream.Close() }()
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		respond(w, nil, err)
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", upgrade); err != nil {
		return
	}
	splice(conn, buffered.Reader, stream)
}

// splice copies in both directions until one side ends, then closes both.
func splice(conn net.Conn, in io.Reader, stream net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(stream, in)
		_ = stream.Close()
	}()
	_, _ = io.Copy(conn, stream)
	_ = conn.Close()
	<-done
}

// dialReplica opens a stream to the agent through the replica at base.
func dialReplica(ctx context.Context, base string, id domain.AgentID, token string) (net.Conn, error) {
	conn, err := dialURL(ctx, base)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	if err := askRelay(conn, in, base, id, token); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("the replica %s: %w", base, err)
	}
	return &relayed{Conn: conn, in: in}, nil
}

func dialURL(ctx context.Context, base string) (net.Conn, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	d := &net.Dialer{Timeout: dialTimeout}
	if u.Scheme == "https" {
		return (&tls.Dialer{NetDialer: d}).DialContext(ctx, "tcp", withPort(u, "443"))
	}
	return d.DialContext(ctx, "tcp", withPort(u, "80"))
}

func withPort(u *url.URL, port string) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func askRelay(conn net.Conn, in *bufio.Reader, base string, id domain.AgentID, token string) error {
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodGet, base+strings.Replace(RelayPath, "{id}", string(id), 1), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", upgrade)
	if err := req.Write(conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		return errors.New(res.Status + ": " + strings.TrimSpace(string(said)))
	}
	return conn.SetDeadline(time.Time{})
}

// relayed is a connection with its first bytes possibly in a buffer already.
type relayed struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (r *relayed) Read(p []byte) (int, error) { return r.in.Read(p) }
