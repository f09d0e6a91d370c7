package provisiontest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

func TestTheSimulatedProviderKeepsThePromises(t *testing.T) {
	provisiontest.Run(t, provisiontest.Suite{New: func(*testing.T) *provisiontest.World {
		s := provisiontest.NewSimulated(provisiontest.Hooks{Before: provisiontest.Latency(500 * time.Microsecond)})
		return &provisiontest.World{
			Provider: s, Settings: machine.ProviderSettings{Kind: machine.ProviderLocal}, Server: "http://127.0.0.1:1",
			Trino:     func(lacks error) { s.InstallTrino(lacks == nil) },
			Reopen:    func(*testing.T) machine.Provider { return s.Reopen(provisiontest.Hooks{}) },
			Instances: func(_ *testing.T, id domain.MachineID) []string { return s.Instances(id) },
			Kill:      func(_ *testing.T, id domain.MachineID) { s.Kill(id, "It was struck by lightning.") },
		}
	}})
}

func TestAHookFailsAnOperationBeforeAndAfterItsEffect(t *testing.T) {
	broken := errors.New("broken")
	fail := func(context.Context, provisiontest.Operation, machine.Ref) error { return broken }
	var made, ended []machine.Ref
	s := provisiontest.NewSimulated(provisiontest.Hooks{
		After: fail, Made: func(m machine.Spec) { made = append(made, m.Ref) }, Ended: func(m machine.Ref) { ended = append(ended, m) },
	})
	spec := machine.Spec{
		Ref: machine.Ref{Machine: "cmp_a", Incarnation: 1}, Provider: machine.ProviderSettings{Kind: machine.ProviderLocal},
		Flavor: machine.Flavor{Name: "cpu.1"}, ImageRef: "simulated:1",
	}
	ref, err := s.Reopen(provisiontest.Hooks{}).Resolve(t.Context(), spec.Provider, spec.ImageRef)
	require.NoError(t, err)
	spec.ImageRef = ref
	require.ErrorIs(t, s.Reopen(provisiontest.Hooks{Before: fail}).Ensure(t.Context(), spec), broken)
	require.Zero(t, s.Living())
	require.ErrorIs(t, s.Ensure(t.Context(), spec), broken)
	require.Equal(t, 1, s.Living(), "the answer was lost, and the machine is there")
	require.ErrorIs(t, s.Release(t.Context(), spec.Ref), broken)
	require.Zero(t, s.Living())
	require.Equal(t, []machine.Ref{spec.Ref}, made)
	require.Equal(t, made, ended)
	require.Equal(t, 2, s.Calls(provisiontest.OpEnsure))
}
