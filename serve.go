package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/embedded"
	"github.com/millpond/millpond/store/objects"
)

// databaseFile, in the data directory, holds the address of the database for the operator's commands.
const databaseFile = "database.url"

// server is a running control plane: what serve puts together, in the order of its fields.
type server struct {
	config     *serveCommand
	log        *slog.Logger
	database   *embedded.Server // nil with --database
	store      *store.Store
	objects    *objects.Objects
	keys       *auth.Keys
	auth       *auth.Service
	hub        *hub.Hub
	services   *domain.Services
	lake       *lake.Catalog
	reconciler *domain.Reconciler
	outbox     *domain.Outbox
	metrics    *metrics
	bodyTime   time.Duration // in which the body of a request must arrive
	url        string        // that people, agents and tasks use
	closers    []func()
}

// Run runs the server until it is told to stop.
func (c *serveCommand) Run(ctx context.Context) error {
	if err := c.complete(); err != nil {
		return err
	}
	s := &server{config: c, log: newLog(c.LogFormat), bodyTime: bodyTime}
	defer s.close()
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	s.closers = append(s.closers, func() { _ = listener.Close() })
	s.url = c.publicURL(listener.Addr())
	stopTracing, err := startTracing(ctx, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = stopTracing(context.WithoutCancel(ctx)) })
	if err := s.assemble(ctx); err != nil {
		return err
	}
	return s.run(ctx, listener)
}

func (c *serveCommand) publicURL(addr net.Addr) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("%s://localhost:%d", scheme, tcp.Port)
	}
	return scheme + "://" + addr.String()
}

func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// stopTime bounds what is waited for at the end.
const stopTime = 20 * time.Second

func (s *server) openDatabase(ctx context.Context) error {
	if err := os.MkdirAll(s.config.DataDir, 0o711); err != nil {
		return fmt.Errorf("the data directory: %w", err)
	}
	dsn := s.config.Database
	if dsn == "" {
		release, err := embedded.Lock(s.config.DataDir)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { _ = release() })
		if dsn, err = s.startPostgres(ctx); err != nil {
			return err
		}
	}
	if err := store.Migrate(ctx, dsn); err != nil {
		return err
	}
	var err error
	if s.store, err = store.Open(ctx, dsn, store.Options{}); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = s.store.Close() })
	return os.WriteFile(filepath.Join(s.config.DataDir, databaseFile), []byte(dsn), 0o600)
}

func (s *server) startPostgres(ctx context.Context) (dsn string, err error) {
	s.database, err = embedded.Start(ctx, embedded.Options{Dir: s.config.DataDir, Log: s.log, Stdout: os.Stdout})
	if err != nil {
		return "", err
	}
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := s.database.Close(ctx); err != nil {
			s.log.Error("stopping PostgreSQL", "error", err)
		}
	})
	return s.database.DSN("millpond"), s.database.EnsureDatabase(ctx, "millpond")
}

// assemble makes the services and joins them to what they need.
func (s *server) assemble(ctx context.Context) (err error) {
	clock := domain.SystemClock{}
	system := s.store.System()
	if s.objects, err = objects.Open(s.config.Storage); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = s.objects.Close() })
	archive, err := objects.NewArchive()
	if err != nil {
		return err
	}
	if s.keys, err = auth.NewKeys(ctx, system, clock); err != nil {
		return err
	}
	s.auth = auth.NewService(system, s.store, s.keys, clock)
	replica := auth.NewReplicaID()
	s.services = new(domain.Services) // filled below: its parts need the hub, which needs it
	s.hub = hub.New(hub.Options{
		Services: s.services, Topics: s.store.Topics(), Replicas: system, Tokens: s.keys, Replica: replica, Scope: auth.FromAgent, Clock: clock, Log: s.log,
	})
	s.outbox = domain.NewOutbox(s.hub, func(err error) { s.log.Warn("a message to an agent was not delivered", "error", err) })
	runs := &domain.Runs{Store: s.store, System: system, Topics: s.store.Topics(), Clock: clock, Tokens: taskTokens{s.keys, s.url}, Outbox: s.outbox}
	host, err := s.host()
	if err != nil {
		return err
	}
	s.reconciler = &domain.Reconciler{ // without its providers, which tell it of machines that go
		Store: s.store, System: system, Clock: clock, Runs: runs, Host: host, Server: s.url,
		Times:     domain.MachineTimes{Start: s.config.MachineStart, Stop: s.config.MachineStop},
		Heartbeat: s.config.lease().Heartbeat,
		Report:    func(err error) { s.log.Error("a machine; it is tried again", "error", err) },
	}
	if s.lake, err = s.openLake(ctx, clock); err != nil {
		return err
	}
	providers, err := s.openProviders(ctx)
	if err != nil {
		return err
	}
	s.reconciler.Providers = providers
	size, engine := firstWarehouse(ctx, providers)
	*s.services = domain.Services{
		Clock:      clock,
		Version:    version,
		Instance:   &domain.Instance{Store: system, Clock: clock, Size: size, WriteEngine: engine},
		Workspaces: &domain.Workspaces{Store: s.store, Clock: clock},
		Members:    &domain.Members{Store: s.store, Clock: clock},
		APIKeys:    &domain.APIKeys{Store: s.store, Clock: clock},
		Agents:     &domain.Agents{Store: s.store, System: system, Topics: s.store.Topics(), Clock: clock, Runs: runs, Lease: s.config.lease(), Replica: replica},
		Jobs:       &domain.Jobs{Store: s.store, Clock: clock, Lake: sampleLake{s.lake}},
		Runs:       runs,
		Logs:       &domain.Logs{Store: s.store, Topics: s.store.Topics(), Clock: clock, Objects: s.objects, Archive: archive},
		Quotas:     &domain.Quotas{Store: s.store},
		Compute:    &domain.Machines{Kind: domain.KindCompute, Store: s.store, Topics: s.store.Topics(), Clock: clock, Providers: providers, Host: host},
		Warehouses: &domain.Machines{Kind: domain.KindWarehouse, Store: s.store, Topics: s.store.Topics(), Clock: clock, Providers: providers, Host: host},
		Databases:  &domain.Databases{Store: s.store, Clock: clock},
		Lineages:   &domain.Lineages{Store: s.store, Clock: clock, CatalogURL: s.url + iceberg.Prefix},
		Statements: domain.NewStatements(domain.StatementOptions{
			Store: s.store, System: system, Topics: s.store.Topics(), Clock: clock, Objects: s.objects, Engines: s.hub, Tokens: s.keys,
			Tables: tableStorages{s.lake.Files}, CatalogURL: s.url + iceberg.Prefix, Replica: replica,
			Report: func(err error) { s.log.Error("a statement", "error", err) },
		}),
		Settings: &domain.Settings{Store: s.store, Clock: clock, Providers: providers, Objects: s.objects, Storage: s.config.Storage},
	}
	s.services.Maintenance = &domain.Maintenances{
		Store: s.store, System: system, Topics: s.store.Topics(), Clock: clock, Statements: s.services.Statements,
		Rows: func(stream []byte) ([]byte, error) { return rows.AppendJSON(nil, stream) },
	}
	s.metrics = newMetrics(s)
	return nil
}

// taskTokens gives tasks their token and the platform's addresses.
type taskTokens struct {
	*auth.Keys
	url string
}

// Environment implements domain.Tokens: a plain client of PyIceberg or OpenLineage needs no settings of its own.
func (t taskTokens) Environment(_ domain.WorkspaceID, token string) map[string]string {
	return map[string]string{
		"MILLPOND_URL": t.url, "MILLPOND_API": t.url + "/api/v1",
		"PYICEBERG_CATALOG__DEFAULT__TYPE": "rest", "PYICEBERG_CATALOG__DEFAULT__URI": t.url + iceberg.Prefix,
		"PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": domain.DefaultDatabase, "PYICEBERG_CATALOG__DEFAULT__TOKEN": token,
		"OPENLINEAGE_URL": t.url, "OPENLINEAGE_API_KEY": token,
	}
}

// run serves until ctx ends, and then lets requests finish.
func (s *server) run(ctx context.Context, listener net.Listener) error {
	handler, err := s.routes()
	if err != nil {
		return err
	}
	open, endOpen := context.WithCancel(context.WithoutCancel(ctx)) // of requests: streams go on until it ends
	defer endOpen()
	web := &http.Server{
		BaseContext: func(net.Listener) context.Context { return open },
		Handler:     handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	parts.Go(func() { s.background(ctx, cancel) })
	parts.Go(func() {
		if err := s.serveHTTP(web, listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	})
	if err := s.firstStart(ctx); err != nil {
		cancel(err)
	}
	stopAgent := s.superviseAgent(ctx)
	s.greet(ctx)
	<-ctx.Done()
	s.log.Info("stopping")
	s.tellOfMachines()
	stopAgent()
	s.services.Statements.Close()
	s.stop(web, endOpen)
	parts.Wait()
	return context.Cause(ctx)
}

func (s *server) serveHTTP(web *http.Server, l net.Listener) error {
	if s.config.TLSCert != "" {
		return web.ServeTLS(l, s.config.TLSCert, s.config.TLSKey)
	}
	return web.Serve(l)
}

// drainTime is how long open requests may go on. Streams have no end of their own: half-way they are ended, and their readers come back.
const drainTime = 2 * time.Second

func (s *server) stop(web *http.Server, endOpen func()) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	s.hub.Close()
	defer time.AfterFunc(drainTime/2, endOpen).Stop()
	if err := web.Shutdown(ctx); err != nil {
		_ = web.Close()
	}
}
