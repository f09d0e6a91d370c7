package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// If one directory cannot be mounted over, the others are, and the process starts all the same.
func TestAPlaceThatCannotBeHiddenIsNamed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives tasks temporary directories of their own")
	}
	probe := exec.Command(Shell, "-c", ":")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		t.Skip("this machine gives none: ", err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	temp := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(temp, "mine"), nil, 0o600))
	type seen struct {
		err          error
		inside, home string
		covered      bool
	}
	found := make(chan seen)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var s seen
		leave, err := hideDirs([]string{"/no/such/place", "/var/tmp"}, temp)
		s.err = err
		s.inside, _ = os.Readlink("/proc/thread-self/ns/mnt")
		_, err = os.Stat("/var/tmp/mine")
		s.covered = err == nil
		leave()
		s.home, _ = os.Readlink("/proc/thread-self/ns/mnt")
		found <- s
	}()
	s := <-found
	require.ErrorContains(t, s.err, "/no/such/place")
	require.True(t, s.covered)
	require.NotEqual(t, own, s.inside)
	require.Equal(t, own, s.home)
	require.NoFileExists(t, "/var/tmp/mine")
}
