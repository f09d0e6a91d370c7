package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Processes lists the servers, agents, PostgreSQL and tasks of the platform. Shims end with their
// tasks.
func (p *Platform) Processes() (pids []int) {
	for _, pr := range AllProcesses() {
		if strings.Contains(pr.Command, p.Dir+"/") || strings.Contains(pr.Command, p.Dir+"\x00") || strings.Contains(pr.environment, "E2E_ARENA="+p.Arena+"\x00") {
			pids = append(pids, pr.PID)
		}
	}
	return pids
}

// Process is a process of this machine.
type Process struct {
	PID, Parent          int
	Command, environment string // each part ends with a NUL byte
}

// AllProcesses lists the living processes without zombies.
func AllProcesses() (all []Process) {
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
		all = append(all, Process{pid, parent, string(command), string(environment)})
	}
	return all
}

// ProcessesOf returns the processes of an attempt and the shim that is their parent, or 0.
func ProcessesOf(id string) (pids []int, shim int) {
	mark := "MILLPOND_ATTEMPT_ID=" + id + "\x00"
	marked := map[int]bool{}
	parents := map[int]int{}
	for _, pr := range AllProcesses() {
		parents[pr.PID] = pr.Parent
		if strings.Contains(pr.environment, mark) {
			pids = append(pids, pr.PID)
			marked[pr.PID] = true
		}
	}
	for _, pid := range pids {
		if parent := parents[pid]; !marked[parent] {
			shim = parent
		}
	}
	return pids, shim
}

// Kill9 kills the process with SIGKILL.
func Kill9(t testing.TB, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// Stop stops the process with SIGSTOP, and waits until none of its threads runs: one of them handles
// the signal, and on a busy machine the others run on until it is scheduled.
func Stop(t testing.TB, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	Await(t, "the process stops", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			stat, err := os.ReadFile(path)
			if err == nil && !bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T")) {
				return false
			}
		}
		return len(threads) > 0
	})
}

// AgentPID returns the agent beside the first server.
func (p *Platform) AgentPID() int {
	var record struct{ PID int }
	b, err := os.ReadFile(filepath.Join(p.Dir, "agent.json"))
	if err != nil || json.Unmarshal(b, &record) != nil || syscall.Kill(record.PID, 0) != nil {
		return 0
	}
	return record.PID
}

// Postmaster returns the process of the embedded PostgreSQL.
func (p *Platform) Postmaster() int {
	b, _ := os.ReadFile(filepath.Join(p.Dir, "postgres", "postmaster.pid"))
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// NegligentEnv makes this test binary a parent that inherits orphans and never reaps them.
const NegligentEnv = "E2E_NEGLIGENT"

// runNegligent runs a command, adopts its orphans and lives until its input ends.
func runNegligent(args []string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	go func() { _ = cmd.Wait() }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
