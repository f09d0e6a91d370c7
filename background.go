package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// Intervals of what the server does by itself. Work is done when it is woken; the intervals are the safety net.
const (
	dispatchEvery   = 5 * time.Second
	scheduleEvery   = 20 * time.Second
	machinesEvery   = 30 * time.Second
	sealEvery       = 2 * time.Second
	houseEvery      = time.Hour
	statementsEvery = 10 * time.Second

	maintenanceEvery = 30 * time.Second
	replicaEvery     = 10 * time.Second
	keysEvery        = 5 * time.Minute
	databaseEvery    = time.Second
)

// background runs what no request asks for, until ctx ends. Every replica does all of it; locks in the database see to it that
// each thing is done once.
func (s *server) background(ctx context.Context, fail context.CancelCauseFunc) {
	system := s.store.System()
	clock := domain.SystemClock{}
	scheduler := &domain.Scheduler{Store: s.store, System: system, Runs: s.services.Runs, Clock: clock}
	if err := system.ExtendLeases(ctx, clock.Now(), clock.Now().Add(s.config.Lease)); err != nil {
		fail(err)
		return
	}
	var group sync.WaitGroup
	group.Go(func() { s.outbox.Run(ctx) })
	group.Go(func() { s.loop(ctx, "dispatch", dispatchEvery, domain.DispatchTopic, s.services.Runs.Dispatch) })
	group.Go(func() {
		s.loop(ctx, "schedules", scheduleEvery, domain.ScheduleTopic, func(ctx context.Context) (time.Time, error) {
			failed := scheduler.Tick(ctx) // one that fails makes no other late
			next, err := system.NextSchedule(ctx)
			return next, errors.Join(failed, err)
		})
	})
	group.Go(func() { s.machines(ctx) })
	group.Go(func() { s.leases(ctx) })
	group.Go(func() {
		s.every(ctx, "log archive", sealEvery, func(ctx context.Context) error { return s.services.Logs.Seal(ctx, system) })
	})
	group.Go(func() {
		s.every(ctx, "housekeeping", houseEvery, func(ctx context.Context) error { return system.Housekeep(ctx, clock.Now()) })
	})
	group.Go(func() { s.every(ctx, "statements", statementsEvery, s.services.Statements.Sweep) })
	group.Go(func() {
		s.loop(ctx, "maintenance", maintenanceEvery, domain.MaintenanceTopic, s.services.Maintenance.Tick)
	})
	group.Go(func() { s.every(ctx, "purge of tables", houseEvery, s.lake.Purge) })
	group.Go(func() { s.emitLineage(ctx) })
	group.Go(func() { s.every(ctx, "signing keys", keysEvery, s.keys.Rotate) })
	group.Go(func() { s.replica(ctx) })
	group.Go(func() { s.keepDatabase(ctx, fail) })
	group.Wait()
}

// maxStep is how far the clock may be set between two sweeps without anybody's minding.
const maxStep = 5 * time.Second

// leases declares lost what runs on agents that were not heard of for too long, by this server's clock. When that is set, leases begin anew.
func (s *server) leases(ctx context.Context) {
	last := time.Now()
	s.every(ctx, "agent leases", s.config.lease().Heartbeat/2, func(ctx context.Context) error {
		now := time.Now()
		passed, shown := now.Sub(last), now.Round(0).Sub(last.Round(0)) // by the monotonic clock, and by the wall clock
		if step := (shown - passed).Abs(); step > maxStep {
			s.log.Warn("the clock was set; the agents' leases begin anew", "step", shown-passed)
			if err := s.store.System().RenewLeases(ctx, now.Add(s.config.Lease)); err != nil {
				return err
			}
			if err := s.store.System().ShiftMachines(ctx, s.reconciler.Host, shown-passed); err != nil {
				return err
			}
		}
		last = now
		return s.services.Agents.Sweep(ctx)
	})
}

// every does the work now and then at the interval. An error is logged, and the work done again at the next turn.
func (s *server) every(ctx context.Context, name string, interval time.Duration, work func(context.Context) error) {
	s.loop(ctx, name, interval, "", func(ctx context.Context) (time.Time, error) { return time.Time{}, work(ctx) })
}

// loop does the work whenever the topic wakes it, at the time that the work itself named last, and at the interval in any case. Without a topic
// nothing wakes it.
func (s *server) loop(ctx context.Context, name string, interval time.Duration, topic domain.Topic, work func(context.Context) (time.Time, error)) {
	var wake <-chan struct{}
	if topic != "" {
		var stop func()
		wake, stop = s.store.Topics().Subscribe(topic)
		defer stop()
	}
	for {
		next, err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.log.Error("background work failed; it is tried again", "work", name, "error", err)
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

// replica keeps this replica known to the others while it runs.
func (s *server) replica(ctx context.Context) {
	id, url := s.services.Agents.Replica, s.config.AdvertiseURL
	if url == "" {
		url = s.url
	}
	s.every(ctx, "replicas", replicaEvery, func(ctx context.Context) error {
		return s.store.System().SaveReplica(ctx, id, url, time.Now())
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := s.store.System().DeleteReplica(end, id); err != nil {
		s.log.Warn("taking this replica off the list", "error", err)
	}
}

// keepDatabase starts the embedded PostgreSQL again when it has died. One that does not come back ends the server.
func (s *server) keepDatabase(ctx context.Context, fail context.CancelCauseFunc) {
	for s.database != nil {
		select {
		case <-ctx.Done():
			return
		case <-s.database.Done():
		}
		s.log.Error("PostgreSQL has died; starting it again")
		if err := s.database.Restart(ctx); err != nil {
			fail(err)
			return
		}
	}
}
