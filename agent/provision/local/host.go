package local

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// host is the resources that machines can get.
type host struct {
	cores  int
	memory int64 // bytes
	gpus   []gpu // by index
}

// share is the memory that a number of cores gets.
func (h host) share(cores int) int64 { return h.memory / int64(h.cores) * int64(min(cores, h.cores)) }

// readHost reads the resources of the host, within the limits of this server's control groups.
func readHost() host {
	h := host{cores: runtime.NumCPU(), gpus: readGPUs()} // NumCPU respects the CPU affinity
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		h.memory = int64(info.Totalram) * int64(info.Unit)
	}
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	h.bound(ownGroups(string(own), string(mounts)))
	return h
}

// bound lowers cores and memory to the limits of the groups and their parents.
func (h *host) bound(groups map[string]group) {
	for _, g := range groups {
		for dir := g.dir; ; dir = filepath.Dir(dir) {
			if quota := quotaIn(dir); quota > 0 {
				h.cores = min(h.cores, max(1, int(quota)))
			}
			for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
				if limit, ok := numberIn(filepath.Join(dir, file)); ok && limit > 0 {
					h.memory = min(h.memory, limit)
				}
			}
			if dir == g.mount || dir == filepath.Dir(dir) {
				break
			}
		}
	}
}

// quotaIn is the number of cores that a group may use, in version 2 or 1; 0 means no limit.
func quotaIn(dir string) float64 {
	if b, err := os.ReadFile(filepath.Join(dir, "cpu.max")); err == nil {
		most, period, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
		return ratio(most, period)
	}
	most, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
	period, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
	return ratio(strings.TrimSpace(string(most)), strings.TrimSpace(string(period)))
}

func ratio(most, period string) float64 {
	a, errA := strconv.ParseFloat(most, 64)
	b, errB := strconv.ParseFloat(period, 64)
	if errA != nil || errB != nil || a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}

func numberIn(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// group is a control group of this process: its directory and its mount point.
type group struct{ dir, mount string }

const unified = "" // the name of the hierarchy of version 2

// ownGroups finds this process's groups, by controller, in /proc/self/cgroup and mountinfo.
func ownGroups(own, mounts string) map[string]group {
	found := map[string]group{}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		for _, controller := range controllersOf(kind) {
			path, ok := pathOf(own, controller)
			if rest, inside := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok && inside {
				found[controller] = group{dir: filepath.Join(fields[4], rest), mount: fields[4]}
			}
		}
	}
	return found
}

// controllersOf are the controllers of a mount that limit cores or memory.
func controllersOf(kind []string) []string {
	switch kind[0] {
	case "cgroup2":
		return []string{unified}
	case "cgroup":
		var found []string
		for option := range strings.SplitSeq(kind[2], ",") {
			if option == "cpu" || option == "memory" {
				found = append(found, option)
			}
		}
		return found
	}
	return nil
}

func pathOf(own, controller string) (string, bool) {
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			if name == controller {
				return fields[2], true
			}
		}
	}
	return "", false
}
