package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
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
	var gpus []domain.Flavor
	for _, f := range h.flavors() {
		if f.GPUs > 0 {
			gpus = append(gpus, f)
		}
	}
	require.Equal(t, []domain.Flavor{
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
	require.Equal(t, "A machine of flavor cpu.2 does not fit on this host now: 1 of its 3 cores are free; there is cmp_own (cpu.1) and 1 of other workspaces. "+
		"Stop one of them, or choose a smaller flavor.", err.Error())
	flavors, err := h.Flavors(t.Context(), settings)
	require.NoError(t, err)
	var available []string
	for _, f := range flavors {
		if f.Available {
			available = append(available, f.Name)
		}
	}
	require.Equal(t, []string{"cpu.1"}, available)
	h.kill(own.Machine)
	require.True(t, domain.IsCode(h.Ensure(t.Context(), next), domain.CodeConflict), "one that died may be made again, until it is released")
	require.NoError(t, h.Release(t.Context(), own.MachineRef))
	h.ensure(next)
}
