package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/errand"
)

// trinoCourier carries what Trino asks of the catalog there and back. Each request comes with the handle of its statement and leaves with the statement's token,
// which Trino does not know. It is carried as long as the statement runs, so that nothing expires in a write which takes hours. What is asked while the catalog is
// away is asked until it is back: a change under a key, so that it is made once.
type trinoCourier struct {
	address string // as Trino reaches it
	secret  string // the beginning of each path, which no other process knows
	own     string // what Trino shows where no statement asks: for the catalog's configuration
	client  http.Client
	time    time.Duration // for which the catalog is waited for
	server  *http.Server

	mu      sync.Mutex
	running map[string]*carried // by their handles
}

// carried is a statement for which requests are carried.
type carried struct {
	handle   string // which Trino shows
	id       string
	upstream string // address of the catalog
	token    string
	unsure   error // why it is not known whether a change of it was made; nil where it is
	changed  bool  // it has made a change
}

// trinoPatience is for how long the catalog may be away in the midst of a statement.
const trinoPatience = time.Minute

func listenTrinoCourier() (*trinoCourier, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for what Trino asks of the catalog: %w", err)
	}
	secret := "/" + rand.Text()
	c := &trinoCourier{
		address: "http://" + l.Addr().String() + secret, secret: secret, own: rand.Text(), time: trinoPatience, running: map[string]*carried{},
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}},
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: catalogTimeout}
	go func() { _ = c.server.Serve(l) }() // until close
	return c, nil
}

func (c *trinoCourier) close() {
	_ = c.server.Close()
	c.client.CloseIdleConnections()
}

// serve has requests of a statement carried until leave is called.
func (c *trinoCourier) serve(s *agent.Statement) (of *carried, leave func()) {
	of = &carried{handle: rand.Text(), id: s.ID, upstream: strings.TrimSuffix(s.Catalog.URL, "/"), token: s.Catalog.Token}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[of.handle] = of
	return of, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running, of.handle)
	}
}

// asker is the statement for which a request comes. For the configuration, which is the same for all, any that runs will do.
func (c *trinoCourier) asker(r *http.Request, path string) *carried {
	_, handle, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if handle == c.own && r.Method == http.MethodGet && strings.HasPrefix(path, "/v1/config?") {
		for _, of := range c.running {
			return of
		}
	}
	return c.running[handle]
}

// ServeHTTP carries one request.
func (c *trinoCourier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ours := strings.CutPrefix(r.URL.RequestURI(), c.secret)
	if !ours {
		refuseErrand(w, http.StatusNotFound, "NotFoundException", "There is nothing here.")
		return
	}
	of := c.asker(r, path)
	if of == nil {
		refuseErrand(w, http.StatusUnauthorized, "NotAuthorizedException", "The statement is over.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, errand.MaxBody))
	if err != nil {
		answer(w, http.StatusBadRequest, "The request cannot be read.")
		return
	}
	asked := &errand.Errand{Method: r.Method, URL: of.upstream + path, Header: errand.Passed(r.Header), Body: body}
	asked.Header.Set("Authorization", "Bearer "+of.token)
	a, err := c.carry(r.Context(), of, asked)
	if err != nil { // of a change Trino takes this for one of which it is not known whether it was made
		answer(w, http.StatusGatewayTimeout, fmt.Sprintf("The catalog cannot be reached: %v.", err))
		return
	}
	maps.Copy(w.Header(), errand.Passed(a.Header))
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // Trino, if it is gone, needs no answer
}

// carry asks as long as it takes; but what a client only reports, and what it asks again by itself, once.
func (c *trinoCourier) carry(ctx context.Context, of *carried, e *errand.Errand) (*errand.Answer, error) {
	switch {
	case e.Method == http.MethodPost && strings.HasSuffix(e.URL, "/metrics"):
		return e.Once(ctx, &c.client)
	case e.Method == http.MethodGet, e.Method == http.MethodHead:
		return e.Until(ctx, &c.client, c.time)
	}
	e.Header.Set("Idempotency-Key", e.Key(of.id))
	a, err := e.Until(context.WithoutCancel(ctx), &c.client, c.time)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		of.unsure = err
		return nil, errors.New("it did not say whether it made the change: " + err.Error())
	}
	of.changed = of.changed || a.Status/100 == 2
	return a, nil
}

// settled says what is known of the changes of a statement.
func (c *trinoCourier) settled(of *carried) (changed bool, unsure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return of.changed, of.unsure
}

// warehouse is what the catalog calls a database now: another one of the same name is another.
func (c *trinoCourier) warehouse(ctx context.Context, s *agent.Statement, database string) (string, error) {
	var config struct{ Overrides map[string]string }
	err := c.read(ctx, s, "/v1/config?warehouse="+url.QueryEscape(database), &config)
	return config.Overrides["prefix"], err
}

// read asks the catalog as the statement.
func (c *trinoCourier) read(ctx context.Context, s *agent.Statement, path string, into any) error {
	asked := &errand.Errand{Method: http.MethodGet, URL: strings.TrimSuffix(s.Catalog.URL, "/") + path, Header: http.Header{"Authorization": {"Bearer " + s.Catalog.Token}}}
	a, err := asked.Until(ctx, &c.client, c.time)
	if err != nil {
		return fmt.Errorf("asking the catalog: %w", err)
	}
	if a.Status != http.StatusOK {
		return answeredError(a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("reading the catalog's answer: %w", err)
	}
	return nil
}
