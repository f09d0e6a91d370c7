// Package proc finds and signals the processes of this machine.
package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a part of /proc/<pid>/stat.
type Process struct {
	Pid, Parent, Session int
	Zombie               bool // it has ended: only its parent still has to reap it
}

// All lists the machine's processes; nil if /proc cannot be read.
func All() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var found []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := Read(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

// Read reads the process with this pid. It returns false if there is none.
func Read(pid int) (Process, bool) {
	b, err := os.ReadFile(Path(pid, "stat"))
	if err != nil {
		return Process{}, false
	}
	fields := StatFields(b)
	if len(fields) < 4 {
		return Process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	session, _ := strconv.Atoi(string(fields[3]))
	return Process{Pid: pid, Parent: parent, Session: session, Zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}, true
}

// StatFields are the fields of a stat file after the process's name: state, parent, group, session
// and so on. The name is in parentheses and may contain anything.
func StatFields(b []byte) [][]byte { return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) }

// Path is the path of a file of a process, such as "fd/2".
func Path(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// Descendants returns the pids of the living processes below root.
func Descendants(root int) []int { return Below(All(), root) }

// Below returns the pids of the living descendants of roots among all.
func Below(all []Process, roots ...int) []int {
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []int
	next := slices.Clone(roots)
	for len(next) > 0 {
		pid := next[0]
		next = next[1:]
		for _, c := range children[pid] {
			next = append(next, c.Pid)
			if !c.Zombie {
				found = append(found, c.Pid)
			}
		}
	}
	return found
}

// OfUser returns the pids of the living processes of a user.
func OfUser(uid uint32) []int { return OfUsers(All(), []uint32{uid}) }

// OfUsers returns the pids of the living processes of users among all.
func OfUsers(all []Process, users []uint32) []int {
	if len(users) == 0 {
		return nil
	}
	want := map[string]bool{}
	for _, uid := range users {
		want[strconv.FormatUint(uint64(uid), 10)] = true
	}
	var found []int
	for _, p := range all {
		if !p.Zombie && want[realUser(p.Pid)] {
			found = append(found, p.Pid)
		}
	}
	return found
}

func realUser(pid int) string {
	b, err := os.ReadFile(Path(pid, "status"))
	if err != nil {
		return ""
	}
	_, rest, _ := bytes.Cut(b, []byte("\nUid:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return ""
	}
	return string(fields[0])
}

// SignalUser signals every process of a user in one system call, so that no fork can escape. It
// calls kill(-1), which signals every process that its caller may signal, from a thread that runs
// as this user. The thread ends afterwards.
func SignalUser(uid uint32, sig unix.Signal) {
	var done sync.WaitGroup
	done.Go(func() { signalAs(uid, sig) })
	done.Wait()
}

func signalAs(uid uint32, sig unix.Signal) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot be ended, and its user is the process's user. While it is locked
		// here, another goroutine runs on another thread.
		defer runtime.UnlockOSThread()
		SignalUser(uid, sig)
		return
	}
	// The thread is never unlocked, so it ends with the goroutine.
	id := uintptr(uid)
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, id, id, id); e != 0 {
		return
	}
	if now, _, _ := syscall.RawSyscall(unix.SYS_GETUID, 0, 0, 0); uid == 0 || now != id {
		return // as root the next call would kill every process of the machine
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(sig), 0)
}

// KillCgroup kills every process of a control group of version 2 at once, and returns the pids of
// those that still exist. dir is the group's directory; "" means no group.
func KillCgroup(dir string) []int {
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
