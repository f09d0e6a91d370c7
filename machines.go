package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/provision/local"
	"github.com/millpond/millpond/domain"
)

// What machines of this host need in the data directory.
const (
	machinesDir = "machines"
	hostFile    = "host" // the name by which the database knows whose machines they are
)

// How often is looked for what the reconciler is not woken for.
const (
	sweepEvery     = time.Hour
	abandonedEvery = time.Minute
)

// openProviders makes the providers of machines that this server has.
func (s *server) openProviders(ctx context.Context) (domain.Providers, error) {
	wanted := s.database != nil
	if s.config.LocalMachines != nil {
		wanted = *s.config.LocalMachines
	}
	if !wanted {
		return domain.Providers{}, nil
	}
	p, err := local.New(local.Options{
		Dir: s.path(machinesDir), Version: version, Log: s.log, LogFormat: s.config.LogFormat, Gone: s.machineGone,
		EnginesDir: s.config.EnginesDir, Trino: s.findTrino,
	})
	if err != nil {
		return nil, fmt.Errorf("the local machines: %w", err)
	}
	s.closers = append(s.closers, p.Close)
	return domain.Providers{domain.ProviderLocal: p}, s.priceLocal(ctx, p)
}

func (s *server) findTrino() error {
	_, err := install.FindTrino(s.config.EnginesDir)
	return err
}

// What an hour of the local provider costs where nobody has said otherwise: about what clouds ask for the like.
var (
	corePrice = decimal.RequireFromString("0.04")
	gpuPrice  = decimal.RequireFromString("0.60")
)

// priceLocal gives flavors without a price one.
func (s *server) priceLocal(ctx context.Context, p domain.Provider) error {
	flavors, err := p.Flavors(ctx, domain.DefaultProvider)
	if err != nil {
		return err
	}
	prices := map[string]domain.Price{}
	for _, f := range flavors {
		hourly := corePrice.Mul(decimal.NewFromInt(int64(f.Cores))).Add(gpuPrice.Mul(decimal.NewFromInt(int64(f.GPUs))))
		prices[f.Name] = domain.Price{Hourly: hourly, Currency: "USD"}
	}
	return s.store.System().InsertPrices(ctx, domain.ProviderLocal, domain.DefaultProvider.Region, time.Unix(0, 0).UTC(), prices)
}

// firstWarehouse is what the warehouse that a workspace starts with is made from: the largest flavor that leaves half of the host free, and the default write
// engine of that. Both are empty where they cannot be known.
func firstWarehouse(ctx context.Context, providers domain.Providers) (size, engine string) {
	p := providers[domain.ProviderLocal]
	if p == nil {
		return "", ""
	}
	flavors, err := p.Flavors(ctx, domain.DefaultProvider)
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
	if engine, err = domain.DefaultWriteEngine(ctx, p, domain.DefaultProvider, largest); err != nil {
		return largest.Name, ""
	}
	return largest.Name, engine
}

// host is the name of this server's data directory, by which its machines are known to be its own.
func (s *server) host() (string, error) {
	b, err := os.ReadFile(s.path(hostFile))
	if err == nil && len(b) > 0 {
		return string(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := rand.Text()
	return name, os.WriteFile(s.path(hostFile), []byte(name), 0o600)
}

// machineGone passes a provider's hint on.
func (s *server) machineGone(ref domain.MachineRef) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if err := s.reconciler.Gone(ctx, ref); err != nil && !domain.IsCode(err, domain.CodeNotFound) {
		s.log.Warn("noting that a machine has gone; it is noticed later", "machine", ref.Machine, "error", err)
	}
}

// tellOfMachines says what goes on without the server.
func (s *server) tellOfMachines() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	running := 0
	for _, p := range s.reconciler.Providers {
		refs, _ := p.Machines(ctx)
		for _, ref := range refs {
			if alive, _, err := p.Alive(ctx, ref); err == nil && alive {
				running++
			}
		}
	}
	if running > 0 {
		s.log.Warn("machines run on without this server; the next one on the data directory takes them over, and else they end after 15 minutes", "machines", running)
	}
}

// machines keeps machines what is wanted of them until ctx ends.
func (s *server) machines(ctx context.Context) {
	if err := s.reconciler.Adopt(ctx); err != nil {
		s.log.Error("looking after this host's machines; it is done when they are due", "error", err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		s.every(ctx, "orphaned machines", sweepEvery, s.reconciler.Sweep)
	})
	group.Go(func() { s.every(ctx, "abandoned machines", abandonedEvery, s.reconciler.Abandoned) })
	s.loop(ctx, "machines", machinesEvery, domain.ReconcileTopic, s.reconciler.Tick)
	s.reconciler.Wait()
	group.Wait()
}
