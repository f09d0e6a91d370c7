package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

func TestFlavorsComeFromTheHost(t *testing.T) {
	for cores, want := range map[int]string{1: "cpu.1", 2: "cpu.1 cpu.2", 6: "cpu.1 cpu.2 cpu.4 cpu.6", 8: "cpu.1 cpu.2 cpu.4 cpu.8"} {
		var names []string
		for _, f := range (host{cores: cores, memory: int64(cores) << 30}).flavors() {
			names = append(names, f.Name)
			require.Equal(t, int64(f.Cores)<<30, f.Memory)
		}
		require.Equal(t, want, strings.Join(names, " "))
	}
	h := readHost()
	require.Positive(t, h.cores)
	require.Positive(t, h.memory)
}

func TestGPUsAreAskedFor(t *testing.T) {
	dir := t.TempDir()
	script := `#!/bin/sh
[ "$*" = "--query-gpu=name,memory.total --format=csv,noheader,nounits" ] || exit 1
echo "NVIDIA A100-SXM4-40GB, 40960"
echo "NVIDIA A100-SXM4-40GB, 40960"
echo "Tesla T4, 15360"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	h := host{cores: 12, memory: 12 << 30, gpus: readGPUs()}
	require.Equal(t, []gpu{{"NVIDIA A100-SXM4-40GB", 40 << 30}, {"NVIDIA A100-SXM4-40GB", 40 << 30}, {"Tesla T4", 15 << 30}}, h.gpus)
	var gpus []machine.Flavor
	for _, f := range h.flavors() {
		if f.GPUs > 0 {
			gpus = append(gpus, f)
		}
	}
	require.Equal(t, []machine.Flavor{
		{Name: "gpu.a100", Cores: 4, Memory: 4 << 30, GPUs: 1, GPU: "NVIDIA A100-SXM4-40GB"},
		{Name: "gpu.t4", Cores: 4, Memory: 4 << 30, GPUs: 1, GPU: "Tesla T4"},
		{Name: "gpu.a100.2", Cores: 8, Memory: 8 << 30, GPUs: 2, GPU: "NVIDIA A100-SXM4-40GB"},
	}, gpus)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\necho No devices were found\nexit 6\n"), 0o700))
	require.Empty(t, readGPUs())
}

func TestModelsHaveShortNames(t *testing.T) {
	for model, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB": "a100", "NVIDIA H100 80GB HBM3": "h100", "NVIDIA H100 PCIe": "h100", "Tesla V100-SXM2-16GB": "v100", "Tesla T4": "t4",
		"NVIDIA L4": "l4", "NVIDIA GeForce RTX 4090": "rtx-4090", "NVIDIA RTX A6000": "rtx-a6000", "Quadro RTX 8000": "rtx-8000",
	} {
		require.Equal(t, want, slug(model))
	}
	h := host{cores: 4, gpus: []gpu{{model: "NVIDIA A100-SXM4-40GB"}, {model: "NVIDIA A100-SXM4-80GB"}}}
	require.Equal(t, map[string][]int{"nvidia-a100-sxm4-40gb": {0}, "nvidia-a100-sxm4-80gb": {1}}, h.models())
	require.Equal(t, []gpu{{model: "NVIDIA GB10"}}, parseGPUs("NVIDIA GB10, [N/A]\n\nnonsense\n"))
}

func TestEachMachineHasItsOwnGPUs(t *testing.T) {
	model := gpu{model: "NVIDIA L4", memory: 24 << 30}
	h := newHouse(t, func(h *house) { h.host.gpus = []gpu{model, model} })
	for i, want := range []string{"0", "1"} {
		s := h.spec([]string{"cmp_a", "cmp_b"}[i], 1)
		s.Server, s.Flavor.Name = doEnv, "gpu.l4"
		h.ensure(s)
		h.eventually(func() bool { return strings.Contains(h.said(s), "end of environment") })
		require.Contains(t, h.said(s), "\nCUDA_VISIBLE_DEVICES="+want+"\n")
		require.Contains(t, h.said(s), "\nNVIDIA_VISIBLE_DEVICES="+want+"\n")
	}
	third := h.spec("cmp_c", 1)
	third.Flavor.Name = "gpu.l4"
	require.True(t, domain.IsCode(h.Ensure(t.Context(), third), domain.CodeConflict))
}

func TestAFullHostSaysWhatRunsAndNothingOfOthers(t *testing.T) {
	h := newHouse(t, func(h *house) { h.host = host{cores: 3, memory: 3 << 30} })
	own, others, next := h.spec("cmp_own", 1), h.spec("cmp_secret", 1), h.spec("cmp_next", 1)
	others.Workspace = "ws_2"
	h.ensure(own)
	h.ensure(others)
	next.Flavor.Name = "cpu.2"
	err := h.Ensure(t.Context(), next)
	require.True(t, domain.IsCode(err, domain.CodeConflict))
	require.Equal(t, "A cpu.2 machine does not fit on this host now: 2 of its 3 cores are taken by 1 machine of another workspace and cmp_own. "+
		"Stop it or choose a smaller flavor.", err.Error())
	require.Equal(t, []string{"cpu.1"}, h.available())
	h.kill(own.Machine)
	require.True(t, domain.IsCode(h.Ensure(t.Context(), next), domain.CodeConflict), "one that died may be made again, until it is released")
	require.NoError(t, h.Release(t.Context(), own.Ref))
	h.ensure(next)
}

func TestWhyThereIsNoRoomIsSaidAsAPersonWould(t *testing.T) {
	made := func(workspace, m string, cores int, gpus ...int) record {
		return record{Ref: machine.Ref{Workspace: domain.WorkspaceID(workspace), Machine: domain.MachineID(m)}, Cores: cores, GPUs: gpus}
	}
	a, b, c := made("ws_1", "cmp_a", 1), made("ws_1", "cmp_b", 1), made("ws_1", "cmp_c", 1)
	small := host{cores: 2, memory: 2 << 30}
	large := host{cores: 8, memory: 8 << 30, gpus: []gpu{{model: "NVIDIA L4"}, {model: "NVIDIA L4"}}}
	for _, test := range []struct {
		host   host
		flavor string
		taken  []record
		want   string
	}{
		{small, "cpu.1", []record{made("ws_1", "cmp_a", 2)}, "2 of its 2 cores are taken by cmp_a. Stop it."},
		{small, "cpu.2", []record{a}, "1 of its 2 cores is taken by cmp_a. Stop it or choose a smaller flavor."},
		{small, "cpu.2", []record{b, a}, "2 of its 2 cores are taken by cmp_a and cmp_b. Stop one of them."},
		{host{cores: 4}, "cpu.2", []record{a, c, b}, "3 of its 4 cores are taken by cmp_a, cmp_b and cmp_c. Stop one of them or choose a smaller flavor."},
		{small, "cpu.1", []record{made("ws_2", "cmp_secret", 2)}, "2 of its 2 cores are taken by 1 machine of another workspace. Try again when there is room."},
		{small, "cpu.2", []record{made("ws_2", "cmp_secret", 1)}, "1 of its 2 cores is taken by 1 machine of another workspace. Choose a smaller flavor."},
		{small, "cpu.2", []record{made("ws_2", "cmp_x", 1), made("ws_3", "cmp_y", 1)}, "2 of its 2 cores are taken by 2 machines of other workspaces. Try again when there is room."},
		{
			large, "gpu.l4.2",
			[]record{made("ws_1", "cmp_a", 4, 0)},
			"4 of its 8 cores and 1 of its 2 GPUs NVIDIA L4 are taken by cmp_a. Stop it or choose a smaller flavor.",
		},
	} {
		f, err := test.host.flavor(test.flavor)
		require.NoError(t, err)
		require.Equal(t, "A "+test.flavor+" machine does not fit on this host now: "+test.want, full(test.host, f, test.taken).Error())
	}
}

// full is the error for the first workspace.
func full(h host, f machine.Flavor, made []record) error { return h.full(f, made, "ws_1") }

func TestAFlavorSaysWhetherItIsHeldTo(t *testing.T) {
	for want, groups := range map[string]*cgroups{
		"": {cpu: true, memory: true},
		"The cores and the memory of a flavor are not enforced, since the test has none.": {why: "the test has none"},
	} {
		h := newHouse(t, func(h *house) { h.groups = groups })
		flavors, err := h.Flavors(t.Context(), settings)
		require.NoError(t, err)
		for _, f := range flavors {
			require.Equal(t, want, f.Limits)
		}
	}
}

func (h *house) available() (names []string) {
	h.Helper()
	flavors, err := h.Flavors(h.Context(), settings)
	require.NoError(h, err)
	for _, f := range flavors {
		if f.Available {
			names = append(names, f.Name)
		}
	}
	return names
}

func TestAMachineWhoseRecordIsBrokenOrLostKeepsTheHostFromMore(t *testing.T) {
	h := newHouse(t, func(h *house) { h.host = host{cores: 3, memory: 3 << 30} })
	odd, next := h.spec("cmp_odd", 1), h.spec("cmp_next", 1)
	for name, spoil := range map[string]func(path string) error{
		"broken": func(path string) error { return os.WriteFile(path, []byte(`{"Ref":`), 0o600) },
		"lost":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			h.ensure(odd)
			require.NoError(t, spoil(h.file(odd, recordFile)))
			require.Empty(t, h.available(), "what it takes is not known")
			err := h.Ensure(t.Context(), next)
			require.True(t, domain.IsCode(err, domain.CodeConflict), "%v", err)
			require.Contains(t, err.Error(), h.file(odd, recordFile))
			require.Contains(t, err.Error(), "Stop or delete cmp_odd")
			require.Empty(t, h.agents(next.Machine))
			require.NoDirExists(t, h.file(next, ""))
			odd.Incarnation++
			h.ensure(odd)
			require.Equal(t, []string{"cpu.1", "cpu.2"}, h.available(), "made again, it is known")
			require.NoError(t, spoil(h.file(odd, recordFile)))
			require.NoError(t, h.Release(t.Context(), odd.Ref))
			require.Equal(t, []string{"cpu.1", "cpu.2", "cpu.3"}, h.available())
			h.ensure(next)
			require.NoError(t, h.Remove(t.Context(), next.Ref))
		})
	}
}

func TestWhatAnotherServerGivesAwayIsSeen(t *testing.T) {
	h := newHouse(t, func(h *house) { h.host = host{cores: 2, memory: 2 << 30} })
	other, err := open(h.options, h.host, h.groups)
	require.NoError(t, err)
	defer other.Close()
	s, old := h.spec("cmp_a", 1), time.Now().Add(-time.Hour)
	for s.Incarnation = range 3 {
		s.Incarnation++
		require.Equal(t, []string{"cpu.1", "cpu.2"}, h.available())
		require.NoError(t, other.Ensure(t.Context(), s))
		require.NoError(t, os.Chtimes(h.file(s, recordFile), old, old), "its record counts as unchanged")
		require.Equal(t, []string{"cpu.1"}, h.available())
		require.NoError(t, other.Release(t.Context(), s.Ref))
		require.NoError(t, os.Chtimes(h.file(s, recordFile), old, old))
	}
	require.NoError(t, other.Remove(t.Context(), s.Ref))
	require.Equal(t, []string{"cpu.1", "cpu.2"}, h.available())
}

func BenchmarkFlavorsBesideAHundredMachines(b *testing.B) {
	p, err := open(Options{Dir: b.TempDir()}, roomy, &cgroups{})
	require.NoError(b, err)
	defer p.Close()
	for i := range 100 {
		m, err := p.machineDir(domain.MachineID(fmt.Sprintf("cmp_%d", i)))
		require.NoError(b, err)
		require.NoError(b, os.MkdirAll(m.data(), 0o700))
		s := machine.Spec{Ref: machine.Ref{Workspace: "ws_1", Machine: m.id, Incarnation: 1}, Server: "http://127.0.0.1:9"}
		require.NoError(b, m.write(record{Ref: s.Ref, Flavor: "cpu.1", Cores: 1, Image: "millpond:v1", Args: p.args(m, s, machine.Flavor{Cores: 1})}))
		old := time.Now().Add(-time.Hour)
		require.NoError(b, os.Chtimes(m.path(recordFile), old, old))
	}
	for b.Loop() {
		_, err := p.Flavors(b.Context(), settings)
		require.NoError(b, err)
	}
}
