package local

import (
	"context"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gpu is one GPU of the host. GPUs are in the order of the PCI bus.
type gpu struct {
	model  string
	memory int64 // bytes
}

const gpuTime = 10 * time.Second

// readGPUs lists the GPUs by NVIDIA's tool, if it is installed.
func readGPUs() []gpu {
	ctx, cancel := context.WithTimeout(context.Background(), gpuTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return parseGPUs(string(out))
}

func parseGPUs(out string) []gpu {
	var all []gpu
	for line := range strings.Lines(out) {
		cut := strings.LastIndex(line, ",")
		if cut < 0 || strings.TrimSpace(line[:cut]) == "" {
			continue
		}
		mebibytes, err := strconv.ParseInt(strings.TrimSpace(line[cut+1:]), 10, 64)
		if err != nil {
			mebibytes = 0 // "[N/A]": memory shared with the host
		}
		all = append(all, gpu{model: strings.TrimSpace(line[:cut]), memory: mebibytes << 20})
	}
	return all
}

var (
	notInName = regexp.MustCompile(`[^a-z0-9]+`)
	brand     = regexp.MustCompile(`^(nvidia|tesla|geforce|quadro)$`)
	build     = regexp.MustCompile(`^(sxm\d*|pcie|hbm\d*e?|nvl|\d+gb)$`)
)

// slug is the model without its brand and its build: a100 for NVIDIA A100-SXM4-40GB.
func slug(model string) string {
	words := strings.FieldsFunc(notInName.ReplaceAllString(strings.ToLower(model), "-"), func(r rune) bool { return r == '-' })
	words = slices.DeleteFunc(words, brand.MatchString)
	if end := slices.IndexFunc(words, build.MatchString); end > 0 {
		words = words[:end]
	}
	return strings.Join(words, "-")
}

// models maps each model's name to the indexes of its GPUs. Models with the same short name keep
// their full names.
func (h host) models() map[string][]int {
	byModel := map[string][]int{}
	for i, g := range h.gpus {
		byModel[g.model] = append(byModel[g.model], i)
	}
	bySlug := map[string][]string{}
	for _, model := range slices.Sorted(maps.Keys(byModel)) {
		bySlug[slug(model)] = append(bySlug[slug(model)], model)
	}
	found := map[string][]int{}
	for name, models := range bySlug {
		for _, model := range models {
			if len(models) > 1 || name == "" {
				name = strings.Trim(notInName.ReplaceAllString(strings.ToLower(model), "-"), "-")
			}
			found[name] = byModel[model]
		}
	}
	return found
}
