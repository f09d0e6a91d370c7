package worker

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

// marker is the variable by which a process is known to belong to an attempt.
const marker = "MILLPOND_ATTEMPT_ID"

// process is what /proc/<pid>/stat says.
type process struct {
	pid, parent, session int
	zombie               bool
}

// processes lists what runs on the machine, as far as this user sees it.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var found []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

func readProcess(pid int) (process, bool) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return process{}, false
	}
	fields := statFields(b)
	if len(fields) < 4 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	session, _ := strconv.Atoi(string(fields[3]))
	return process{pid: pid, parent: parent, session: session, zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}, true
}

// statFields are what a stat file of /proc has after the name, which is in parentheses and may contain anything: state, parent, group, session and so on.
func statFields(b []byte) [][]byte { return bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) }

func procPath(pid int, file string) string { return filepath.Join("/proc", strconv.Itoa(pid), file) }

// descendants lists the living processes below root.
func descendants(root int) []int { return below(processes(), root) }

// below lists the living ones of processes that are descendants of roots.
func below(all []process, roots ...int) []int {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []int
	next := slices.Clone(roots)
	for len(next) > 0 {
		pid := next[0]
		next = next[1:]
		for _, c := range children[pid] {
			next = append(next, c.pid)
			if !c.zombie {
				found = append(found, c.pid)
			}
		}
	}
	return found
}

// strays lists the living processes of an attempt whose shim is dead: those with its marker in their environment, and
// those of its session, if that is known.
func strays(attempt string, session int) []int {
	entry := []byte(marker + "=" + attempt)
	var found []int
	for _, p := range processes() {
		if p.zombie || p.pid == os.Getpid() {
			continue
		}
		if session > 0 && p.session == session || hasEntry(p.pid, entry) {
			found = append(found, p.pid)
		}
	}
	return found
}

func hasEntry(pid int, entry []byte) bool {
	b, err := os.ReadFile(procPath(pid, "environ"))
	return err == nil && slices.ContainsFunc(bytes.Split(b, []byte{0}), func(v []byte) bool { return bytes.Equal(v, entry) })
}

// ofUser lists the living processes of a user.
func ofUser(uid uint32) []int { return ofUsers(processes(), []uint32{uid}) }

// ofUsers lists the living ones of processes that belong to users.
func ofUsers(all []process, users []uint32) []int {
	if len(users) == 0 {
		return nil
	}
	want := map[string]bool{}
	for _, uid := range users {
		want[strconv.FormatUint(uint64(uid), 10)] = true
	}
	var found []int
	for _, p := range all {
		if !p.zombie && want[realUser(p.pid)] {
			found = append(found, p.pid)
		}
	}
	return found
}

func realUser(pid int) string {
	b, err := os.ReadFile(procPath(pid, "status"))
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

// signalUser signals every process of a user in one system call, which nothing that forks can outrun. It does so from a
// thread that has become this user, since kill(-1) reaches all that its caller may signal; the thread ends with it.
func signalUser(uid uint32, sig unix.Signal) {
	var done sync.WaitGroup
	done.Go(func() { signalAs(uid, sig) })
	done.Wait()
}

func signalAs(uid uint32, sig unix.Signal) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot be thrown away, and what it is, the process is. While it is locked here, another
		// goroutine has another thread.
		defer runtime.UnlockOSThread()
		signalUser(uid, sig)
		return
	}
	// Never unlocked from here on: the thread ends with the goroutine.
	id := uintptr(uid)
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, id, id, id); e != 0 {
		return
	}
	if now, _, _ := syscall.RawSyscall(unix.SYS_GETUID, 0, 0, 0); uid == 0 || now != id {
		return // as root the next call would end the machine
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(sig), 0)
}
