package trino

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/engine/install"

	"github.com/millpond/millpond/agent"
)

// behind runs fn on a fenced thread, which ends afterwards.
func behind(t *testing.T, f *fence, fn func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends
		if err := f.enforce(); err != nil {
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}

// With each Landlock ABI of the kernel, only paths below those of the fence can be opened, whatever
// leads there.
func TestFence(t *testing.T) {
	kernel, err := landlockABI()
	if err != nil {
		t.Skipf("this kernel has no Landlock (%v): that Trino cannot leave the workspace is not proven here", err)
	}
	for abi := 1; abi <= kernel; abi++ {
		t.Run(fmt.Sprint("version ", abi), func(t *testing.T) {
			dir := t.TempDir()
			at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
			for _, d := range []string{"read", "write/a", "write/b", "other"} {
				require.NoError(t, os.MkdirAll(at(d), 0o755))
			}
			for _, f := range []string{"read/f", "write/a/f", "write/a/g", "other/f", "file", "other/emptied"} {
				require.NoError(t, os.WriteFile(at(f), []byte("x"), 0o600))
			}
			require.NoError(t, os.Symlink(at("other/f"), at("write/link")))
			read := func(name string) error { _, err := os.ReadFile(name); return err }
			write := func(name string) error { return os.WriteFile(name, []byte("y"), 0o600) }
			require.NoError(t, behind(t, &fence{Read: []string{at("read"), at("missing"), at("file")}, Write: []string{at("write"), "/dev/null"}, ABI: abi}, func() error {
				allowed := map[string]error{
					"read": read(at("read/f")), "a file": read(at("file")), "write": write(at("write/a/new")), "again": write(at("write/a/f")), "make": os.Mkdir(at("write/c"), 0o700),
					"list": func() error { _, err := os.ReadDir(at("write")); return err }(), "remove": os.Remove(at("write/a/new")), "null": write("/dev/null"),
					"rename": os.Rename(at("write/a/g"), at("write/a/h")),
				}
				refused := map[string]error{
					"read": read(at("other/f")), "a link": read(at("write/link")), "dots": read(at("write/../other/f")), "write": write(at("other/f")), "a new file": write(at("other/g")),
					"write what is read": write(at("read/f")), "make": os.Mkdir(at("read/d"), 0o700), "remove": os.Remove(at("other/f")), "remove what is read": os.Remove(at("read/f")),
					"list": func() error { _, err := os.ReadDir(at("other")); return err }(), "write a file": write(at("file")),
				}
				if abi >= 3 {
					refused["truncate"] = os.Truncate(at("other/emptied"), 0)
				}
				for what, err := range allowed {
					if err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
				}
				for what, err := range refused {
					if !errors.Is(err, fs.ErrPermission) {
						return fmt.Errorf("%s is to be refused: %w", what, err)
					}
				}
				across := os.Rename(at("write/a/h"), at("write/b/h"))
				if abi == 1 && !errors.Is(across, unix.EXDEV) || abi > 1 && across != nil {
					return fmt.Errorf("a rename to another directory: %w", across)
				}
				if out := os.Rename(at("write/a/f"), at("other/moved")); !errors.Is(out, unix.EXDEV) && !errors.Is(out, fs.ErrPermission) {
					return fmt.Errorf("a rename to the outside is to be refused: %w", out)
				}
				return nil
			}))
			require.NoError(t, read(at("other/f")), "other threads go on as before")
		})
	}
	require.ErrorIs(t, behind(t, &fence{Write: []string{filepath.Join(t.TempDir(), "missing")}}, func() error { return nil }), fs.ErrNotExist)
}

// Tables that are files are not opened without a fence, unless the operator accepts the risk.
func TestWithoutLandlock(t *testing.T) {
	files, s3 := Storage{Prefix: "file://" + t.TempDir() + "/"}, Storage{Prefix: "s3://bucket/ws_1/", S3: &agent.S3Storage{}}
	o := Options{MaxABI: -1, Installation: install.Trino{Dir: "/opt/trino", Java: "/opt/java/bin/java"}}
	var unfenced *UnfencedError
	require.ErrorAs(t, o.Fenceable(files), &unfenced)
	require.ErrorContains(t, unfenced, RiskFlag)
	require.NoError(t, o.Fenceable(s3))
	o.Unfenced = true
	require.NoError(t, o.Fenceable(files))
	f, err := o.fenceOf(layout{dir: "/x"}, files)
	require.NoError(t, err)
	require.Nil(t, f)
	if _, err := landlockABI(); err != nil {
		t.Skipf("this kernel has no Landlock (%v): what a fence lets through is not proven here", err)
	}
	o.MaxABI = 0 // with a fence there is no risk
	f, err = o.fenceOf(layout{dir: "/x"}, files)
	require.NoError(t, err)
	require.Subset(t, f.Read, []string{"/usr", "/etc", "/opt/java", "/opt/trino"})
	require.Equal(t, []string{"/x", "/dev/null", files.Prefix[len("file://") : len(files.Prefix)-1]}, f.Write)
	for _, prefix := range []string{"file:///", files.Prefix + "missing/"} {
		_, err := o.fenceOf(layout{dir: "/x"}, Storage{Prefix: prefix})
		require.Error(t, err, "the root of the host is no workspace's")
	}
	f, err = o.fenceOf(layout{dir: "/x"}, s3)
	require.NoError(t, err)
	require.Nil(t, f, "what is in S3 is fenced by Trino's own mapping")
}
