package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/tracking"
	"github.com/millpond/millpond/graph"
	"github.com/millpond/millpond/store"
)

// Intervals of the server's background work. Topics wake the work; the intervals are the safety
// net.
const (
	dispatchEvery   = 5 * time.Second
	scheduleEvery   = 20 * time.Second
	machinesEvery   = 30 * time.Second
	sealEvery       = 2 * time.Second
	houseEvery      = time.Hour
	statementsEvery = 10 * time.Second

	maintenanceEvery = 30 * time.Second
	trackingEvery    = 5 * time.Second
	replicaEvery     = 10 * time.Second
	keysEvery        = 5 * time.Minute
)

// background is all work that no request asks for. Every replica runs all of it; database locks
// ensure that each item is done once.
type background struct {
	repeater
	db        *database
	services  graph.Services
	outbox    *job.Outbox
	lake      *lake.Catalog
	keys      *auth.Keys
	lineage   *lineage.Emitter
	machines  machines
	leases    leases
	directory agent.Directory
	replica   replica
}

// run runs the work until ctx ends. The work that statements need goes on until upkeep ends.
func (b background) run(ctx, upkeep context.Context) {
	system, clock := b.db.System(), b.services.Clock
	scheduler := &job.Scheduler{Store: store.For[job.Tx](b.db), System: system, Runs: b.services.Runs, Clock: clock}
	var lasting sync.WaitGroup
	defer lasting.Wait()
	lasting.Go(func() { b.db.keep(upkeep, b.directory) })
	lasting.Go(func() { b.outbox.Run(upkeep) })
	if b.begin(ctx) != nil {
		return
	}
	lasting.Go(func() { b.replica.run(upkeep) })
	var group sync.WaitGroup
	group.Go(func() { b.loop(ctx, "dispatch", dispatchEvery, domain.DispatchTopic, b.services.Runs.Dispatch) })
	tick := func(due func(context.Context, time.Time, int) ([]domain.Due, error)) func(context.Context) (time.Time, error) {
		return func(ctx context.Context) (time.Time, error) { return domain.Tick(ctx, clock, due) }
	}
	group.Go(func() { b.loop(ctx, "schedules", scheduleEvery, domain.ScheduleTopic, tick(scheduler.Due)) })
	group.Go(func() { b.machines.run(ctx) })
	group.Go(func() { b.leases.run(ctx) })
	group.Go(func() {
		b.every(ctx, "log archive", sealEvery, func(ctx context.Context) error { return b.services.Logs.Seal(ctx, system) })
	})
	group.Go(func() {
		b.every(ctx, "housekeeping", houseEvery, func(ctx context.Context) error { return system.Housekeep(ctx, clock.Now()) })
	})
	group.Go(func() {
		b.loop(ctx, "statements", statementsEvery, domain.HandoverTopic, func(ctx context.Context) (time.Time, error) {
			return time.Time{}, b.services.Statements.Sweep(ctx)
		})
	})
	group.Go(func() {
		b.loop(ctx, "maintenance", maintenanceEvery, domain.MaintenanceTopic, tick(b.services.Maintenance.Due))
	})
	group.Go(func() { b.every(ctx, "tables with many snapshots", houseEvery, b.services.Maintenance.Relieve) })
	group.Go(func() { b.every(ctx, "purge of tables", houseEvery, b.lake.Purge) })
	group.Go(func() { b.every(ctx, "erasure of forgotten files", houseEvery, b.lake.Erase) })
	tracked := &tracking.Upkeep{Store: store.For[tracking.Tx](b.db), System: system, Clock: clock}
	group.Go(func() {
		b.loop(ctx, "tracking runs of ended tasks", trackingEvery, domain.DispatchTopic, func(ctx context.Context) (time.Time, error) {
			return time.Time{}, tracked.End(ctx)
		})
	})
	group.Go(func() { b.every(ctx, "summaries of metrics", trackingEvery, tracked.Summarize) })
	group.Go(func() { b.every(ctx, "erasure of tracking runs", houseEvery, tracked.Erase) })
	group.Go(func() { b.loop(ctx, "OpenLineage", houseEvery, "", b.lineage.Deliver) })
	group.Go(func() { b.every(ctx, "signing keys", keysEvery, b.keys.Rotate) })
	group.Wait()
}

// begin runs the first database changes and retries them until they succeed or ctx ends. It
// restarts leases, because the server was away and not the agents. It registers this replica before
// the replica takes over statements.
func (b background) begin(ctx context.Context) error {
	return retry(ctx, b.log, "the database refuses this server's first changes", func() error {
		if err := b.leases.extend(ctx); err != nil {
			return err
		}
		return b.replica.save(ctx)
	})
}

// leases are the leases of all agents, by this server's clock.
type leases struct {
	repeater
	system *store.System
	agents *job.Agents
	host   string // its machines' times follow the clock too
}

func (l leases) extend(ctx context.Context) error {
	now := time.Now()
	return l.system.ExtendLeases(ctx, now, now.Add(l.agents.Lease.Length))
}

// maxStep is the largest clock step between two sweeps that does not restart the leases.
const maxStep = 5 * time.Second

// run declares the attempts of an agent lost when the agent was silent for too long. If the clock
// was set, all leases restart.
func (l leases) run(ctx context.Context) {
	last := time.Now()
	l.every(ctx, "agent leases", l.agents.Lease.Heartbeat/2, func(ctx context.Context) error {
		now := time.Now()
		passed, shown := now.Sub(last), now.Round(0).Sub(last.Round(0)) // by the monotonic clock, and by the wall clock
		if step := (shown - passed).Abs(); step > maxStep {
			l.log.Warn("the clock was set; the agents' leases restart", "step", shown-passed)
			if err := l.system.RenewLeases(ctx, now.Add(l.agents.Lease.Length)); err != nil {
				return err
			}
			if err := l.system.ShiftMachines(ctx, l.host, shown-passed); err != nil {
				return err
			}
		}
		last = now
		return l.agents.Sweep(ctx)
	})
}

// replica is this server in the list of the instance's replicas.
type replica struct {
	repeater
	system *store.System
	id     string
	url    string // at which other replicas reach it
}

func (r replica) save(ctx context.Context) error {
	return r.system.SaveReplica(ctx, r.id, r.url, time.Now())
}

// goodbyeTime bounds the removal of this replica from the list.
const goodbyeTime = 5 * time.Second

// run sends this replica's heartbeat to the database until ctx ends.
func (r replica) run(ctx context.Context) {
	r.every(ctx, "replicas", replicaEvery, r.save)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()
	if err := r.system.DeleteReplica(end, r.id); err != nil {
		r.log.Warn("removing this replica from the list", "error", err)
	}
}

// repeater repeats background work and logs its failures.
type repeater struct {
	topics domain.Topics
	log    *slog.Logger
}

// every runs the work now and at each interval. It logs an error and runs the work again at the
// next interval.
func (r repeater) every(ctx context.Context, name string, interval time.Duration, work func(context.Context) error) {
	r.loop(ctx, name, interval, "", func(ctx context.Context) (time.Time, error) { return time.Time{}, work(ctx) })
}

// loop runs the work when the topic wakes it, at the time that the work last returned, and at each
// interval. An empty topic never wakes it.
func (r repeater) loop(ctx context.Context, name string, interval time.Duration, topic domain.Topic, work func(context.Context) (time.Time, error)) {
	var wake <-chan struct{}
	if topic != "" {
		var stop func()
		wake, stop = r.topics.Subscribe(topic)
		defer stop()
	}
	for {
		next, err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.log.Error("background work failed; retrying", "work", name, "error", err)
		}
		pause := interval
		if !next.IsZero() {
			pause = max(time.Millisecond, min(interval, time.Until(next)))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Pauses between the attempts of retry: the first and the longest.
const (
	minPause = 500 * time.Millisecond
	maxPause = 10 * time.Second
)

// retry repeats the work until it succeeds or ctx ends, and logs each failure. It returns nil if
// the work has succeeded.
func retry(ctx context.Context, log *slog.Logger, failure string, work func() error) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := work()
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.Error(failure+"; retrying", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
