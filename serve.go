package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millpond/millpond/agent/hub"
	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/domain/rows"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/rest/iceberg"
	"github.com/millpond/millpond/rest/mlflow"
	"github.com/millpond/millpond/store"
	"github.com/millpond/millpond/store/objects"
)

// server is a control plane that can run.
type server struct {
	config     *serveCommand
	log        *slog.Logger
	url        string         // for people, agents and tasks
	services   graph.Services // it uses all of them
	site       *site
	machines   machines
	background background
	directory  directory
	token      agentToken
	agent      *local.Agent // beside the server
}

// Run runs the server until ctx ends.
func (c *serveCommand) Run(ctx context.Context) error {
	if err := c.complete(); err != nil {
		return err
	}
	log := newLog(c.LogFormat)
	var closing closers
	defer closing.close()
	db, err := openDatabase(ctx, c, log, &closing)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	closing.add(func() { _ = listener.Close() })
	stopTracing, err := startTracing(ctx, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if err != nil {
		return err
	}
	closing.add(func() { _ = stopTracing(context.WithoutCancel(ctx)) })
	s, err := newServer(ctx, c, db, c.publicURL(listener.Addr()), log, &closing)
	if err != nil {
		return err
	}
	return s.run(ctx, listener)
}

// closers close what was opened, the last first.
type closers []func()

func (c *closers) add(closer func()) { *c = append(*c, closer) }

func (c *closers) close() {
	for _, closer := range slices.Backward(*c) {
		closer()
	}
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

// stopTime bounds the waits for the database at the end.
const stopTime = 20 * time.Second

// newServer opens everything besides the database, and joins the services with it.
func newServer(ctx context.Context, c *serveCommand, db *database, url string, log *slog.Logger, closing *closers) (*server, error) {
	st, system, topics, clock := db.Store, db.System(), db.Topics(), domain.SystemClock{}
	files, err := objects.Open(c.Storage)
	if err != nil {
		return nil, err
	}
	closing.add(func() { _ = files.Close() })
	archive, err := objects.NewArchive()
	if err != nil {
		return nil, err
	}
	keys, err := auth.NewKeys(ctx, system, clock)
	if err != nil {
		return nil, err
	}
	directory, err := identify(ctx, c, db, log)
	if err != nil {
		return nil, fmt.Errorf("identifying the data directory: %w", err)
	}
	catalog, err := openLake(ctx, c, db, log, closing)
	if err != nil {
		return nil, err
	}
	providers, err := openProviders(ctx, c, db, log, closing)
	if err != nil {
		return nil, err
	}
	repeater := repeater{topics, log}
	replica := replica{repeater: repeater, system: system, id: auth.NewReplicaID(), url: cmp.Or(c.AdvertiseURL, url)}
	sessions := hub.NewSessions(hub.Options{Replicas: system, Tokens: keys, Replica: replica.id, Clock: clock})
	outbox := job.NewOutbox(sessions, func(err error) { log.Warn("a message to an agent was not delivered", "error", err) })
	runs := &job.Runs{Store: store.For[job.Tx](st), System: system, Topics: topics, Clock: clock, Tokens: taskTokens{keys, url}, Outbox: outbox}
	agents := &job.Agents{Store: store.For[job.Tx](st), System: system, Topics: topics, Clock: clock, Runs: runs, Lease: c.lease(), Replica: replica.id}
	statements := statement.New(statement.Options{
		Store: store.For[statement.Tx](st), System: system, Topics: topics, Clock: clock, Objects: files, Engines: sessions, Tokens: keys,
		Tables: tableStorages{catalog.Files}, CatalogURL: url + iceberg.Prefix, Replica: replica.id,
		Report: func(err error) { log.Error("a statement", "error", err) },
	})
	size, engine := firstWarehouse(ctx, providers)
	jobs := &job.Jobs{Store: store.For[job.Tx](st), Clock: clock}
	requests := quota.NewRequests(store.For[quota.Tx](st), clock)
	experiments := &tracking.Experiments{Store: store.For[tracking.Tx](st), Clock: clock}
	all := graph.Services{
		Clock:        clock,
		Instance:     &setup.Instance{Store: system, Clock: clock, Size: size, WriteEngine: engine},
		Workspaces:   &identity.Workspaces{Store: store.For[identity.Tx](st), Clock: clock},
		Members:      &identity.Members{Store: store.For[identity.Tx](st), Clock: clock},
		APIKeys:      &identity.APIKeys{Store: store.For[identity.Tx](st), Clock: clock},
		Agents:       agents,
		Jobs:         jobs,
		Runs:         runs,
		Samples:      &setup.Samples{Jobs: jobs, Runs: runs, Lake: sampleLake{catalog}, Clock: clock, Experiments: experiments},
		Logs:         &job.Logs{Store: store.For[job.Tx](st), Topics: topics, Clock: clock, Objects: files, Archive: archive},
		Quotas:       &quota.Quotas{Store: store.For[quota.Tx](st), Requests: requests},
		Compute:      &machine.Machines{Kind: machine.KindCompute, Store: store.For[machine.Tx](st), Topics: topics, Clock: clock, Providers: providers, Host: directory.host},
		Warehouses:   &machine.Machines{Kind: machine.KindWarehouse, Store: store.For[machine.Tx](st), Topics: topics, Clock: clock, Providers: providers, Host: directory.host},
		Databases:    &lake.Databases{Store: store.For[lake.Tx](st), Clock: clock},
		Lineages:     &lineage.Lineages{Store: store.For[lineage.Tx](st), Clock: clock, CatalogURL: url + iceberg.Prefix},
		Statements:   statements,
		Experiments:  experiments,
		TrackingRuns: &tracking.Runs{Store: store.For[tracking.Tx](st), Topics: topics, Clock: clock},
		Maintenance: &maintenance.Maintenances{
			Store: store.For[maintenance.Tx](st), System: system, Topics: topics, Clock: clock,
			Rows: func(stream []byte) ([]byte, error) { return rows.AppendJSON(nil, stream) },
		},
		Settings: &machine.Settings{Store: store.For[machine.Tx](st), Clock: clock, Providers: providers, Objects: files, Storage: c.Storage},
	}
	machines := machines{repeater: repeater, Reconciler: &machine.Reconciler{
		Store: store.For[machine.Tx](st), System: system, Topics: topics, Clock: clock, Work: job.TaskWork{Runs: runs}, Providers: providers, Host: directory.host, Server: url,
		Times:     machine.Times{Start: c.MachineStart, Stop: c.MachineStop},
		Heartbeat: agents.Lease.Heartbeat,
		Report:    func(err error) { log.Error("reconciling a machine failed; retrying", "error", err) },
	}}
	token := agentToken{file: c.path(agentTokenFile), own: db.postgres != nil, system: system, instance: all.Instance, agents: agents, log: log}
	return &server{
		config: c, log: log, url: url, directory: directory, services: all, machines: machines, token: token,
		agent: &local.Agent{Dir: c.DataDir, Directory: directory.ID, Version: version, Args: c.agentArgs(url), Token: token.ensure, Log: log},
		site: &site{
			services: all, lake: catalog, auth: auth.NewService(system, store.For[domain.Tx](st), keys, requests, clock), topics: topics, sessions: sessions, log: log,
			agents:  &hub.Handler{Sessions: sessions, Services: agentServices(all), Topics: topics, Scope: auth.FromAgent, Storage: catalog.Files.Prefix, Log: log},
			metrics: newMetrics(db, sessions, all.Logs), readiness: &readiness{store: st, objects: files}, proxies: c.TrustedProxies, bodyTime: c.bodyTime,
		},
		background: background{
			repeater: repeater, db: db, services: all, outbox: outbox, lake: catalog, keys: keys, machines: machines, replica: replica, directory: directory.Directory,
			leases: leases{repeater: repeater, system: system, agents: agents, host: directory.host},
			lineage: &lineage.Emitter{
				Store: store.For[lineage.Tx](st), Outbox: system, Receiver: c.lineage, Clock: clock, URL: url, CatalogURL: url + iceberg.Prefix,
				Report: func(err error) { log.Error("OpenLineage", "error", err) },
			},
		},
	}, nil
}

// taskTokens builds the environment with a task's token and the platform's addresses.
type taskTokens struct {
	*auth.Keys
	url string
}

// Environment implements job.Tokens. Plain PyIceberg, MLflow and OpenLineage clients need no other
// settings.
func (t taskTokens) Environment(_ domain.WorkspaceID, token string) map[string]string {
	return map[string]string{
		"MILLPOND_URL": t.url, "MILLPOND_API": t.url + "/api/v1",
		"PYICEBERG_CATALOG__DEFAULT__TYPE": "rest", "PYICEBERG_CATALOG__DEFAULT__URI": t.url + iceberg.Prefix,
		"PYICEBERG_CATALOG__DEFAULT__WAREHOUSE": lake.DefaultDatabase, "PYICEBERG_CATALOG__DEFAULT__TOKEN": token,
		"MLFLOW_TRACKING_URI": t.url + mlflow.Prefix, "MLFLOW_TRACKING_TOKEN": token,
		"OPENLINEAGE_URL": t.url, "OPENLINEAGE_API_KEY": token,
	}
}

// run serves until ctx ends. Then it lets statements and requests finish, and stops the parts that
// serve them; the agent beside the server stops last.
func (s *server) run(ctx context.Context, listener net.Listener) error {
	handler, err := s.site.handler()
	if err != nil {
		return err
	}
	open, endOpen := context.WithCancel(context.WithoutCancel(ctx)) // of requests: its end ends streams
	defer endOpen()
	web := &http.Server{
		BaseContext: func(net.Listener) context.Context { return open },
		Handler:     handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { s.site.readiness.stopping.Store(true) })()
	upkeep, endUpkeep := context.WithCancel(context.WithoutCancel(ctx)) // of the work that statements need until they end
	defer endUpkeep()
	var parts sync.WaitGroup
	parts.Go(func() { s.background.run(ctx, upkeep) })
	parts.Go(func() {
		if err := s.serveHTTP(web, listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(err)
		}
	})
	parts.Go(func() {
		if err := s.directory.awaitGone(ctx); err != nil {
			cancel(err)
		}
	})
	if err := s.firstStart(ctx); err != nil {
		cancel(err)
	}
	if *s.config.LocalAgent {
		parts.Go(func() { s.agent.Run(upkeep) })
	}
	s.greet(ctx)
	<-ctx.Done()
	s.log.Info("stopping", "drain", s.config.Drain)
	s.drain()
	s.machines.report()
	s.stop(web, endOpen)
	endUpkeep()
	parts.Wait()
	return context.Cause(ctx)
}

// drain waits for running statements until they end, the operator's bound is over, or a second
// signal arrives.
func (s *server) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Drain)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s.services.Statements.Drain(ctx)
}

func (s *server) serveHTTP(web *http.Server, l net.Listener) error {
	if s.config.TLSCert != "" {
		return web.ServeTLS(l, s.config.TLSCert, s.config.TLSKey)
	}
	return web.Serve(l)
}

// drainTime bounds how long open requests may go on. Streams do not end by themselves: they are
// ended after half of it, and their readers reconnect.
const drainTime = 2 * time.Second

func (s *server) stop(web *http.Server, endOpen func()) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	s.site.sessions.Close()
	defer time.AfterFunc(drainTime/2, endOpen).Stop()
	if err := web.Shutdown(ctx); err != nil {
		_ = web.Close()
	}
}
