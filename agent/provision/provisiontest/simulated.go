package provisiontest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Operation is a method of machine.Provider.
type Operation string

// The operations.
const (
	OpCheck    Operation = "check"
	OpFlavors  Operation = "flavors"
	OpEngine   Operation = "write engine"
	OpResolve  Operation = "resolve"
	OpEnsure   Operation = "ensure"
	OpAlive    Operation = "alive"
	OpRelease  Operation = "release"
	OpRemove   Operation = "remove"
	OpMachines Operation = "machines"
	OpLog      Operation = "log"
)

// Hooks are the functions that a Simulated provider calls. Each may be nil. They are called without
// a lock, by any number of goroutines.
type Hooks struct {
	// Before is called first. If it returns an error, the operation does nothing and returns that
	// error. It may wait, but not longer than ctx.
	Before func(ctx context.Context, op Operation, m machine.Ref) error
	// After is called when the operation is done. The operation returns its error, as if the answer
	// were lost.
	After func(ctx context.Context, op Operation, m machine.Ref) error
	// Made is called for each created machine before Ensure returns: its agent would start now.
	Made func(m machine.Spec)
	// Ended is called for each machine that Release, Remove, another incarnation or Kill ended.
	Ended func(m machine.Ref)
}

// Simulated is a machine.Provider of unlimited capacity. Its machines exist only in memory. Its
// settings are those of the local provider. Once Trino is installed, machines with two or more
// cores have it.
type Simulated struct {
	hooks Hooks
	*cloud
}

var _ machine.Provider = (*Simulated)(nil)

// cloud is the state of the machines. It outlives the providers on it.
type cloud struct {
	mu       sync.Mutex
	machines map[domain.MachineID]*simulatedMachine
	calls    map[Operation]int
	made     int
	trino    bool
}

type simulatedMachine struct {
	spec     machine.Spec
	instance string // empty when it is not alive
	end      string
	log      string
}

const simulatedImage = "simulated:1@sha256:5133a1a7ed5133a1a7ed5133a1a7ed5133a1a7ed5133a1a7ed5133a1a7ed5133"

// NewSimulated returns a provider without machines.
func NewSimulated(h Hooks) *Simulated {
	return &Simulated{hooks: h, cloud: &cloud{machines: map[domain.MachineID]*simulatedMachine{}, calls: map[Operation]int{}}}
}

// Reopen returns another provider on the same machines, with its own hooks.
func (s *Simulated) Reopen(h Hooks) *Simulated { return &Simulated{hooks: h, cloud: s.cloud} }

// InstallTrino installs Trino, or removes it.
func (s *Simulated) InstallTrino(installed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trino = installed
}

// Latency returns a Before hook that waits for d in each operation.
func Latency(d time.Duration) func(context.Context, Operation, machine.Ref) error {
	return func(ctx context.Context, _ Operation, _ machine.Ref) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Calls returns how often an operation was called.
func (s *Simulated) Calls(op Operation) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op]
}

// Instances returns the name of a machine's living instance, or nothing. A name is never reused.
func (s *Simulated) Instances(id domain.MachineID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil && m.instance != "" {
		return []string{m.instance}
	}
	return nil
}

// Spec returns the last spec that Ensure got for a machine, or the zero value.
func (s *Simulated) Spec(id domain.MachineID) machine.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[id]; m != nil {
		return m.spec
	}
	return machine.Spec{}
}

// Living returns the number of living machines.
func (s *Simulated) Living() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.machines {
		if m.instance != "" {
			n++
		}
	}
	return n
}

// Kill ends a machine as a crash would. Alive then returns the detail.
func (s *Simulated) Kill(id domain.MachineID, detail string) {
	s.mu.Lock()
	m := s.machines[id]
	ended := m.kill(detail)
	s.mu.Unlock()
	s.notifyEnded(ended)
}

// kill returns the machine if it was alive. The caller holds the lock.
func (m *simulatedMachine) kill(detail string) []machine.Ref {
	if m == nil || m.instance == "" {
		return nil
	}
	m.instance, m.end = "", detail
	return []machine.Ref{m.spec.Ref}
}

func (s *Simulated) notifyEnded(ended []machine.Ref) {
	for _, ref := range ended {
		if s.hooks.Ended != nil {
			s.hooks.Ended(ref)
		}
	}
}

// call wraps every operation.
func (s *Simulated) call(ctx context.Context, op Operation, m machine.Ref, do func() error) error {
	s.mu.Lock()
	s.calls[op]++
	s.mu.Unlock()
	if s.hooks.Before != nil {
		if err := s.hooks.Before(ctx, op, m); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := do(); err != nil || s.hooks.After == nil {
		return err
	}
	return s.hooks.After(ctx, op, m)
}

func checkSimulated(p machine.ProviderSettings) error {
	switch {
	case p.Kind != machine.ProviderLocal:
		return domain.Invalid("kind", "The provider is %q; only local is simulated.", p.Kind)
	case p.Region != "" && p.Region != string(machine.ProviderLocal):
		return domain.Invalid("region", "The region is %q; there is only local.", p.Region)
	}
	return nil
}

// Check implements machine.Provider.
func (s *Simulated) Check(ctx context.Context, p machine.ProviderSettings) error {
	return s.call(ctx, OpCheck, machine.Ref{}, func() error { return checkSimulated(p) })
}

// Flavors implements machine.Provider: cpu.1 to cpu.64.
func (s *Simulated) Flavors(ctx context.Context, p machine.ProviderSettings) (all []machine.Flavor, err error) {
	err = s.call(ctx, OpFlavors, machine.Ref{}, func() error {
		all = simulatedFlavors()
		return checkSimulated(p)
	})
	return all, err
}

func simulatedFlavors() []machine.Flavor {
	var all []machine.Flavor
	for n := 1; n <= 64; n *= 2 {
		all = append(all, machine.Flavor{Name: fmt.Sprintf("cpu.%d", n), Cores: n, Memory: int64(n) << 32, Available: true})
	}
	return all
}

// CheckWriteEngine implements machine.Provider.
func (s *Simulated) CheckWriteEngine(ctx context.Context, p machine.ProviderSettings, f machine.Flavor, engine string) error {
	return s.call(ctx, OpEngine, machine.Ref{}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case engine == machine.EngineDuckDB:
			return checkSimulated(p)
		case engine != machine.EngineTrino:
			return domain.Invalid("write_engine", "There is no write engine %q; choose duckdb or trino.", engine)
		case !s.trino:
			return domain.Invalid("write_engine", "Trino is not installed; run `millpond engine install trino`, or choose the write engine duckdb.")
		case f.Cores < 2:
			return domain.Invalid("write_engine", "Trino needs a machine with 2 cores at least; choose a larger one, or the write engine duckdb.")
		}
		return checkSimulated(p)
	})
}

// Resolve implements machine.Provider. There is one image.
func (s *Simulated) Resolve(ctx context.Context, p machine.ProviderSettings, image string) (string, error) {
	return simulatedImage, s.call(ctx, OpResolve, machine.Ref{}, func() error {
		switch image {
		case "", "default", "simulated", "simulated:1", simulatedImage:
			return checkSimulated(p)
		}
		return domain.Invalid("image", "The image %q is not known here; choose default or simulated:1.", image)
	})
}

// Ensure implements machine.Provider.
func (s *Simulated) Ensure(ctx context.Context, m machine.Spec) error {
	return s.call(ctx, OpEnsure, m.Ref, func() error {
		if err := checkSimulatedSpec(m); err != nil {
			return err
		}
		made, ended := s.make(m)
		s.notifyEnded(ended)
		if made && s.hooks.Made != nil {
			s.hooks.Made(m)
		}
		return nil
	})
}

func checkSimulatedSpec(m machine.Spec) error {
	if err := checkSimulated(m.Provider); err != nil {
		return err
	}
	var names []string
	for _, f := range simulatedFlavors() {
		names = append(names, f.Name)
	}
	known := strings.Join(names, ", ")
	switch {
	case m.ImageRef != simulatedImage:
		return domain.Invalid("image", "The image reference %q is not known here; update the image while the machine is stopped.", m.ImageRef)
	case m.Incarnation < 1:
		return domain.Invalid("incarnation", "The incarnation is %d; it counts from 1.", m.Incarnation)
	case !strings.Contains(", "+known+", ", ", "+m.Flavor.Name+", "):
		return domain.Invalid("flavor", "The flavor %q is not available; choose %s.", m.Flavor.Name, known)
	}
	return nil
}

func (c *cloud) make(spec machine.Spec) (made bool, ended []machine.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.machines[spec.Machine]
	if m == nil {
		m = &simulatedMachine{}
		c.machines[spec.Machine] = m
	}
	if m.instance != "" && m.spec.Incarnation == spec.Incarnation {
		m.spec.Bootstrap = spec.Bootstrap
		return false, nil
	}
	ended = m.kill("It was replaced.")
	c.made++
	m.spec, m.instance, m.end = spec, fmt.Sprintf("instance-%d", c.made), ""
	m.log += fmt.Sprintf("incarnation %d began as %s\n", spec.Incarnation, m.instance)
	return true, ended
}

// Alive implements machine.Provider.
func (s *Simulated) Alive(ctx context.Context, ref machine.Ref) (alive bool, detail string, err error) {
	err = s.call(ctx, OpAlive, ref, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		m := s.machines[ref.Machine]
		switch {
		case m == nil:
			detail = "It is not there."
		case m.instance == "":
			detail = m.end
		case m.spec.Incarnation != ref.Incarnation:
			detail = fmt.Sprintf("Incarnation %d is there, not %d.", m.spec.Incarnation, ref.Incarnation)
		default:
			alive = true
		}
		return nil
	})
	return alive, detail, err
}

// Release implements machine.Provider.
func (s *Simulated) Release(ctx context.Context, ref machine.Ref) error {
	return s.call(ctx, OpRelease, ref, func() error {
		s.Kill(ref.Machine, "It was released.")
		return nil
	})
}

// Remove implements machine.Provider.
func (s *Simulated) Remove(ctx context.Context, ref machine.Ref) error {
	return s.call(ctx, OpRemove, ref, func() error {
		s.Kill(ref.Machine, "It was removed.")
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.machines, ref.Machine)
		return nil
	})
}

// Machines implements machine.Provider.
func (s *Simulated) Machines(ctx context.Context) (refs []machine.Ref, err error) {
	err = s.call(ctx, OpMachines, machine.Ref{}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.machines {
			refs = append(refs, m.spec.Ref)
		}
		return nil
	})
	return refs, err
}

// Log implements machine.Provider.
func (s *Simulated) Log(ctx context.Context, ref machine.Ref, limit int) (log []byte, err error) {
	err = s.call(ctx, OpLog, ref, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if m := s.machines[ref.Machine]; m != nil {
			log = []byte(m.log[max(0, len(m.log)-limit):])
		}
		return nil
	})
	return log, err
}
