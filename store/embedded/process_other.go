//go:build !linux

package embedded

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// knowsOrphans reports that orphans finds every process of a cluster. Here it does not, and
// PostgreSQL's own interlock must do.
const knowsOrphans = false

func dieWithParent(*syscall.SysProcAttr) {}

// adoptProcess returns the process if it is a postmaster for the cluster; nil if it is gone or
// another program.
func adoptProcess(pid int, data string) (*process, error) {
	if !worksIn(pid, data) {
		return nil, nil
	}
	p := &process{pid: pid, adopted: true, exited: make(chan struct{})}
	p.signal = func(sig syscall.Signal) error { return syscall.Kill(pid, sig) }
	go func() {
		defer close(p.exited)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return
			}
		}
	}()
	return p, nil
}

// worksIn reports whether the process is a PostgreSQL for the cluster.
func worksIn(pid int, data string) bool {
	command, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	program, args, _ := strings.Cut(strings.TrimSpace(string(command)), " -D ")
	return filepath.Base(program) == "postgres" && args == data
}

func orphans(string) ([]int, error) { return nil, nil }
