package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cpuTimes maps a pid to the CPU time of the process and the part of the platform that it belongs
// to. The first server's database is a part, and so are the benchmark's own clients.
type cpuTimes map[int]cpuTime

type cpuTime struct {
	part string
	used time.Duration
}

// cpu reads the CPU time of the platform's living processes so far.
func (p *platform) cpu() cpuTimes {
	p.b.Helper()
	parents, used := processes()
	part := map[int]string{os.Getpid(): "clients", p.agentPID(): "agent", p.postgresPIDs()[0]: "postgres"}
	for _, s := range p.servers {
		part[s.cmd.Process.Pid] = "server"
	}
	below := map[string]string{"agent": "shims", "shims": "tasks", "tasks": "tasks", "postgres": "postgres"}
	times := cpuTimes{}
	for pid, spent := range used {
		name := part[pid]
		for at, depth := pid, 0; name == "" && parents[at] != 0; depth++ {
			at = parents[at]
			if name = part[at]; name == "" {
				continue
			}
			for range depth + 1 {
				name = below[name]
			}
		}
		times[pid] = cpuTime{name, spent}
	}
	return times
}

// processes reads the parent and the CPU time of every process.
func processes() (parents map[int]int, used map[int]time.Duration) {
	parents, used = map[int]int{}, map[int]time.Duration{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the fields from the state on
		parents[pid], _ = strconv.Atoi(string(fields[1]))
		threads, _ := filepath.Glob("/proc/" + e.Name() + "/task/*/schedstat")
		for _, thread := range threads {
			text, _ := os.ReadFile(thread)
			ran, _, _ := strings.Cut(string(text), " ")
			ns, _ := strconv.ParseInt(ran, 10, 64)
			used[pid] += time.Duration(ns)
		}
	}
	return parents, used
}

// since is the CPU time of each part since an earlier moment, of processes that lived at both
// moments.
func (t cpuTimes) since(before cpuTimes) map[string]time.Duration {
	spent := map[string]time.Duration{}
	for pid, now := range t {
		if was, living := before[pid]; living {
			spent[now.part] += now.used - was.used
		}
	}
	return spent
}

// shares reports how many cores each part used between two moments.
func (t cpuTimes) shares(b *testing.B, before cpuTimes, over time.Duration) {
	spent := t.since(before)
	for _, part := range []string{"server", "agent", "shims", "tasks", "postgres", "clients"} {
		b.ReportMetric(float64(spent[part])/float64(over), part+"-cores")
	}
}
