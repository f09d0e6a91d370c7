package provisiontest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// many is the number of machines that are created at once.
const many = 8

func testCheck(b *bench) {
	require.NoError(b, b.Provider.Check(b.Context(), b.Settings))
	for _, wrong := range []machine.ProviderSettings{
		{}, {Kind: "nowhere", Region: b.Settings.Region}, {Kind: b.Settings.Kind, Region: "nowhere-1", Role: b.Settings.Role, ExternalID: b.Settings.ExternalID},
	} {
		b.requireCode(b.Provider.Check(b.Context(), wrong), domain.CodeInvalid)
	}
	require.Empty(b, b.machines(), "trying leaves nothing")
}

func testFlavors(b *bench) {
	flavors, err := b.Provider.Flavors(b.Context(), b.Settings)
	require.NoError(b, err)
	names := map[string]bool{}
	for i, f := range flavors {
		require.False(b, names[f.Name], "%s is there twice", f.Name)
		names[f.Name] = true
		require.NotEmpty(b, f.Name)
		require.Positive(b, f.Cores, f.Name)
		require.Positive(b, f.Memory, f.Name)
		require.Equal(b, f.GPUs > 0, f.GPU != "", f.Name)
		require.Zero(b, f.Price, "prices are the platform's")
		require.True(b, f.Available, "%s on an empty host", f.Name)
		if i > 0 {
			require.LessOrEqual(b, slices.Compare(size(flavors[i-1]), size(f)), 0, "%s comes before %s", flavors[i-1].Name, f.Name)
		}
	}
	again, err := b.Provider.Flavors(b.Context(), b.Settings)
	require.NoError(b, err)
	require.Equal(b, flavors, again)
	_, err = b.Provider.Flavors(b.Context(), machine.ProviderSettings{Kind: "nowhere"})
	b.requireCode(err, domain.CodeInvalid)
}

func size(f machine.Flavor) []int64 { return []int64{int64(f.GPUs), int64(f.Cores), f.Memory} }

func testWriteEngines(b *bench) {
	flavors, err := b.Provider.Flavors(b.Context(), b.Settings)
	require.NoError(b, err)
	largest := flavors[len(flavors)-1]
	check := func(f machine.Flavor, engine string) error {
		return b.Provider.CheckWriteEngine(b.Context(), b.Settings, f, engine)
	}
	for _, f := range flavors {
		require.NoError(b, check(f, machine.EngineDuckDB), f.Name)
		for _, unknown := range []string{"", "spark", "Trino"} {
			b.requireCode(check(f, unknown), domain.CodeInvalid)
		}
		b.requireCode(b.Provider.CheckWriteEngine(b.Context(), machine.ProviderSettings{Kind: "nowhere"}, f, machine.EngineDuckDB), domain.CodeInvalid)
	}
	lacks := errors.New("it is not there; run `millpond engine install trino`")
	b.Trino(lacks)
	refused := check(largest, machine.EngineTrino)
	b.requireCode(refused, domain.CodeInvalid)
	require.Contains(b, domain.AsError(refused).Message, "millpond engine install trino")
	b.Trino(nil)
	require.NoError(b, check(largest, machine.EngineTrino), "it was installed meanwhile")
	small := largest
	small.Cores, small.Memory = 1, 1<<30
	b.requireCode(check(small, machine.EngineTrino), domain.CodeInvalid)
	require.NoError(b, check(small, machine.EngineDuckDB))
	b.reopen()
	require.NoError(b, check(largest, machine.EngineTrino))
}

func testResolve(b *bench) {
	resolve := func(image string) string {
		ref, err := b.Provider.Resolve(b.Context(), b.Settings, image)
		require.NoError(b, err)
		return ref
	}
	require.NotEmpty(b, b.image)
	require.Equal(b, b.image, resolve(""))
	require.Equal(b, b.image, resolve(b.image), "a reference stands for itself")
	b.reopen()
	require.Equal(b, b.image, resolve(""))
	_, err := b.Provider.Resolve(b.Context(), b.Settings, "no-such-image")
	b.requireCode(err, domain.CodeInvalid)
	_, err = b.Provider.Resolve(b.Context(), machine.ProviderSettings{Kind: "nowhere"}, "")
	b.requireCode(err, domain.CodeInvalid)
}

func testRefusals(b *bench) {
	for what, change := range map[string]func(*machine.Spec){
		"flavor": func(s *machine.Spec) {
			s.Flavor = machine.Flavor{Name: "no.such.flavor", Cores: 1, Memory: 1 << 30}
		},
		"no flavor":   func(s *machine.Spec) { s.Flavor = machine.Flavor{} },
		"image":       func(s *machine.Spec) { s.ImageRef = "no-such-image" },
		"no image":    func(s *machine.Spec) { s.ImageRef = "" },
		"kind":        func(s *machine.Spec) { s.Provider.Kind = "nowhere" },
		"incarnation": func(s *machine.Spec) { s.Incarnation = 0 },
	} {
		s := b.spec("refused", 1)
		change(&s)
		err := b.Provider.Ensure(b.Context(), s)
		require.Error(b, err, what)
		b.requireCode(err, domain.CodeInvalid)
		require.Empty(b, b.Instances(b.T, s.Machine), what)
		require.Empty(b, b.machines(), "%s: a refused machine leaves nothing", what)
	}
	b.ensure(b.spec("refused", 1))
}

func testEnsureTwice(b *bench) {
	s := b.spec("a", 1)
	alive, detail := b.alive(s.Ref)
	require.False(b, alive)
	require.NotEmpty(b, detail)
	made := b.ensure(s)
	s.Bootstrap = "another-token"
	require.Equal(b, made, b.ensure(s))
	alive, _ = b.alive(s.Ref)
	require.True(b, alive)
	require.Equal(b, []machine.Ref{s.Ref}, b.machines())
}

func testIncarnation(b *bench) {
	first := b.ensure(b.spec("a", 1))
	second := b.ensure(b.spec("a", 2))
	require.NotEqual(b, first, second)
	alive, detail := b.alive(b.ref("a", 1))
	require.False(b, alive)
	require.NotEmpty(b, detail)
	alive, _ = b.alive(b.ref("a", 2))
	require.True(b, alive)
	require.Equal(b, []machine.Ref{b.ref("a", 2)}, b.machines())
}

func testMany(b *bench) {
	specs := b.specs()
	atOnce(specs, func(s machine.Spec) { b.noError(b.Provider.Ensure(b.Context(), s)) })
	for _, s := range specs {
		b.one(s.Machine)
	}
	require.Len(b, b.machines(), many)
	atOnce(specs, func(s machine.Spec) { b.noError(b.Provider.Release(b.Context(), s.Ref)) })
	for _, s := range specs {
		require.Empty(b, b.Instances(b.T, s.Machine))
	}
}

func (b *bench) specs() []machine.Spec {
	specs := make([]machine.Spec, many)
	for i := range specs {
		specs[i] = b.spec(fmt.Sprintf("many-%d", i), 1)
	}
	return specs
}

// noError may be called by other goroutines than the test's.
func (b *bench) noError(err error) {
	if err != nil {
		b.Error(err)
	}
}

func atOnce(specs []machine.Spec, do func(machine.Spec)) {
	var group sync.WaitGroup
	for _, s := range specs {
		group.Go(func() { do(s) })
	}
	group.Wait()
}

func testDeath(b *bench) {
	s := b.spec("a", 1)
	first := b.ensure(s)
	b.Kill(b.T, s.Machine)
	var detail string
	b.eventually("the provider sees that it is gone", func() bool {
		alive, why := b.alive(s.Ref)
		detail = why
		return !alive
	})
	require.NotEmpty(b, detail)
	require.Equal(b, []machine.Ref{s.Ref}, b.machines(), "what is left of it is still to be released")
	again := b.ensure(s)
	require.NotEqual(b, first, again, "this incarnation was not there")
	b.Kill(b.T, s.Machine)
	b.ensure(b.spec("a", 2))
}

func testRelease(b *bench) {
	s := b.spec("a", 3)
	b.ensure(s)
	b.eventually("the agent logs something", func() bool { return b.log(s.Ref, 1<<20) != "" })
	require.LessOrEqual(b, len(b.log(s.Ref, 10)), 10)
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("a", 1)), "whatever incarnation")
	require.Empty(b, b.Instances(b.T, s.Machine), "it is gone when Release returns")
	alive, detail := b.alive(s.Ref)
	require.False(b, alive)
	require.NotEmpty(b, detail)
	require.NotEmpty(b, b.log(s.Ref, 1<<20))
	require.NoError(b, b.Provider.Release(b.Context(), s.Ref), "again")
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("unknown", 1)))
	b.reopen()
	require.NotEmpty(b, b.log(s.Ref, 1<<20))
	require.NoError(b, b.Provider.Release(b.Context(), s.Ref), "by another server")
}

func testReleaseAndMake(b *bench) {
	first := b.ensure(b.spec("a", 1))
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("a", 1)))
	second := b.ensure(b.spec("a", 2))
	require.NotEqual(b, first, second)
	alive, _ := b.alive(b.ref("a", 2))
	require.True(b, alive)
}

func testRemove(b *bench) {
	b.ensure(b.spec("a", 1))
	b.ensure(b.spec("b", 1))
	require.NoError(b, b.Provider.Remove(b.Context(), b.ref("a", 1)))
	require.Empty(b, b.Instances(b.T, b.ref("a", 1).Machine))
	require.Equal(b, []machine.Ref{b.ref("b", 1)}, b.machines())
	require.Empty(b, b.log(b.ref("a", 1), 1<<20))
	require.NoError(b, b.Provider.Remove(b.Context(), b.ref("a", 1)), "again")
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("b", 1)))
	require.NoError(b, b.Provider.Remove(b.Context(), b.ref("b", 1)), "after its release")
	require.Empty(b, b.machines())
	b.ensure(b.spec("a", 1))
}

func testReopen(b *bench) {
	running, dead, released := b.ref("running", 2), b.ref("dead", 1), b.ref("released", 1)
	b.ensure(b.spec("running", 1))
	instance := b.ensure(b.spec("running", 2))
	b.ensure(b.spec("dead", 1))
	b.ensure(b.spec("released", 1))
	b.Kill(b.T, dead.Machine)
	require.NoError(b, b.Provider.Release(b.Context(), released))
	b.reopen()
	require.Subset(b, b.machines(), []machine.Ref{running, dead})
	alive, _ := b.alive(running)
	require.True(b, alive)
	b.eventually("the other server sees that it is gone", func() bool { alive, _ := b.alive(dead); return !alive })
	alive, _ = b.alive(released)
	require.False(b, alive)
	require.Equal(b, instance, b.ensure(b.spec("running", 2)), "it is adopted")
	b.reopen()
	b.Kill(b.T, running.Machine)
	b.eventually("the third server sees that it is gone", func() bool { alive, _ := b.alive(running); return !alive })
	b.reopen()
	for _, ref := range b.machines() {
		require.NoError(b, b.Provider.Remove(b.Context(), ref))
	}
	require.Empty(b, b.machines())
}

// testInterrupted interrupts calls after various delays, each time with another server afterwards.
func testInterrupted(b *bench) {
	s := b.spec("a", 0)
	for _, after := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond} {
		s.Incarnation++
		b.cutOff(after, func(ctx context.Context) error { return b.Provider.Ensure(ctx, s) })
		b.reopen()
		b.ensure(s)
		alive, _ := b.alive(s.Ref)
		require.True(b, alive)
		b.cutOff(after, func(ctx context.Context) error { return b.Provider.Release(ctx, s.Ref) })
		b.reopen()
		require.NoError(b, b.Provider.Release(b.Context(), s.Ref))
		require.Empty(b, b.Instances(b.T, s.Machine))
		b.cutOff(after, func(ctx context.Context) error { return b.Provider.Ensure(ctx, s) })
		b.cutOff(after, func(ctx context.Context) error { return b.Provider.Remove(ctx, s.Ref) })
		b.reopen()
		require.NoError(b, b.Provider.Remove(b.Context(), s.Ref))
		require.Empty(b, b.Instances(b.T, s.Machine))
		require.Empty(b, b.machines())
	}
}

// testCapacity fills the host with its largest flavor.
func testCapacity(b *bench) {
	largest := func() machine.Flavor {
		flavors, err := b.Provider.Flavors(b.Context(), b.Settings)
		require.NoError(b, err)
		return flavors[len(flavors)-1]
	}
	b.flavor = largest()
	made := 0
	for ; b.flavor.Available; b.flavor = largest() {
		b.ensure(b.spec(fmt.Sprintf("m%d", made), 1))
		made++
		require.Less(b, made, 1000, "it is limited")
	}
	b.requireCode(b.Provider.Ensure(b.Context(), b.spec("toomuch", 1)), domain.CodeConflict)
	require.Empty(b, b.Instances(b.T, b.ref("toomuch", 1).Machine))
	require.Len(b, b.machines(), made, "a refused machine leaves nothing")
	b.reopen()
	require.False(b, largest().Available, "another server knows what is taken")
	b.requireCode(b.Provider.Ensure(b.Context(), b.spec("toomuch", 1)), domain.CodeConflict)
	b.ensure(b.spec("m0", 1)) // exists and needs no more
	b.ensure(b.spec("m0", 2)) // replaces the previous incarnation
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("m0", 2)))
	require.True(b, largest().Available)
	b.ensure(b.spec("fits", 1))
}

// testCapacityAtOnce requests many machines at once where only one more fits.
func testCapacityAtOnce(b *bench) {
	flavors, err := b.Provider.Flavors(b.Context(), b.Settings)
	require.NoError(b, err)
	b.flavor = flavors[len(flavors)-1]
	for i := 0; ; i++ {
		s := b.spec(fmt.Sprintf("filler-%d", i), 1)
		if err := b.Provider.Ensure(b.Context(), s); err != nil {
			b.requireCode(err, domain.CodeConflict)
			break
		}
	}
	require.NoError(b, b.Provider.Release(b.Context(), b.ref("filler-0", 1)))
	specs := b.specs()
	refused := make(chan error, len(specs))
	atOnce(specs, func(s machine.Spec) { refused <- b.Provider.Ensure(b.Context(), s) })
	made, there := 0, 0
	for _, s := range specs {
		if err := <-refused; err == nil {
			made++
		} else {
			b.requireCode(err, domain.CodeConflict)
		}
		there += len(b.Instances(b.T, s.Machine))
	}
	require.Equal(b, 1, made)
	require.Equal(b, 1, there)
}
