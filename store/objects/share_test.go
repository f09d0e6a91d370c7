package objects

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// Users other than this test's: two tasks of one workspace, and one of another.
const (
	firstUser   = 61190
	secondUser  = 61191
	anotherUser = 61192
)

// shared opens a storage in a directory that every user can pass through. As root it must work, and
// is not skipped.
func shared(t *testing.T) (dir string, l *Lake) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has other users work in its directories")
	}
	base, err := os.MkdirTemp("", "lake-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chmod(base, 0o711))
	dir = filepath.Join(base, "lake")
	return dir, reopened(t, dir)
}

func reopened(t *testing.T, dir string) *Lake {
	t.Helper()
	l, err := OpenLake(t.Context(), "file://"+dir, LakeOptions{Shared: true, Report: func(err error) { t.Error(err) }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// as runs a shell command as the user with the workspace's group, like tasks and engines, with a
// umask that excludes others.
func as(user uint32, ws domain.WorkspaceID, command string) (string, error) {
	cmd := exec.Command("/bin/sh", "-c", "umask 077; "+command)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{ws.FileGroup()}}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func pathOf(uri string) string { return strings.TrimPrefix(uri, "file://") }

func TestUsersOfAWorkspaceWorkInEachOthersDirectories(t *testing.T) {
	_, l := shared(t)
	table := l.Prefix("ws_1") + "db_1/tbl_1"
	require.NoError(t, l.MakeDirs(t.Context(), table+"/data/", table+"/metadata/"))
	data := pathOf(table) + "/data"
	for _, step := range []struct {
		user    uint32
		command string
	}{
		{firstUser, "mkdir -p " + data + "/year=2007/month=1 && echo one > " + data + "/year=2007/month=1/a"},
		{secondUser, "echo two > " + data + "/year=2007/month=1/b && mkdir " + data + "/year=2007/month=2 && cat " + data + "/year=2007/month=1/a"},
		{firstUser, "echo three > " + data + "/year=2007/month=2/c && cat " + data + "/year=2007/month=1/b && rm " + data + "/year=2007/month=1/b"},
	} {
		out, err := as(step.user, "ws_1", step.command)
		require.NoError(t, err, "%d: %s: %s", step.user, step.command, out)
	}
	// The server can read and remove users' files. Users can read the server's files and add to its
	// directories.
	b, err := l.Read(t.Context(), table+"/data/year=2007/month=2/c")
	require.NoError(t, err)
	require.Equal(t, "three\n", string(b))
	require.NoError(t, l.Delete(t.Context(), table+"/data/year=2007/month=2/c"))
	require.NoError(t, l.Write(t.Context(), table+"/metadata/new/00001.metadata.json", []byte("{}")))
	out, err := as(firstUser, "ws_1", "cat "+pathOf(table)+"/metadata/new/00001.metadata.json && echo x > "+pathOf(table)+"/metadata/new/m0.avro")
	require.NoError(t, err, out)
	require.NoError(t, l.Delete(t.Context(), table+"/data/year=2007/month=1/a"))
	require.NoError(t, l.RemoveDirs(t.Context(), table+"/data/"))
	require.NoDirExists(t, data)
}

func TestUsersOfAnotherWorkspaceFindNothing(t *testing.T) {
	dir, l := shared(t)
	for _, ws := range []domain.WorkspaceID{"ws_1", "ws_2"} {
		require.NoError(t, l.Write(t.Context(), l.Prefix(ws)+"db/tbl/metadata/file", []byte("secret of "+ws)))
	}
	own, other := pathOf(l.Prefix("ws_2")), pathOf(l.Prefix("ws_1"))
	out, err := as(anotherUser, "ws_2", "cat "+own+"db/tbl/metadata/file")
	require.NoError(t, err, out)
	suffix := own[len(dir)+len("/ws_2"):]
	for _, guess := range []string{
		"ls " + dir, "ls " + dir + "/ws_1*", "cat " + dir + "/*/db/tbl/metadata/file", "cat " + dir + "/ws_1/db/tbl/metadata/file", "cat " + dir + "/ws_1" + suffix + "db/tbl/metadata/file",
		"cat " + own + "../ws_1*/db/tbl/metadata/file", "cat " + dir + "/.names", "find " + dir + " -name file | grep .", "mkdir " + dir + "/ws_3", "mv " + own + " " + dir + "/ws_3",
		"rmdir " + other[:len(other)-3],
	} {
		out, err := as(anotherUser, "ws_2", guess)
		require.Error(t, err, "%s: %s", guess, out)
		require.NotContains(t, out, "secret of ws_1")
	}
	require.Regexp(t, `^file:///[a-zA-Z0-9_/.-]+/lake/ws_1-[0-9a-f]{32}/$`, l.Prefix("ws_1"), "no character of it needs a code")
	require.NotEqual(t, strings.TrimPrefix(l.Prefix("ws_1"), "ws_1"), strings.TrimPrefix(l.Prefix("ws_2"), "ws_2"))
}

func TestWhatANeighbourPlacesLeadsTheServerNowhere(t *testing.T) {
	dir, l := shared(t)
	table := l.Prefix("ws_2") + "db/tbl/"
	require.NoError(t, l.MakeDirs(t.Context(), table))
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/file", []byte("secret")))
	out, err := as(anotherUser, "ws_2", "cd "+pathOf(table)+" && ln -s "+dir+"/.names names && ln -s "+pathOf(l.Prefix("ws_1"))+" other && ln -s /etc etc")
	require.NoError(t, err, out)
	for _, name := range []string{"names", "other/db/tbl/file", "etc/passwd"} {
		_, err := l.Read(t.Context(), table+name)
		require.Error(t, err, name)
	}
	require.Error(t, l.Write(t.Context(), table+"other/db/tbl/new", []byte("x")))
	require.Error(t, l.MakeDirs(t.Context(), table+"etc/millpond/"))
	require.NoError(t, l.Close())
	reopened(t, dir)
}

// A copy, such as a backup, may have lost modes and access control lists.
func TestACopyIsSharedAsTheOriginalWas(t *testing.T) {
	dir, l := shared(t)
	table := l.Prefix("ws_1") + "db/tbl"
	require.NoError(t, l.Write(t.Context(), table+"/metadata/file", []byte("x")))
	require.NoError(t, os.Symlink("/etc/passwd", pathOf(table)+"/metadata/link"))
	require.NoError(t, l.Close())
	copied := dir + "-copy"
	out, err := exec.Command("/bin/sh", "-c", "umask 077; cp -rP "+dir+" "+copied).CombinedOutput()
	require.NoError(t, err, "%s", out)
	now := reopened(t, copied)
	require.Equal(t, strings.Replace(l.Prefix("ws_1"), dir, copied, 1), now.Prefix("ws_1"))
	metadata := pathOf(now.Prefix("ws_1")) + "db/tbl/metadata"
	said, err := as(firstUser, "ws_1", "cd "+metadata+" && cat file && mkdir p=1")
	require.NoError(t, err, said)
	said, err = as(secondUser, "ws_1", "echo x > "+metadata+"/p=1/file")
	require.NoError(t, err, said)
	info, err := os.Stat("/etc/passwd")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
}

func TestADirectoryThatWasNotSharedStaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lake")
	l, err := OpenLake(t.Context(), "file://"+dir, LakeOptions{})
	require.NoError(t, err)
	require.Equal(t, "file://"+dir+"/ws_1/", l.Prefix("ws_1"))
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/file", nil))
	require.NoError(t, l.Close())
	for _, p := range []string{dir, dir + "/ws_1", dir + "/ws_1/db/tbl"} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm(), p)
	}
	_, err = OpenLake(t.Context(), "file://"+dir, LakeOptions{Shared: true})
	require.ErrorContains(t, err, "run the server as that user")
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestTheNamesOfWorkspacesAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lake")
	open := func() (*Lake, error) { return OpenLake(context.Background(), "file://"+dir, LakeOptions{Shared: true}) }
	// Several servers that start on an empty directory agree on the key.
	var starts sync.WaitGroup
	prefixes := make([]string, 8)
	for i := range prefixes {
		starts.Go(func() {
			l, err := open()
			if err == nil {
				prefixes[i] = l.Prefix("ws_1")
				err = errors.Join(l.Write(context.Background(), l.Prefix("ws_1")+"db/tbl/"+string(rune('a'+i)), nil), l.Close())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	for _, p := range prefixes {
		require.Equal(t, prefixes[0], p)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the key and one directory")
	key := filepath.Join(dir, ".names")
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	// A directory with an unknown key is not used with other names.
	was, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, was[:10], 0o600))
	_, err = open()
	require.ErrorContains(t, err, "restore it")
	require.NoError(t, os.Remove(key))
	_, err = open()
	require.ErrorContains(t, err, "restore the file")
	require.NoFileExists(t, key)
	require.NoError(t, os.WriteFile(key, was, 0o600))
	l, err := open()
	require.NoError(t, err)
	require.Equal(t, prefixes[0], l.Prefix("ws_1"))
	require.NoError(t, l.Close())
}

// A file system without access control lists is reported, and still works.
func TestAFileSystemWithoutListsIsReported(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount one")
	}
	dir := filepath.Join(t.TempDir(), "mounted")
	require.NoError(t, os.Mkdir(dir, 0o755))
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skip("nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	var reported []error
	l, err := OpenLake(t.Context(), "file://"+dir+"/lake", LakeOptions{Shared: true, Report: func(err error) { reported = append(reported, err) }})
	require.NoError(t, err)
	require.Len(t, reported, 1)
	require.ErrorContains(t, reported[0], "access control lists")
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/file", []byte("x")))
	require.NoError(t, l.Close())
}
