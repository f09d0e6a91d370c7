package worker

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Without users for tasks, each attempt gets a control group of version 2, if this user may create
// one. After the shim's death, only the group finds a process that left its session and its parent.
// An attempt's spec has the group's directory.

const cgroupPrefix = "millpond-"

// findCgroup returns the directory in which groups for attempts can be created; "" if there is
// none.
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

// cgroupOf is the group of an attempt. Agents on one machine may have attempts with the same id.
func cgroupOf(base, agentDir, id string) string {
	sum := fnv.New64a()
	sum.Write([]byte(agentDir))
	return filepath.Join(base, fmt.Sprintf("%s%x-%s", cgroupPrefix, sum.Sum64(), id))
}

// cgroupDir finds this process's own group of version 2 in /proc/self/cgroup and mountinfo.
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
