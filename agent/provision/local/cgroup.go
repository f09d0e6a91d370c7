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

	"github.com/millpond/millpond/domain"
)

// Machines get control groups of version 2 beside the server's own, where it may make them. A group holds the agent and, in groups that the agent makes
// below, all that it runs; it hands no controllers on, so the kernel lets it hold processes as well. Without cpu and memory controllers a group still
// knows every process of the machine, and kills them at once.

// serverGroup is the leaf into which the server moves, since a group that hands controllers on may hold no processes. systemd makes it with
// DelegateSubgroup=millpond-server.
const serverGroup = "millpond-server"

// cpuPeriod is that of cpu.max, in microseconds.
const cpuPeriod = 100_000

// cgroups is the place for machines' groups.
type cgroups struct {
	base   string // empty where none can be made
	cpu    bool   // what holds a machine to its flavor
	memory bool
	why    string // not all of it does
}

func findCgroups() *cgroups {
	own, errOwn := os.ReadFile("/proc/self/cgroup")
	mounts, errMounts := os.ReadFile("/proc/self/mountinfo")
	if err := errors.Join(errOwn, errMounts); err != nil {
		return &cgroups{why: err.Error()}
	}
	g, ok := ownGroups(string(own), string(mounts))[unified]
	if !ok {
		return &cgroups{why: "this host shows the server no control groups of version 2"}
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
		return &cgroups{why: fmt.Sprintf("the server may not make control groups in %s (%v); under systemd, give its unit Delegate=yes and DelegateSubgroup=%s", base, plain(err), serverGroup)}
	}
	defer func() { _ = os.Remove(probe) }()
	c := &cgroups{base: base}
	c.enable()
	return c
}

// enable has the base hand the controllers on to machines.
func (c *cgroups) enable() {
	available := words(filepath.Join(c.base, "cgroup.controllers"))
	var missing []string
	for _, controller := range []string{"cpu", "memory"} {
		if !slices.Contains(available, controller) {
			missing = append(missing, controller)
			continue
		}
		if err := c.hand(controller); err != nil {
			c.why = err.Error()
		}
	}
	if len(missing) > 0 {
		c.why = fmt.Sprintf("%s has no %s controller in version 2 of control groups", c.base, strings.Join(missing, " and no "))
	}
	on := words(filepath.Join(c.base, "cgroup.subtree_control"))
	c.cpu, c.memory = slices.Contains(on, "cpu"), slices.Contains(on, "memory")
}

func (c *cgroups) hand(controller string) error {
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

// moveServer empties the base, if all in it is this server with what it has started.
func (c *cgroups) moveServer() error {
	leaf := filepath.Join(c.base, serverGroup)
	for range 10 { // what is started meanwhile is born in the base
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

// unenforced says for people which of a flavor's limits the groups do not enforce, and why; empty where they enforce all.
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

// path is a machine's group; empty where none can be made. Servers of one host may have machines of one name in different directories.
func (c *cgroups) path(m place) string {
	if c.base == "" {
		return ""
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(m.dir))
	return filepath.Join(c.base, fmt.Sprintf("millpond-%x-%s", sum.Sum64(), m.id))
}

// make makes a machine's group, or finds it, and sets its limits.
func (c *cgroups) make(m place, f domain.Flavor) (string, error) {
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
		// A task that takes too much dies alone.
		failed = append(failed, os.WriteFile(filepath.Join(dir, "memory.oom.group"), []byte("0"), 0o600),
			os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(f.Memory, 10)), 0o600))
	}
	return dir, errors.Join(failed...)
}

// killCgroup kills all that is in a group and below it.
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

// members are the processes of a group and of those below it.
func members(dir string) []int {
	var all []int
	if dir == "" {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, procsIn(path)...)
		}
		return nil // a group that has gone has no members
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
		if pid, err := strconv.Atoi(string(field)); err == nil { // 0: one that this server cannot see
			all = append(all, pid)
		}
	}
	return all
}

// rmdirTime is how long the kernel may take to count out the processes that have ended.
const rmdirTime = 5 * time.Second

// removeCgroup removes an empty group with those below it.
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
		return nil // one that has gone needs no removal
	})
	for _, path := range slices.Backward(below) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
