package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain/machine"
)

func TestOwnGroupsAreFoundInTheFilesOfProc(t *testing.T) {
	own := "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/user.slice/x\n"
	mounts := "30 25 0:27 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n" +
		"31 25 0:28 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"32 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 25 0:30 /elsewhere /mnt rw - cgroup cgroup rw,memory\n34 1 0:1 / / rw - ext4 /dev/x rw\n"
	require.Equal(t, map[string]group{
		"":       {"/sys/fs/cgroup/unified/user.slice/x", "/sys/fs/cgroup/unified"},
		"memory": {"/sys/fs/cgroup/memory/b", "/sys/fs/cgroup/memory"},
		"cpu":    {"/sys/fs/cgroup/cpu/c", "/sys/fs/cgroup/cpu"},
	}, ownGroups(own, mounts))
	require.Empty(t, ownGroups("", mounts))
}

func write(t *testing.T, path, content string) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestAHostIsNoLargerThanItsGroups(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "v2/a/cpu.max"), "250000 100000\n")
	write(t, filepath.Join(root, "v2/a/b/cpu.max"), "max 100000\n")
	write(t, filepath.Join(root, "v2/a/memory.max"), "max\n")
	write(t, filepath.Join(root, "v1/x/memory.limit_in_bytes"), "1000000\n")
	h := host{cores: 16, memory: 64 << 30}
	h.bound(map[string]group{
		unified: {filepath.Join(root, "v2/a/b"), filepath.Join(root, "v2")}, "memory": {filepath.Join(root, "v1/x"), filepath.Join(root, "v1")},
	})
	require.Equal(t, host{cores: 2, memory: 1000000}, h)
	write(t, filepath.Join(root, "v1/x/cpu.cfs_quota_us"), "50000\n")
	write(t, filepath.Join(root, "v1/x/cpu.cfs_period_us"), "100000\n")
	h.bound(map[string]group{"cpu": {filepath.Join(root, "v1/x"), filepath.Join(root, "v1")}})
	require.Equal(t, 1, h.cores)
}

// TestLimitsAreThoseOfTheFlavor writes to a directory that looks like a control group.
func TestLimitsAreThoseOfTheFlavor(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "cgroup.controllers"), "cpuset cpu io memory pids\n")
	write(t, filepath.Join(base, "cgroup.subtree_control"), "cpu memory\n")
	c := cgroupsIn(base)
	require.Empty(t, c.unenforced())
	dir, err := c.make(machineDir{id: "cmp_a", dir: "/machines/cmp_a"}, machine.Flavor{Cores: 2, Memory: 4 << 30})
	require.NoError(t, err)
	for file, want := range map[string]string{"cpu.max": "200000 100000", "memory.max": strconv.Itoa(4 << 30), "memory.oom.group": "0"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
	again, err := c.make(machineDir{id: "cmp_a", dir: "/machines/cmp_a"}, machine.Flavor{Cores: 1, Memory: 4 << 30})
	require.NoError(t, err)
	require.Equal(t, dir, again)
	other, err := c.make(machineDir{id: "cmp_a", dir: "/elsewhere/cmp_a"}, machine.Flavor{Cores: 1, Memory: 4 << 30})
	require.NoError(t, err)
	require.NotEqual(t, dir, other)
	leaf := filepath.Join(base, serverGroup)
	require.NoError(t, os.Mkdir(leaf, 0o700))
	require.Equal(t, base, cgroupsIn(leaf).base, "the server's own leaf is not the base")
}

func TestWhyLimitsAreNotEnforcedIsSaid(t *testing.T) {
	base := t.TempDir()
	write(t, filepath.Join(base, "cgroup.controllers"), "memory\n")
	write(t, filepath.Join(base, "cgroup.subtree_control"), "memory\n")
	require.Equal(t, "Control groups hold each machine to the memory of its flavor; its cores are not enforced, since "+base+
		" has no cpu controller in version 2 of control groups.", cgroupsIn(base).unenforced())
	none := cgroupsIn("/proc/self/nowhere")
	require.Empty(t, none.base)
	require.Contains(t, none.unenforced(), "are not enforced, since the server may not create control groups in /proc/self/nowhere")
}

// requireGroups skips the test if this machine has no control groups.
func requireGroups(t *testing.T) *cgroups {
	c := findCgroups()
	if c.base == "" {
		t.Skip(c.why)
	}
	return c
}

func TestAnAgentIsBornInItsControlGroup(t *testing.T) {
	requireGroups(t)
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	h.ensure(s)
	pid, err := strconv.Atoi(strings.Fields(h.agents(s.Machine)[0])[0])
	require.NoError(t, err)
	m, err := h.machineDir(s.Machine)
	require.NoError(t, err)
	dir := h.groups.path(m)
	h.eventually(func() bool { return len(procsIn(dir)) > 1 }) // the agent and its shims
	require.Contains(t, procsIn(dir), pid)
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.NoDirExists(t, dir)
}

// TestTheServerMovesIntoALeaf moves this test's own process, if its group has no other processes.
func TestTheServerMovesIntoALeaf(t *testing.T) {
	home := requireGroups(t).base
	base := filepath.Join(home, fmt.Sprintf("millpond-test-%d", os.Getpid()))
	require.NoError(t, os.Mkdir(base, 0o755))
	enter := func(dir string, pid int) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0))
	}
	defer func() {
		enter(home, os.Getpid())
		require.NoError(t, killCgroup(base))
		require.NoError(t, removeCgroup(t.Context(), base))
	}()
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	defer func() { _ = child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	enter(base, os.Getpid())
	enter(base, child.Process.Pid)
	stranger := orphan(t)
	enter(base, stranger)
	c := &cgroups{base: base}
	require.ErrorContains(t, c.moveServer(), "holds other processes than the server")
	require.NoDirExists(t, filepath.Join(base, serverGroup), "nothing was moved")
	require.NoError(t, syscall.Kill(stranger, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !slices.Contains(procsIn(base), stranger) }, patience, tickle)
	require.NoError(t, c.moveServer())
	require.Empty(t, procsIn(base))
	require.Subset(t, procsIn(filepath.Join(base, serverGroup)), []int{os.Getpid(), child.Process.Pid})
}

// orphan starts a process that is not a descendant of this one.
func orphan(t *testing.T) int {
	out, err := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!").Output()
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !ownDescendant(pid) }, patience, tickle)
	return pid
}

func TestAGroupIsKilledWhereTheKernelHasNoFileForIt(t *testing.T) {
	child := exec.Command("sleep", "1000")
	require.NoError(t, child.Start())
	defer func() { _ = child.Process.Kill() }()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "below/cgroup.procs"), strconv.Itoa(child.Process.Pid)+"\n")
	require.NoError(t, killCgroup(dir))
	require.NoFileExists(t, filepath.Join(dir, "cgroup.kill"))
	require.Error(t, child.Wait())
}
