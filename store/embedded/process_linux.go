package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// knowsOrphans reports that orphans finds every process of a cluster.
const knowsOrphans = true

// dieWithParent ends a helper program with a killed server. The starting thread must live as long.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// adoptProcess returns the process if it is a postmaster that works in the cluster; nil if it is
// gone or another program.
func adoptProcess(pid int, data string) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch the running PostgreSQL (pid %d): %w", pid, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	handle := os.NewFile(uintptr(fd), "pidfd")
	// Checked after the handle is open: from then on the handle notices when the pid is reused.
	if !worksIn(pid, data) || ended(fd) {
		return nil, handle.Close()
	}
	return watchHandle(pid, handle)
}

func watchHandle(pid int, handle *os.File) (*process, error) {
	raw, err := handle.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	p := &process{pid: pid, adopted: true, exited: make(chan struct{})}
	p.signal = func(sig syscall.Signal) error { return sendSignal(raw, sig) }
	go func() {
		defer close(p.exited)
		// The handle becomes readable when the process ends; only closing it could fail the wait.
		_ = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
		_ = handle.Close()
	}()
	return p, nil
}

func sendSignal(raw syscall.RawConn, sig syscall.Signal) error {
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) }); err != nil {
		return os.ErrProcessDone // the watcher has closed the handle
	}
	return sent
}

func ended(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// worksIn reports whether the process is a PostgreSQL whose working directory is the cluster.
func worksIn(pid int, data string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	cwd, err := os.Stat(proc + "/cwd")
	if err != nil {
		return false
	}
	home, err := os.Stat(data)
	if err != nil || !os.SameFile(cwd, home) {
		return false
	}
	program, err := os.ReadFile(proc + "/comm")
	return err == nil && strings.TrimSpace(string(program)) == "postgres"
}

// orphans lists the processes that work in the cluster, except its postmaster: those of a killed
// one.
func orphans(data string) ([]int, error) {
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	f, _ := readPidFile(data) // without the file, no postmaster is left out
	var left []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err == nil && pid != f.pid && worksIn(pid, data) {
			left = append(left, pid)
		}
	}
	return left, nil
}
