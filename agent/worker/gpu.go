package worker

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
)

const (
	gpuTool    = "nvidia-smi"
	gpuTimeout = 3 * time.Second
	gpuRest    = time.Minute // after it has failed
)

// gpus measures GPUs by the tool of their driver. Only one goroutine at a time may use it. A nil
// gpus has no GPUs.
type gpus struct {
	path   string
	args   []string
	log    *slog.Logger
	failed time.Time
}

var gpuList = regexp.MustCompile(`^[A-Za-z0-9:.,-]+$`)

// findGPUs returns the GPUs to measure, or nil. For MetricsOwn these are the GPUs that this process
// may use.
func findGPUs(o Options) *gpus {
	if o.Metrics == MetricsNone {
		return nil
	}
	path, err := exec.LookPath(gpuTool)
	if err != nil {
		path, err = exec.LookPath("/usr/bin/" + gpuTool) // where packages install it, for an agent without a search path
	}
	if err != nil {
		return nil
	}
	args := []string{"--query-gpu=name,utilization.gpu,memory.used,memory.total", "--format=csv,noheader,nounits"}
	if visible, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok && o.Metrics == MetricsOwn {
		list := visibleGPUs(visible)
		if list == "" {
			return nil
		}
		args = append(args, "--id="+list)
	}
	return &gpus{path: path, args: args, log: o.Log}
}

// visibleGPUs is the list of GPUs for the tool. Like CUDA, it ends at the first invalid entry.
func visibleGPUs(list string) string {
	var found []string
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" || strings.HasPrefix(entry, "-") || entry == "NoDevFiles" || !gpuList.MatchString(entry) {
			break
		}
		found = append(found, entry)
	}
	return strings.Join(found, ",")
}

// measure returns the usage of the GPUs, or nil if the tool fails. It then waits for gpuRest before
// it runs the tool again.
func (g *gpus) measure(ctx context.Context) []agent.GPUMetrics {
	if g == nil || !g.failed.IsZero() && time.Since(g.failed) < gpuRest {
		return nil
	}
	found, err := g.ask(ctx)
	g.failed = time.Time{}
	if err != nil {
		g.failed = time.Now()
		g.log.Debug("the GPUs could not be measured", "error", err)
	}
	return found
}

func (g *gpus) ask(ctx context.Context) ([]agent.GPUMetrics, error) {
	ctx, cancel := context.WithTimeout(ctx, gpuTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.path, g.args...)
	cmd.Env = []string{"PATH=" + cmp.Or(os.Getenv("PATH"), defaultPath), "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", gpuTool, err, strings.TrimSpace(string(out)))
	}
	return parseGPUs(string(out))
}

// parseGPUs reads lines such as "NVIDIA A10G, 37, 1024, 23028", in percent and MiB. A value that a
// GPU does not report is "[N/A]" and counts as 0.
func parseGPUs(out string) ([]agent.GPUMetrics, error) {
	r := csv.NewReader(strings.NewReader(out))
	r.FieldsPerRecord, r.TrimLeadingSpace = 4, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading what %s says: %w", gpuTool, err)
	}
	found := make([]agent.GPUMetrics, 0, len(rows))
	for _, row := range rows {
		var n [3]float64
		for i, field := range row[1:] {
			if n[i], err = strconv.ParseFloat(strings.TrimSpace(field), 64); err != nil && !strings.HasPrefix(field, "[") {
				return nil, fmt.Errorf("reading what %s says: %q is not a number", gpuTool, field)
			}
		}
		found = append(found, agent.GPUMetrics{Name: strings.TrimSpace(row[0]), Load: n[0] / 100, Memory: int64(n[1]) << 20, MemoryTotal: int64(n[2]) << 20})
	}
	return found, nil
}
