package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// meter measures a machine. CPU time is measured since the previous measurement.
type meter struct {
	of     MetricsOf
	dir    string
	cores  float64
	memory int64
	group  string // the control group of only this agent and everything it runs; "" for none
	gpus   *gpus

	at    int64 // CLOCK_BOOTTIME ns of the previous measurement
	spent float64
	known map[processID]times
}

func newMeter(o Options, g *gpus) *meter {
	return &meter{of: o.Metrics, dir: o.Dir, cores: o.Cores, memory: o.Memory, gpus: g}
}

// begin makes the base measurement of the first one. It ignores errors, because the first
// measurement returns them.
func (m *meter) begin(tasks []int) {
	if m.of == MetricsOwn {
		m.group = ownGroup(tasks)
	}
	_ = m.use(&agent.Metrics{}, tasks)
}

// measure returns the current usage. tasks are the first processes of the attempts.
func (m *meter) measure(ctx context.Context, tasks []int) (u agent.Metrics, err error) {
	if err := m.use(&u, tasks); err != nil {
		return u, err
	}
	if u.Disk, u.DiskTotal, err = diskUse(m.dir); err != nil {
		return u, err
	}
	u.GPUs = m.gpus.measure(ctx)
	return u, nil
}

func (m *meter) use(u *agent.Metrics, tasks []int) error {
	total, available, err := hostMemory()
	if err != nil {
		return err
	}
	u.MemoryTotal = total
	if m.of == MetricsHost {
		u.Memory = total - available
		return m.hostTimes(u)
	}
	if u.Cores = float64(runtime.NumCPU()); m.cores > 0 {
		u.Cores = m.cores
	}
	if m.memory > 0 {
		u.MemoryTotal = m.memory
	}
	if m.group != "" {
		return m.groupUse(u)
	}
	return m.processUse(u, tasks)
}

// rate is the number of cores in use, from the seconds of CPU time since the previous measurement.
func (m *meter) rate(seconds float64, now int64) float64 {
	elapsed := float64(now-m.at) / 1e9
	m.at = now
	if elapsed <= 0 || seconds <= 0 {
		return 0
	}
	return seconds / elapsed
}

// since is the increase of a counter of CPU seconds since the previous measurement.
func (m *meter) since(spent float64) float64 {
	before := m.spent
	m.spent = spent
	return spent - before
}

// processUse sums the usage of the processes.
func (m *meter) processUse(u *agent.Metrics, tasks []int) error {
	proc, err := openProc()
	if err != nil {
		return err
	}
	defer proc.close()
	now := shim.BootNow()
	known := members(proc.times(), os.Getpid(), tasks)
	ticks := ticksBetween(m.known, known, m.at/nsPerTick)
	u.CPU = m.rate(float64(ticks)/ticksPerSecond, now)
	m.known = known
	for id, p := range known {
		if !p.zombie {
			u.Memory += privateMemory(proc.read(id.pid, "statm"))
		}
	}
	return nil
}

// privateMemory is the resident memory of a process that it does not share, in bytes. PSS is more
// exact, but takes the kernel hundreds of times as long.
func privateMemory(statm []byte) int64 {
	fields := bytes.Fields(statm)
	if len(fields) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(fields[2]), 10, 64)
	return max(0, resident-shared) * int64(os.Getpagesize())
}

// groupUse is the usage that the kernel counts for the agent's control group. Inactive cached files
// do not count, because the kernel can free them at once.
func (m *meter) groupUse(u *agent.Metrics) error {
	now := shim.BootNow()
	spent, err := statValue(filepath.Join(m.group, "cpu.stat"), "usage_usec")
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(m.group, "memory.current"))
	if err != nil {
		return err
	}
	current, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return fmt.Errorf("reading memory.current: %w", err)
	}
	cached, err := statValue(filepath.Join(m.group, "memory.stat"), "inactive_file")
	if err != nil {
		return err
	}
	u.CPU = m.rate(m.since(float64(spent)/1e6), now)
	u.Memory = max(0, current-cached)
	return nil
}

// ownGroup is the agent's control group, if it holds nothing else and the kernel counts its usage.
func ownGroup(tasks []int) string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	dir := cgroupDir(string(own), string(mounts))
	if dir == "" || !fileExists(filepath.Join(dir, "memory.current")) || !fileExists(filepath.Join(dir, "cpu.stat")) {
		return ""
	}
	proc, err := openProc()
	if err != nil {
		return ""
	}
	defer proc.close()
	before := groupProcesses(dir)
	all := proc.times()
	if !isOwn(all, members(all, os.Getpid(), tasks), before, groupProcesses(dir)) {
		return ""
	}
	return dir
}

// isOwn reports whether a group has exactly the members. The group is read before and after the
// processes, because processes start and end meanwhile.
func isOwn(all []processTime, own map[processID]times, before, after map[int]bool) bool {
	for _, p := range all {
		_, member := own[p.id]
		if !member && before[p.id.pid] || member && !p.zombie && !before[p.id.pid] && !after[p.id.pid] {
			return false
		}
	}
	return true
}

// groupProcesses are the processes of a group and its child groups.
func groupProcesses(dir string) map[int]bool {
	found := map[int]bool{}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			return nil // a removed group has no processes
		}
		b, _ := os.ReadFile(path)
		for _, field := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				found[pid] = true
			}
		}
		return nil
	})
	return found
}

// hostTimes measures the CPU time of the whole host. Time that the hypervisor gave to other guests
// does not count.
func (m *meter) hostTimes(u *agent.Metrics) error {
	now := shim.BootNow()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return err
	}
	busy, cores, err := parseHostTimes(b)
	if err != nil {
		return err
	}
	u.Cores = float64(cores)
	u.CPU = m.rate(m.since(float64(busy)/ticksPerSecond), now)
	return nil
}

func parseHostTimes(b []byte) (busy int64, cores int, err error) {
	for line := range bytes.Lines(b) {
		fields := bytes.Fields(line)
		if len(fields) < 8 || !bytes.HasPrefix(fields[0], []byte("cpu")) {
			break // the cpu lines come first
		}
		if len(fields[0]) > len("cpu") {
			cores++
			continue
		}
		for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq; guests are in user
			n, err := strconv.ParseInt(string(fields[i]), 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("reading /proc/stat: %w", err)
			}
			busy += n
		}
	}
	if cores == 0 {
		return 0, 0, errors.New("/proc/stat names no processor")
	}
	return busy, cores, nil
}

func hostMemory() (total, available int64, err error) {
	total, err = statValue("/proc/meminfo", "MemTotal:")
	if err == nil {
		available, err = statValue("/proc/meminfo", "MemAvailable:")
	}
	return total << 10, available << 10, err // meminfo is in KiB
}

// statValue reads one number from a file with a name and a number on each line.
func statValue(path, name string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if fields := bytes.Fields(line); len(fields) >= 2 && string(fields[0]) == name {
			return strconv.ParseInt(string(fields[1]), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

func diskUse(dir string) (used, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("measuring the disk of %s: %w", dir, err)
	}
	return int64(st.Blocks-st.Bfree) * st.Frsize, int64(st.Blocks) * st.Frsize, nil
}
