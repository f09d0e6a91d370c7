package objects

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// TestWhoKnowsAPathOfAnotherWorkspaceIsKeptOut: every viewer sees the paths of tables, and may pass
// them to any task.
func TestWhoKnowsAPathOfAnotherWorkspaceIsKeptOut(t *testing.T) {
	_, l := shared(t)
	table := l.Prefix("ws_1") + "db/tbl"
	require.NoError(t, l.MakeDirs(t.Context(), table+"/data/", table+"/metadata/"))
	require.NoError(t, l.Write(t.Context(), table+"/metadata/file", []byte("secret")))
	out, err := as(firstUser, "ws_1", "cd "+pathOf(table)+"/data && mkdir p=1 && echo secret > p=1/file && chmod 777 p=1 && chmod 666 p=1/file")
	require.NoError(t, err, out)
	own, dir := pathOf(l.Prefix("ws_1")), pathOf(table)
	for _, command := range []string{
		"ls " + own, "ls " + dir, "cd " + dir, "cat " + dir + "/metadata/file", "cat " + dir + "/data/p=1/file", "ls " + dir + "/data/p=1", "stat " + dir + "/data/p=1/file",
		"echo x > " + own + "x", "echo x > " + dir + "/data/x", "echo x >> " + dir + "/data/p=1/file", "rm " + dir + "/data/p=1/file", "mkdir " + dir + "/x", "mv " + dir + " " + dir + "2",
		"ln " + dir + "/data/p=1/file /tmp/x", "chmod 777 " + own, "chgrp " + "61192 " + own,
	} {
		out, err := as(anotherUser, "ws_2", command)
		require.Error(t, err, "%s: %s", command, out)
		require.Regexp(t, "Permission denied|can't cd|Operation not permitted", out, command)
		require.NotContains(t, out, "secret")
	}
	b, err := l.Read(t.Context(), table+"/data/p=1/file")
	require.NoError(t, err)
	require.Equal(t, "secret\n", string(b))
	out, err = as(firstUser, "ws_2", "ls "+own)
	require.Error(t, err, "the user that a task of the workspace had: %s", out)
}

// Like PyIceberg, Arrow and DuckDB: nested directories, a file that is renamed to its final name,
// and rewrites.
func TestAllOfAWorkspaceUseWhatWritersMake(t *testing.T) {
	_, l := shared(t)
	table := l.Prefix("ws_1") + "db/tbl"
	require.NoError(t, l.MakeDirs(t.Context(), table+"/data/", table+"/metadata/"))
	dir := pathOf(table)
	for _, step := range []struct {
		user    uint32
		command string
	}{
		{firstUser, "mkdir -p " + dir + "/data/day=1/hour=2 && cd " + dir + "/data/day=1/hour=2 && echo rows > .f.tmp && mv .f.tmp f.parquet"},
		{firstUser, "cd " + dir + "/metadata && echo {} > .v.tmp && mv .v.tmp v1.json"},
		{secondUser, "cat " + dir + "/data/day=1/hour=2/f.parquet " + dir + "/metadata/v1.json && cd " + dir + "/data/day=1/hour=2 && echo more > g.tmp && mv g.tmp g.parquet"},
		{secondUser, "cd " + dir + "/data && mv day=1 day=2 && echo added >> day=2/hour=2/f.parquet && rm day=2/hour=2/g.parquet && mkdir day=2/hour=3"},
		{firstUser, "cat " + dir + "/data/day=2/hour=2/f.parquet && echo x > " + dir + "/data/day=2/hour=3/h.parquet"},
	} {
		out, err := as(step.user, "ws_1", step.command)
		require.NoError(t, err, "%d: %s: %s", step.user, step.command, out)
	}
	b, err := l.Read(t.Context(), table+"/data/day=2/hour=2/f.parquet")
	require.NoError(t, err)
	require.Equal(t, "rows\nadded\n", string(b))
	requireFenced(t, pathOf(l.Prefix("ws_1")), "ws_1")
}

// requireFenced checks that all in a workspace's directory belongs to the group, and is closed to
// others.
func requireFenced(t *testing.T, dir string, ws domain.WorkspaceID) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, ws.FileGroup(), info.Sys().(*syscall.Stat_t).Gid, path)
		want := fs.FileMode(0o660)
		if e.IsDir() {
			want = 0o770 | fs.ModeSetgid
		}
		require.Equal(t, want, info.Mode()&^fs.ModeDir, path)
		return nil
	}))
}

// open restores a directory's state of an earlier version: open to everyone who knows its name.
func open(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		require.NoError(t, os.Chown(path, -1, 0))
		if !e.IsDir() {
			return os.Chmod(path, 0o666)
		}
		require.NoError(t, unix.Setxattr(path, aclDefault, list(0o777), 0))
		return os.Chmod(path, 0o777)
	}))
}

func TestDirectoriesThatWereEverybodysAreClosed(t *testing.T) {
	dir, l := shared(t)
	own := pathOf(l.Prefix("ws_1"))
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/metadata/file", []byte("x")))
	out, err := as(firstUser, "ws_1", "mkdir -p "+own+"db/tbl/data/p=1 && echo x > "+own+"db/tbl/data/p=1/file && ln -s "+dir+"-other/file "+own+"link")
	require.NoError(t, err, out)
	other := dir + "-other"
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.WriteFile(other+"/file", nil, 0o600))
	require.NoError(t, os.Link(other+"/file", own+"named-twice"))
	require.NoError(t, os.Mkdir(dir+"/lost+found", 0o700))
	require.NoError(t, l.Close())
	open(t, own)
	require.NoError(t, os.Chmod(other+"/file", 0o600))
	out, err = as(anotherUser, "ws_2", "cat "+own+"db/tbl/data/p=1/file")
	require.NoError(t, err, "this test is of no use: %s", out)

	reopened(t, dir)
	info, err := os.Stat(other + "/file")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode(), "what has a name elsewhere, or is elsewhere, is not given away")
	require.Zero(t, info.Sys().(*syscall.Stat_t).Gid)
	info, err = os.Stat(dir + "/lost+found")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm(), "what is no workspace's stays as it is")
	require.NoError(t, os.Remove(own+"named-twice"))
	requireFenced(t, own, "ws_1")
	out, err = as(anotherUser, "ws_2", "cat "+own+"db/tbl/data/p=1/file")
	require.Error(t, err, out)
	out, err = as(secondUser, "ws_1", "cd "+own+"db/tbl/data/p=1 && cat file && mkdir q=1")
	require.NoError(t, err, out)
	out, err = as(firstUser, "ws_1", "echo x > "+own+"db/tbl/data/p=1/q=1/file")
	require.NoError(t, err, out)
}

// TestAClosingThatWasCutOffIsDoneAgain: after a killed server the directory stays closed until the
// next one has finished.
func TestAClosingThatWasCutOffIsDoneAgain(t *testing.T) {
	dir, l := shared(t)
	own := pathOf(l.Prefix("ws_1"))
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/metadata/file", []byte("x")))
	require.NoError(t, l.Close())
	open(t, own)
	require.NoError(t, os.Chown(own, 0, int(domain.WorkspaceID("ws_1").FileGroup())))
	require.NoError(t, os.Chmod(own, 0o700))
	reopened(t, dir)
	requireFenced(t, own, "ws_1")
}

// namespaceEnv makes this test binary open the named storage in a user namespace without the groups
// of workspaces.
const namespaceEnv = "MILLPOND_TEST_NAMESPACE"

// TestWithoutGroupsTheNameIsAllThatKeepsOthersOut, as in a container with few mapped ids. Once
// groups are available again, all is closed.
func TestWithoutGroupsTheNameIsAllThatKeepsOthersOut(t *testing.T) {
	if inside := os.Getenv(namespaceEnv); inside != "" {
		var reported []string
		l, err := OpenLake(t.Context(), "file://"+inside, LakeOptions{Shared: true, Report: func(err error) { reported = append(reported, err.Error()) }})
		require.NoError(t, err)
		require.Len(t, reported, 1)
		require.Contains(t, reported[0], "no groups of their own")
		require.NoError(t, l.Write(t.Context(), l.Prefix("ws_2")+"db/tbl/file", []byte("x")))
		require.NoError(t, l.Close())
		return
	}
	dir, l := shared(t)
	own := pathOf(l.Prefix("ws_1"))
	require.NoError(t, l.Write(t.Context(), l.Prefix("ws_1")+"db/tbl/file", []byte("x")))
	require.NoError(t, l.Close())
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"="+dir)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), t.Name()) {
		t.Skip("this machine gives no user namespaces: ", err)
	}
	require.NoError(t, err, "%s", out)
	for _, ws := range []domain.WorkspaceID{"ws_1", "ws_2"} {
		said, err := as(anotherUser, "ws_3", "cat "+pathOf(l.Prefix(ws))+"db/tbl/file && mkdir "+pathOf(l.Prefix(ws))+"db/tbl/p=1")
		require.NoError(t, err, said)
	}
	now := reopened(t, dir)
	for _, ws := range []domain.WorkspaceID{"ws_1", "ws_2"} {
		require.Equal(t, l.Prefix(ws), now.Prefix(ws))
		requireFenced(t, pathOf(now.Prefix(ws)), ws)
	}
	said, err := as(anotherUser, "ws_3", "cat "+own+"db/tbl/file")
	require.Error(t, err, said)
}
