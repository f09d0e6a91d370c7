package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain/machine"
)

// Machines get control groups of version 2 beside the server's own, if the server may create them.
// A group holds the agent and, in child groups that the agent creates, everything it runs. It
// delegates no controllers, so the kernel allows processes in it. Without cpu and memory
// controllers a group still knows every process of the machine and can kill all of them.

// serverGroup is the leaf group into which the server moves, because a group that delegates
// controllers may hold no processes. systemd creates it with DelegateSubgroup=millpond-server.
const serverGroup = "millpond-server"

// cpuPeriod is the period of cpu.max, in microseconds.
const cpuPeriod = 100_000

// cgroups is the parent of the machines' control groups.
type cgroups struct {
	base   string // empty if no group can be created
	cpu    bool   // the controllers that enforce a flavor's limits
	memory bool
	why    string // why not all limits are enforced
}

func findCgroups() *cgroups {
	own, errOwn := os.ReadFile("/proc/self/cgroup")
	mounts, errMounts := os.ReadFile("/proc/self/mountinfo")
	if err := errors.Join(errOwn, errMounts); err != nil {
		return &cgroups{why: err.Error()}
	}
	g, ok := ownGroups(string(own), string(mounts))[unified]
	if !ok {
		return &cgroups{why: "the server sees no control groups of version 2 on this host"}
	}
	return cgroupsIn(g.dir)
}

func cgroupsIn(own string) *cgroups {
	base := own
	if filepath.Base(own) == serverGroup {
		base = filepath.Dir(own)
	}
	probe := filepath.Join(base, fmt.Sprintf("millpond-probe-%d", os.Getpid()))
	if err := os.Mkdir(probe, 0o755); err != nil {
		return &cgroups{why: fmt.Sprintf("the server may not create control groups in %s (%v); under systemd, give its unit Delegate=yes and DelegateSubgroup=%s", base, plain(err), serverGroup)}
	}
	defer func() { _ = os.Remove(probe) }()
	c := &cgroups{base: base}
	c.enable()
	return c
}

// enable delegates the controllers from the base to the machines' groups.
func (c *cgroups) enable() {
	available := words(filepath.Join(c.base, "cgroup.controllers"))
	var missing []string
	for _, controller := range []string{"cpu", "memory"} {
		if !slices.Contains(available, controller) {
			missing = append(missing, controller)
			continue
		}
		if err := c.delegate(controller); err != nil {
			c.why = err.Error()
		}
	}
	if len(missing) > 0 {
		c.why = fmt.Sprintf("%s has no %s controller in version 2 of control groups", c.base, strings.Join(missing, " and no "))
	}
	on := words(filepath.Join(c.base, "cgroup.subtree_control"))
	c.cpu, c.memory = slices.Contains(on, "cpu"), slices.Contains(on, "memory")
}

func (c *cgroups) delegate(controller string) error {
	file := filepath.Join(c.base, "cgroup.subtree_control")
	if slices.Contains(words(file), controller) {
		return nil
	}
	err := os.WriteFile(file, []byte("+"+controller), 0)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := c.moveServer(); err != nil {
		return err
	}
	return os.WriteFile(file, []byte("+"+controller), 0)
}

// moveServer moves the base's processes to serverGroup, if all are this server and its descendants.
func (c *cgroups) moveServer() error {
	leaf := filepath.Join(c.base, serverGroup)
	for range 10 { // processes that start meanwhile start in the base
		members := procsIn(c.base)
		if len(members) == 0 {
			return nil
		}
		for _, pid := range members {
			if !ownDescendant(pid) {
				return fmt.Errorf("%s holds other processes than the server (such as %d); give the server a group of its own, as systemd does with Delegate=yes", c.base, pid)
			}
		}
		if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, pid := range members {
			err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return fmt.Errorf("processes are started in %s faster than they can be moved", c.base)
}

func ownDescendant(pid int) bool {
	for ; pid > 0; pid = parentOf(pid) {
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}

func words(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// unenforced returns a sentence on the flavor's limits that the groups do not enforce, and why. It
// is empty if all are enforced.
func (c *cgroups) unenforced() string {
	switch {
	case c.cpu && c.memory:
		return ""
	case c.cpu:
		return "Control groups hold each machine to the cores of its flavor; its memory is not enforced, since " + c.why + "."
	case c.memory:
		return "Control groups hold each machine to the memory of its flavor; its cores are not enforced, since " + c.why + "."
	}
	return "The cores and the memory of a flavor are not enforced, since " + c.why + "."
}

// path is a machine's group; empty if no group can be created. The hash covers the path and the id
// of the directory. Servers on one host may have machines with the same name, and a directory may
// replace another.
func (c *cgroups) path(m machineDir) string {
	if c.base == "" {
		return ""
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(m.dir + m.directory))
	return filepath.Join(c.base, fmt.Sprintf("millpond-%x-%s", sum.Sum64(), m.id))
}

// make creates a machine's group if it does not exist, and sets its limits.
func (c *cgroups) make(m machineDir, f machine.Flavor) (string, error) {
	dir := c.path(m)
	if dir == "" {
		return "", nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	var failed []error
	if c.cpu {
		failed = append(failed, os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%d %d", f.Cores*cpuPeriod, cpuPeriod), 0o600))
	}
	if c.memory {
		// A task that uses too much memory is killed alone.
		failed = append(failed, os.WriteFile(filepath.Join(dir, "memory.oom.group"), []byte("0"), 0o600),
			os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(f.Memory, 10)), 0o600))
	}
	return dir, errors.Join(failed...)
}

// killCgroup kills every process in a group and its child groups.
func killCgroup(dir string) error {
	if dir == "" {
		return nil
	}
	kill, err := os.OpenFile(filepath.Join(dir, "cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // before Linux 5.14, or the group is gone
		for _, pid := range members(dir) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return nil
	}
	if err != nil {
		return err
	}
	_, err = kill.WriteString("1")
	return errors.Join(err, kill.Close())
}

// members are the processes of a group and its child groups.
func members(dir string) []int {
	var all []int
	if dir == "" {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, procsIn(path)...)
		}
		return nil // a removed group has no members
	})
	return all
}

func procsIn(dir string) []int {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var all []int
	for _, field := range bytes.Fields(b) {
		if pid, err := strconv.Atoi(string(field)); err == nil { // 0: a process that this server cannot see
			all = append(all, pid)
		}
	}
	return all
}

// rmdirTime is how long the kernel may take to remove ended processes from a group.
const rmdirTime = 5 * time.Second

// removeCgroup removes an empty group and its child groups.
func removeCgroup(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rmdirTime)
	defer cancel()
	for wait := (pauses{}); ; {
		err := removeGroups(dir)
		if !errors.Is(err, unix.EBUSY) || !wait.next(ctx) {
			return err
		}
	}
}

func removeGroups(dir string) error {
	var below []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		return nil // a removed group needs no removal
	})
	for _, path := range slices.Backward(below) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
