package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// allocated is the disk space of a file in bytes.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

func TestASpoolThatIsFullHoldsTheProcessBack(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.SpoolLimit = 2 << 20
	c.agent(o)
	e := emission{seed: 9, total: 40 << 20, most: 100_000}
	c.refuse.Store(503)
	c.start(agent.Attempt{ID: "att_1", Command: e.command(t)})
	c.cut()
	dir := filepath.Join(o.Dir, "attempts", "att_1")
	// It writes until the spool and the pipe are full, and then waits.
	still := standing(t, dir)
	waitFor(t, func() bool {
		info, err := os.Stat(filepath.Join(dir, shim.LogFile))
		return err == nil && info.Size() >= o.SpoolLimit/2 && still()
	})
	require.LessOrEqual(t, allocated(t, filepath.Join(dir, shim.LogFile))+allocated(t, filepath.Join(dir, shim.MarksFile)), o.SpoolLimit+c.received("att_1")+(64<<10))
	c.refuse.Store(0)
	most := int64(0)
	c.until("the end", 3*waitLimit, func() bool {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, shim.LogFile), &st) == nil {
			most = max(most, st.Blocks*512)
		}
		return c.attempts["att_1"].final() != nil
	})
	sameBytes(t, c, "att_1", e)
	require.Less(t, most, 3*o.SpoolLimit, "what was sent is not freed")
}

func (c *control) received(id string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempts[id].next
}

// standing returns a function that reports whether a process has written no bytes for a while.
func standing(t *testing.T, dir string) func() bool {
	last, since := int64(-1), time.Now()
	return func() bool {
		if !fileExists(filepath.Join(dir, shim.WorkDir, "count")) {
			return false
		}
		if now := counted(t, dir, "count"); now != last {
			last, since = now, time.Now()
		}
		return last > 0 && time.Since(since) > 150*time.Millisecond
	}
}

func TestAProcessHeldBackCanBeCancelled(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.SpoolLimit = 1 << 20
	c.agent(o)
	c.slow.Store(int64(2 * time.Second))
	c.start(agent.Attempt{ID: "att_1", Command: "yes", GraceSeconds: 5})
	c.until("held", waitLimit, func() bool {
		return slices.ContainsFunc(c.attempts["att_1"].statuses, func(s agent.Status) bool { return s.Held != "" })
	})
	c.slow.Store(0)
	c.cancel("att_1")
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonCancelled, s.Reason)
	require.Empty(t, s.Held)
	require.Equal(t, s.LogEnd, c.received("att_1"))
}

// TestAnAdoptedProcessIsNotHeldBackForWhatIsDone: the control plane has its whole log, so the next
// agent sends nothing from which it would learn which marks to free.
func TestAnAdoptedProcessIsNotHeldBackForWhatIsDone(t *testing.T) {
	c := newControl(t)
	o := c.options()
	o.SpoolLimit = 4 << 10
	stop := c.agent(o)
	const writes = 2000
	c.start(agent.Attempt{ID: "att_1", Command: testBinary(t) + " tick 1ms " + strconv.Itoa(writes) + "; while [ ! -e go ]; do sleep 0.02; done; echo more; exec sleep 1000"})
	c.reached("att_1", 20*writes)
	dir := filepath.Join(o.Dir, "attempts/att_1")
	marks, err := os.Stat(filepath.Join(dir, shim.MarksFile))
	require.NoError(t, err)
	require.Greater(t, marks.Size(), o.SpoolLimit, "the marks would not hold it back")
	stop()
	c.cut()
	c.agent(o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, shim.WorkDir, "go"), nil, 0o644))
	c.contains("att_1", "more\n")
	c.cancel("att_1")
	c.exited("att_1")
}

// TestAShimThatWaitsIsToldOfRoomWhenItIsAdopted: the answer to Hello may arrive before the shim's
// memory.
func TestAShimThatWaitsIsToldOfRoomWhenItIsAdopted(t *testing.T) {
	l, theirs := shimEnds(t)
	memory, fd, err := shim.NewShared()
	require.NoError(t, err)
	require.NoError(t, syscall.Close(fd))
	a := newAttempt(t.TempDir(), shim.Spec{})
	a.link = l
	a.setAcked(100)
	memory.Short.Store(1)
	a.share(memory)
	require.True(t, orders(t, theirs)().Room)
	require.Equal(t, int64(100), memory.Acked.Load())
	a.share(nil)
}

// TestAShimGathersWhileTheAgentIsAway: a shim that wakes for every line takes the CPU time that a
// busy agent needs. Each wake that moves bytes writes a mark.
func TestAShimGathersWhileTheAgentIsAway(t *testing.T) {
	c := newControl(t)
	o := c.options()
	c.agent(o)
	c.slow.Store(int64(250 * time.Millisecond))
	const writes = 1000
	c.start(agent.Attempt{ID: "att_1", Command: testBinary(t) + " tick 1ms " + strconv.Itoa(writes) + "; sleep 60"})
	c.reached("att_1", 20*writes)
	info, err := os.Stat(filepath.Join(o.Dir, "attempts/att_1", shim.MarksFile))
	require.NoError(t, err)
	require.Less(t, info.Size()/shim.MarkSize, int64(writes/2))
	c.cancel("att_1")
	c.exited("att_1")
}

func TestAFullDiskHoldsTheProcessBackAndLosesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	c := newControl(t)
	o := c.options()
	disk := filepath.Join(filepath.Dir(o.Dir), "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=755"); err != nil {
		t.Skip("this machine mounts no tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	o.Dir = filepath.Join(disk, "agent")
	c.agent(o)
	// The process writes more than the disk holds while nothing is freed. Its count is on another
	// disk.
	e := emission{seed: 4, total: 24 << 20, most: 50_000}
	c.slow.Store(int64(300 * time.Millisecond))
	ballast := filepath.Join(disk, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 5<<20), 0o600))
	c.start(agent.Attempt{ID: "att_1", Command: e.command(t)})
	c.refuse.Store(503)
	c.cut()
	waitFor(t, func() bool {
		return allocated(t, filepath.Join(o.Dir, "attempts/att_1", shim.LogFile)) > 2<<20 && full(disk)
	})
	// After reconnecting, the attempt reports that the disk is full. Keep it full: fill the space
	// that is freed.
	c.failing.Store(1 << 30)
	c.refuse.Store(0)
	c.session()
	c.until("the disk's being full", waitLimit, func() bool {
		return slices.ContainsFunc(c.attempts["att_1"].statuses, func(s agent.Status) bool { return s.Held == "the disk is full" && s.State == agent.Running })
	})
	c.slow.Store(0)
	c.failing.Store(0)
	require.NoError(t, os.Remove(ballast))
	sameBytes(t, c, "att_1", e)
	statuses := c.record("att_1").statuses
	require.Empty(t, statuses[len(statuses)-1].Held)
}

func full(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Bavail < 8
}

func TestAShimKilledOnAFullDiskLosesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	c := newControl(t)
	o := c.options()
	disk := filepath.Join(filepath.Dir(o.Dir), "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m,mode=755"); err != nil {
		t.Skip("this machine mounts no tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	o.Dir = filepath.Join(disk, "agent")
	o.OneUser = true
	c.agent(o)
	c.failing.Store(1 << 30)
	// The count is on another disk.
	elsewhere := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(elsewhere, shim.WorkDir), 0o755))
	e := emission{seed: 6, total: 1 << 40, most: 50_000}
	c.start(agent.Attempt{ID: "att_1", Command: "cd " + filepath.Join(elsewhere, shim.WorkDir) + "; " + e.command(t)})
	still := standing(t, elsewhere)
	waitFor(t, func() bool { return full(disk) && still() })
	killShim(t, filepath.Join(o.Dir, "attempts", "att_1"))
	c.failing.Store(0)
	s := c.exited("att_1")
	require.Equal(t, agent.ReasonSupervisor, s.Reason)
	require.GreaterOrEqual(t, s.LogEnd, counted(t, elsewhere, "count"))
	require.Equal(t, e.sha(s.LogEnd), c.record("att_1").sha())
}
