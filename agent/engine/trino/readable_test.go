package trino

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/engine/supervised"
)

// A path that Trino's user may not open is named: a directory above, a directory, a file, or the
// target of a link.
func TestCheckReadable(t *testing.T) {
	top, err := os.MkdirTemp("", "millpond-readable-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	at := func(name string) string { return filepath.Join(top, name) }
	for _, dir := range []string{"home/engines/trino/lib", "home/engines/trino/plugin", "home/engines/java/bin", "link"} {
		require.NoError(t, os.MkdirAll(at(dir), 0o755))
	}
	for name, mode := range map[string]os.FileMode{"home/engines/trino/lib/a.jar": 0o644, "home/engines/trino/plugin/b.jar": 0o644, "home/engines/java/bin/java": 0o755} {
		require.NoError(t, os.WriteFile(at(name), nil, mode))
	}
	require.NoError(t, os.Symlink(at("home/engines/java/bin/java"), at("link/java")))
	require.NoError(t, os.Chmod(top, 0o755))
	check := func() error {
		return asAnother(t, func() error { return checkReadable(at("link/java"), at("home/engines/trino")) })
	}
	require.NoError(t, check())
	for _, closed := range []string{"home", "home/engines/trino", "home/engines/trino/lib", "home/engines/trino/plugin/b.jar", "home/engines/java", "home/engines/java/bin/java", "link"} {
		info, err := os.Stat(at(closed))
		require.NoError(t, err)
		require.NoError(t, os.Chmod(at(closed), info.Mode()&0o700&^0o077&closedMode()))
		require.ErrorContains(t, check(), "open "+at(closed)+": permission denied")
		require.NoError(t, os.Chmod(at(closed), info.Mode()))
	}
	require.ErrorContains(t, asAnother(t, func() error { return checkReadable(at("link/missing"), at("home")) }), at("link/missing"))
}

// closedMode is the mode of a closed path. For root, the test checks as another user.
func closedMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o777
	}
	return 0
}

// asAnother runs fn as a non-root user, on a thread that ends afterwards.
func asAnother(t *testing.T, fn func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return fn()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 61999, 61999, 61999); errno != 0 {
			done <- errno
			return
		}
		done <- fn()
	}()
	return <-done
}

// The message of a guard that starts no JVM is the reason in the obituary.
func TestObituaryOfAGuard(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"echo 'the user 7 cannot open /x' >&2; exit 2", "the user 7 cannot open /x"},
		{"exit 2", "exit status 2"},
		{"echo 'a line'; echo 'Error: of the JVM'; exit 1", "exit status 1: Error: of the JVM"},
	} {
		p, err := supervised.Start(supervised.Options{Command: []string{"sh", "-c", c.script}, Dir: t.TempDir(), KeepOutput: 1 << 10})
		require.NoError(t, err)
		<-p.Gone()
		n := &node{Process: p}
		require.Equal(t, c.want, strings.TrimSpace(n.obituary()))
	}
}
