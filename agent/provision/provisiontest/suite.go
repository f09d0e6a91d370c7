// Package provisiontest tests that every provider of machines keeps the promises of
// machine.Provider. It also has a simulated provider.
package provisiontest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Suite is a provider under test.
type Suite struct {
	// New creates a world without machines, and removes all of it after the test.
	New func(t *testing.T) *World
	// Limited means that the provider has a limited capacity.
	Limited bool
	// Timeout is how long the provider may take to notice external changes, and its agents to log
	// something. 0 means 20 seconds.
	Timeout time.Duration
}

// World is a provider with the means of a test to inspect and kill its machines.
type World struct {
	Provider machine.Provider
	Settings machine.ProviderSettings
	Server   string // the control plane's address for the machines
	// Reopen drops the provider as a crash of the server would, and opens another one on the same
	// machines.
	Reopen func(t *testing.T) machine.Provider
	// Instances returns the names of a machine's living instances: processes or virtual machines. A
	// name is never reused. Only agents count, not the processes that they run.
	Instances func(t *testing.T, id domain.MachineID) []string
	// Trino sets the error that the check of Trino's installation returns from now on; nil means
	// that Trino is installed.
	Trino func(lacks error)
	// Kill ends all instances of a machine without the provider.
	Kill func(t *testing.T, id domain.MachineID)
}

const workspace = domain.WorkspaceID("ws_conformance")

// bench is one test in a world.
type bench struct {
	*testing.T
	*World
	timeout time.Duration
	flavor  machine.Flavor
	image   string
}

// Run tests that the provider keeps the promises of machine.Provider.
func Run(t *testing.T, s Suite) {
	tests := []struct {
		name string
		test func(*bench)
	}{
		{"settings are tried", testCheck},
		{"flavors are ordered and whole", testFlavors},
		{"write engines are available or refused", testWriteEngines},
		{"an image's reference stays", testResolve},
		{"what cannot be made is refused", testRefusals},
		{"a machine is made once", testEnsureTwice},
		{"another incarnation replaces", testIncarnation},
		{"many machines are made at once", testMany},
		{"a machine that died is seen and made again", testDeath},
		{"a released machine is gone and its log stays", testRelease},
		{"a released machine can be made again", testReleaseAndMake},
		{"a removed machine leaves nothing", testRemove},
		{"machines outlive the server", testReopen},
		{"calls may be cut off at any moment", testInterrupted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(s.bench(t)) })
	}
	if s.Limited {
		t.Run("no more is made than fits", func(t *testing.T) { testCapacity(s.bench(t)) })
		t.Run("no more is made at once than fits", func(t *testing.T) { testCapacityAtOnce(s.bench(t)) })
	}
}

func (s Suite) bench(t *testing.T) *bench {
	b := &bench{T: t, World: s.New(t), timeout: s.Timeout}
	if b.timeout == 0 {
		b.timeout = 20 * time.Second
	}
	flavors, err := b.Provider.Flavors(t.Context(), b.Settings)
	require.NoError(t, err)
	require.NotEmpty(t, flavors)
	b.flavor = flavors[0]
	b.image, err = b.Provider.Resolve(t.Context(), b.Settings, "")
	require.NoError(t, err)
	return b
}

func (b *bench) ref(name string, incarnation int) machine.Ref {
	return machine.Ref{Workspace: workspace, Machine: domain.MachineID("cmp_" + name), Incarnation: incarnation}
}

func (b *bench) spec(name string, incarnation int) machine.Spec {
	return machine.Spec{
		Ref: b.ref(name, incarnation), Provider: b.Settings, Flavor: b.flavor, ImageRef: b.image, Server: b.Server,
		Bootstrap: fmt.Sprintf("bootstrap-%s-%d", name, incarnation),
	}
}

// ensure creates a machine and returns the name of its only instance.
func (b *bench) ensure(s machine.Spec) string {
	b.Helper()
	require.NoError(b, b.Provider.Ensure(b.Context(), s))
	return b.one(s.Machine)
}

func (b *bench) one(id domain.MachineID) string {
	b.Helper()
	instances := b.Instances(b.T, id)
	require.Len(b, instances, 1, "instances of %s", id)
	return instances[0]
}

func (b *bench) alive(ref machine.Ref) (alive bool, detail string) {
	b.Helper()
	alive, detail, err := b.Provider.Alive(b.Context(), ref)
	require.NoError(b, err)
	return alive, detail
}

func (b *bench) machines() []machine.Ref {
	b.Helper()
	refs, err := b.Provider.Machines(b.Context())
	require.NoError(b, err)
	return refs
}

func (b *bench) log(ref machine.Ref, limit int) string {
	b.Helper()
	log, err := b.Provider.Log(b.Context(), ref, limit)
	require.NoError(b, err)
	return string(log)
}

func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	require.Eventually(b, is, b.timeout, 5*time.Millisecond, what)
}

func (b *bench) requireCode(err error, code domain.Code) {
	b.Helper()
	require.Error(b, err)
	require.Equal(b, code, domain.AsError(err).Code, "%v", err)
	require.NotEmpty(b, domain.AsError(err).Message)
}

func (b *bench) reopen() {
	b.Helper()
	b.Provider = b.Reopen(b.T)
}

// cutOff calls with a context that ends after a while, and ignores the result.
func (b *bench) cutOff(after time.Duration, call func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(b.Context(), after)
	defer cancel()
	if after == 0 {
		cancel()
	}
	_ = call(ctx)
}
