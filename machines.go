package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/store"
)

// Names in the data directory that machines of this host need.
const (
	machinesDir = "machines"
	hostFile    = "host" // names this host in the database, as the owner of its machines
)

// Intervals of work for which no topic wakes the reconciler.
const (
	sweepEvery     = time.Hour
	abandonedEvery = time.Minute
)

// openProviders returns this server's machine providers.
func openProviders(ctx context.Context, c *serveCommand, db *database, log *slog.Logger, closing *closers) (machine.Providers, error) {
	if !*c.LocalMachines {
		return machine.Providers{}, nil
	}
	gone := func(ref machine.Ref) {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := machine.Gone(ctx, store.For[machine.Tx](db), domain.SystemClock{}, ref); err != nil && !domain.IsCode(err, domain.CodeNotFound) {
			log.Warn("recording that a machine has gone; the reconciler will notice it later", "machine", ref.Machine, "error", err)
		}
	}
	p, err := local.New(local.Options{
		Dir: c.path(machinesDir), Version: version, Log: log, LogFormat: c.LogFormat, Gone: gone,
		EnginesDir: c.EnginesDir, Trino: c.findTrino, TrinoUnfenced: c.TrinoUnfenced,
	})
	if err != nil {
		return nil, fmt.Errorf("the local machines: %w", err)
	}
	closing.add(p.Close)
	return machine.Providers{machine.ProviderLocal: p}, priceLocal(ctx, db.System(), p)
}

func (c *serveCommand) findTrino() error {
	if _, err := install.FindTrino(c.EnginesDir); err != nil {
		return err
	}
	return trino.Options{Unfenced: c.TrinoUnfenced}.Fenceable(trino.Storage{Prefix: c.tablesAddress()})
}

// Default hourly prices of the local provider, about what clouds charge.
var (
	corePrice = decimal.RequireFromString("0.04")
	gpuPrice  = decimal.RequireFromString("0.60")
)

// priceLocal sets the default price of flavors that have no price.
func priceLocal(ctx context.Context, system *store.System, p machine.Provider) error {
	flavors, err := p.Flavors(ctx, machine.DefaultProvider)
	if err != nil {
		return err
	}
	prices := map[string]machine.Price{}
	for _, f := range flavors {
		hourly := corePrice.Mul(decimal.NewFromInt(int64(f.Cores))).Add(gpuPrice.Mul(decimal.NewFromInt(int64(f.GPUs))))
		prices[f.Name] = machine.Price{Hourly: hourly, Currency: "USD"}
	}
	return system.InsertPrices(ctx, machine.ProviderLocal, machine.DefaultProvider.Region, time.Unix(0, 0).UTC(), prices)
}

// firstWarehouse returns the size and write engine of a new workspace's first warehouse: the
// largest flavor that leaves half of the host free, and that flavor's default engine. Both are
// empty if they are not known.
func firstWarehouse(ctx context.Context, providers machine.Providers) (size, engine string) {
	p := providers[machine.ProviderLocal]
	if p == nil {
		return "", ""
	}
	flavors, err := p.Flavors(ctx, machine.DefaultProvider)
	if err != nil || len(flavors) == 0 {
		return "", ""
	}
	most := 0
	for _, f := range flavors {
		most = max(most, f.Cores)
	}
	largest := flavors[0]
	for _, f := range flavors {
		if f.GPUs == 0 && 2*f.Cores <= most {
			largest = f
		}
	}
	if engine, err = machine.DefaultWriteEngine(ctx, p, machine.DefaultProvider, largest); err != nil {
		return largest.Name, ""
	}
	return largest.Name, engine
}

// directory is the identity of the data directory.
type directory struct {
	agent.Directory        // its ID is that of its files and processes
	host            string // names it in the database, as the owner of its machines
}

// identify determines which data directory this is. A copy does not own what runs in the original.
func identify(ctx context.Context, c *serveCommand, db *database, log *slog.Logger) (directory, error) {
	d, was, err := agent.FindDirectory(c.DataDir, "")
	if err != nil {
		return directory{}, err
	}
	if news := d.News(was); news != "" {
		log.Warn(news + " Tables that are files keep their original addresses.")
	}
	if d.Copied(was) {
		if err := detachCopy(ctx, c, db); err != nil {
			return directory{}, err
		}
	}
	if err := d.Keep(was); err != nil {
		return directory{}, err
	}
	host, err := hostIn(c.path(hostFile))
	return directory{Directory: d, host: host}, err
}

// directoryEvery is the interval at which a server looks whether its data directory is still there.
const directoryEvery = time.Second

// awaitGone returns an error when the directory was removed or replaced, or nil when ctx ends. The
// files at its path are another server's then.
func (d directory) awaitGone(ctx context.Context) error {
	tick := time.NewTicker(directoryEvery)
	defer tick.Stop()
	for !d.Gone() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("the data directory %s was removed while the server ran, or another one is in its place; start the server again", d.Path)
}

// detachCopy makes a copy independent of the original. An embedded database was copied with the
// directory, so its agents get new directories. With a shared database, the machines stay with the
// original.
func detachCopy(ctx context.Context, c *serveCommand, db *database) error {
	if db.postgres != nil {
		return db.System().ForgetInstances(ctx)
	}
	if err := os.Remove(c.path(hostFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// hostIn returns the name in the file, or writes a new one.
func hostIn(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err == nil && len(b) > 0 {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := rand.Text()
	return name, os.WriteFile(file, []byte(name), 0o600)
}

// machines are the machines of this host.
type machines struct {
	*machine.Reconciler
	repeater
}

// run drives the machines toward their desired state until ctx ends.
func (m machines) run(ctx context.Context) {
	if err := m.Adopt(ctx); err != nil {
		m.log.Error("checking this host's machines; they are checked again when due", "error", err)
	}
	var group sync.WaitGroup
	group.Go(func() { m.every(ctx, "orphaned machines", sweepEvery, m.Sweep) })
	group.Go(func() { m.every(ctx, "abandoned machines", abandonedEvery, m.Abandoned) })
	m.loop(ctx, "machines", machinesEvery, domain.ReconcileTopic, m.Tick)
	m.Wait()
	group.Wait()
}

// report logs how many machines run on without the server.
func (m machines) report() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	running := 0
	for _, p := range m.Providers {
		refs, _ := p.Machines(ctx)
		for _, ref := range refs {
			if alive, _, err := p.Alive(ctx, ref); err == nil && alive {
				running++
			}
		}
	}
	if running > 0 {
		m.log.Warn("machines run on without this server; the next server on the data directory takes them over, or they end after 15 minutes", "machines", running)
	}
}
