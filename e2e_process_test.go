package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// processes are the servers, the agents, PostgreSQL and the tasks of the platform. Shims end with what they supervise.
func (p *platform) processes() (pids []int) {
	for _, pr := range allProcesses() {
		if strings.Contains(pr.command, p.dir+"/") || strings.Contains(pr.command, p.dir+"\x00") || strings.Contains(pr.environment, "E2E_ARENA="+p.arena+"\x00") {
			pids = append(pids, pr.pid)
		}
	}
	return pids
}

// process is a process of this machine.
type process struct {
	pid, parent          int
	command, environment string // each part ends with a NUL byte
}

// allProcesses lists the living processes, zombies left out.
func allProcesses() (all []process) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		command, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		environment, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		all = append(all, process{pid, parent, string(command), string(environment)})
	}
	return all
}

// ofAttempt are the processes of an attempt, and the shim that is their parent; 0 when there is none.
func ofAttempt(id string) (pids []int, shim int) {
	mark := "MILLPOND_ATTEMPT_ID=" + id + "\x00"
	marked := map[int]bool{}
	parents := map[int]int{}
	for _, pr := range allProcesses() {
		parents[pr.pid] = pr.parent
		if strings.Contains(pr.environment, mark) {
			pids = append(pids, pr.pid)
			marked[pr.pid] = true
		}
	}
	for _, pid := range pids {
		if parent := parents[pid]; !marked[parent] {
			shim = parent
		}
	}
	return pids, shim
}

func kill9(t testing.TB, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// agentPID is the agent beside the first server.
func (p *platform) agentPID() int {
	var record struct{ PID int }
	b, err := os.ReadFile(filepath.Join(p.dir, "agent.json"))
	if err != nil || json.Unmarshal(b, &record) != nil || syscall.Kill(record.PID, 0) != nil {
		return 0
	}
	return record.PID
}

// postmaster is the embedded PostgreSQL.
func (p *platform) postmaster() int {
	b, _ := os.ReadFile(filepath.Join(p.dir, "postgres", "postmaster.pid"))
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}
