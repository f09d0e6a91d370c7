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
	fail := func(context.Context, provisiontest.Operation, machine.MachineRef) error { return broken }
	var made, ended []machine.MachineRef
	s := provisiontest.NewSimulated(provisiontest.Hooks{
		After: fail, Made: func(m machine.MachineSpec) { made = append(made, m.MachineRef) }, Ended: func(m machine.MachineRef) { ended = append(ended, m) },
	})
	spec := machine.MachineSpec{
		MachineRef: machine.MachineRef{Machine: "cmp_a", Incarnation: 1}, Provider: machine.ProviderSettings{Kind: machine.ProviderLocal},
		Flavor: machine.Flavor{Name: "cpu.1"}, ImageRef: "simulated:1",
	}
	ref, err := s.Reopen(provisiontest.Hooks{}).Resolve(t.Context(), spec.Provider, spec.ImageRef)
	require.NoError(t, err)
	spec.ImageRef = ref
	require.ErrorIs(t, s.Reopen(provisiontest.Hooks{Before: fail}).Ensure(t.Context(), spec), broken)
	require.Zero(t, s.Living())
	require.ErrorIs(t, s.Ensure(t.Context(), spec), broken)
	require.Equal(t, 1, s.Living(), "the answer was lost, and the machine is there")
	require.ErrorIs(t, s.Release(t.Context(), spec.MachineRef), broken)
	require.Zero(t, s.Living())
	require.Equal(t, []machine.MachineRef{spec.MachineRef}, made)
	require.Equal(t, made, ended)
	require.Equal(t, 2, s.Calls(provisiontest.OpEnsure))
}
