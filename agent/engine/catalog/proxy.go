// Package catalog connects engines to the platform's catalog. Its proxy adds the token of the
// engine's statement and makes each change exactly once.
package catalog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/socket"
)

// Timeout bounds a read request, and the reading of a request's headers.
const Timeout = 30 * time.Second

// Connections is the number of idle connections to the catalog that stay open.
const Connections = 32

// Options are the settings that differ between the engines.
type Options struct {
	UID        int           // user that the engine runs as; Listen serves no other user
	CommitTime time.Duration // bounds the retries of a change with a lost response

	// Steady shows a statement one state of each table, and only admitted tables. It is for an
	// engine that loads a table several times.
	Steady bool
	// Repeat also retries reads until they are answered. It is for an engine that does not.
	Repeat bool
	// Unsure is called for a change with a lost result. The proxy does not answer such a change.
	// Without Unsure, the answer is 504.
	Unsure func(*UnsureError)
}

// Proxy forwards the requests of one engine to the catalog. A request carries the handle of its
// statement, which is valid while the statement runs. The proxy replaces the handle by the
// statement's token, which the engine does not know.
type Proxy struct {
	Options
	address string
	own     string
	client  http.Client
	server  *http.Server

	mu       sync.Mutex
	running  map[string]*Statement // by handle
	upstream string                // catalog that the cached configs belong to
	configs  map[string]config
}

// config is a cached response of the catalog's configuration, which is the same for all statements.
type config struct {
	*Answer
	until time.Time
}

// configTime is how long a configuration is used. It changes only with the server's version.
const configTime = time.Minute

// New returns a proxy for an engine in this process, which sends its requests by
// Statement.RoundTrip.
func New(o Options) *Proxy {
	return &Proxy{
		Options: o, own: rand.Text(), running: map[string]*Statement{}, configs: map[string]config{},
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: Connections}},
	}
}

// Listen starts a proxy on a free port of the loopback interface, for an engine in another process.
func Listen(o Options) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for requests to the catalog: %w", err)
	}
	p := New(o)
	p.address, p.server = l.Addr().String(), &http.Server{Handler: p, ReadHeaderTimeout: Timeout}
	go func() { _ = p.server.Serve(&socket.Listener{Listener: l, UID: o.UID}) }() // until Close
	return p, nil
}

// Address is the proxy's host and port. It must not leave the engine.
func (p *Proxy) Address() string { return p.address }

// URL is the catalog's URL for the engine.
func (p *Proxy) URL() string { return "http://" + p.address }

// ConfigHandle is a handle that only reads the catalog's configuration, while any statement runs.
func (p *Proxy) ConfigHandle() string { return p.own }

// Close stops the proxy.
func (p *Proxy) Close() {
	if p.server != nil {
		_ = p.server.Close()
	}
	p.client.CloseIdleConnections()
}

// Open accepts the requests of a statement until its Close.
func (p *Proxy) Open(s *agent.Statement) *Statement {
	upstream := strings.TrimSuffix(s.Catalog.URL, "/")
	of := &Statement{proxy: p, handle: rand.Text(), id: s.ID, upstream: upstream, token: s.Catalog.Token}
	of.Renew()
	p.mu.Lock()
	defer p.mu.Unlock()
	if upstream != p.upstream {
		p.upstream, p.configs = upstream, map[string]config{}
	}
	p.running[of.handle] = of
	return of
}

// asker returns the statement of a request, or nil if its handle is invalid.
func (p *Proxy) asker(r *http.Request) *Statement {
	_, handle, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if handle == p.own && r.Method == http.MethodGet && r.URL.Path == configPath {
		for _, of := range p.running {
			return of
		}
	}
	return p.running[handle]
}

const configPath = "/v1/config"

// ServeHTTP forwards one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := p.asker(r)
	if of == nil {
		refuse(w, http.StatusUnauthorized, "NotAuthorizedException", "The statement has ended.")
		return
	}
	if p.Steady && of.rejects(r) {
		refuse(w, http.StatusBadRequest, "BadRequestException", "The statement names this table in a form that the engine does not support. Write FROM database.schema.table AS alias.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequestException", "The request cannot be read.")
		return
	}
	a, err := of.forward(r.Context(), &Request{Method: r.Method, URL: of.upstream + r.URL.RequestURI(), Header: Passed(r.Header), Body: body})
	unsure, lost := err.(*UnsureError)
	switch {
	case lost && p.Unsure != nil:
		p.Unsure(unsure)
	case lost: // the engine must not conclude that the change failed
		refuse(w, http.StatusGatewayTimeout, "CommitStateUnknownException", fmt.Sprintf("The catalog did not say whether it made the change: %v.", err))
	case err != nil:
		refuse(w, http.StatusGatewayTimeout, "ServiceUnavailableException", fmt.Sprintf("The catalog cannot be reached: %v.", err))
	default:
		maps.Copy(w.Header(), Passed(a.Header))
		w.WriteHeader(a.Status)
		_, _ = w.Write(a.Body) // a failed write means that the engine has disconnected
	}
}

// refuse answers in the catalog's error format.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": status}})
}

// configured returns a configuration that was read less than configTime ago, or nil.
func (p *Proxy) configured(address string) *Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.configs[address]; time.Now().Before(k.until) {
		return k.Answer
	}
	return nil
}

func (p *Proxy) keepConfig(address string, a *Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(address, p.upstream) {
		p.configs[address] = config{a, time.Now().Add(configTime)}
	}
}
