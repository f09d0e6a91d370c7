package worker

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Where tasks have no users of their own, a control group (version 2, where this user may make one) is what still knows
// a process that has left its session and its parent when the shim is dead. A group's name in an attempt's description
// is its directory.

const cgroupPrefix = "millpond-"

// findCgroup answers the directory in which groups for attempts can be made; "" when that cannot be.
func findCgroup() string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	base := cgroupDir(string(own), string(mounts))
	probe := filepath.Join(base, cgroupPrefix+"probe-"+strconv.Itoa(os.Getpid()))
	if base == "" || os.Mkdir(probe, 0o755) != nil {
		return ""
	}
	defer os.Remove(probe)
	if !fileExists(filepath.Join(probe, "cgroup.kill")) { // Linux 5.14
		return ""
	}
	return base
}

// cgroupOf is the group of an attempt. Agents of one machine may have attempts of the same name.
func cgroupOf(base, agentDir, id string) string {
	sum := fnv.New64a()
	sum.Write([]byte(agentDir))
	return filepath.Join(base, fmt.Sprintf("%s%x-%s", cgroupPrefix, sum.Sum64(), id))
}

// cgroupDir finds this process's own group of version 2 in the two files of /proc.
func cgroupDir(own, mounts string) string {
	group := ""
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = path
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		if rest, inside := strings.CutPrefix(group, strings.TrimSuffix(fields[3], "/")); group != "" && inside {
			return filepath.Join(fields[4], rest)
		}
	}
	return ""
}

// killCgroup kills every process of a group at once, and answers those that are still going.
func killCgroup(dir string) []int {
	if dir == "" {
		return nil
	}
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	b, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	var left []int
	for _, field := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			left = append(left, pid)
		}
	}
	return left
}

// openCgroup opens a group for a process to be born in; -1 without one.
func openCgroup(dir string) int {
	if dir == "" {
		return -1
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}
