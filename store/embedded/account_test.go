package embedded

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func getsid(pid int) (int, error) {
	sid, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sid), nil
}

func TestRootRunsPostgresAsAnotherUser(t *testing.T) {
	needRoot(t)
	dir := dataDir(t)
	s := startIn(t, dir)
	a, err := systemAccount()
	require.NoError(t, err)
	for _, path := range []string{fmt.Sprintf("/proc/%d", s.running.pid), dir + "/postgres", dir + "/postgres.socket/.s.PGSQL.5432"} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		uid, gid := owners(info)
		require.Equal(t, []int{a.uid, a.gid}, []int{uid, gid}, path)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.running.pid))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Groups:\s*$`, string(status), "none of root's groups")
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.running.pid))
	require.NoError(t, err)
	require.NotContains(t, string(environ), "HOME=", "nothing of the server's environment")
}

func TestAnotherUserOfTheMachineIsRefused(t *testing.T) {
	needRoot(t)
	dir := usedDir(t)
	s := startIn(t, dir)
	try := func(dsn string) string {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{roleEnv + "=client", subjectEnv + "=" + dsn}
		asUser(t, stranger, stranger)(cmd)
		out, err := cmd.Output()
		require.Error(t, err)
		return string(out)
	}
	require.Contains(t, try(s.DSN("postgres")), "permission denied", "even with the password, the socket cannot be reached")

	require.NoError(t, os.Chmod(dir, 0o755))
	require.Contains(t, try(s.DSN("postgres")), "permission denied", "nor with the data directory open to all")

	require.NoError(t, os.Chmod(dir+"/postgres.socket", 0o755))
	require.Contains(t, try(s.DSN("postgres")), "permission denied", "nor with the socket's directory open to all")

	require.NoError(t, os.Chmod(dir+"/postgres.socket/.s.PGSQL.5432", 0o777))
	u, err := url.Parse(s.DSN("postgres"))
	require.NoError(t, err)
	u.User = url.UserPassword("postgres", "guess")
	require.Contains(t, try(u.String()), "password authentication failed", "nor with all of it open, without the password")

	cmd := exec.Command("cat", filepath.Join(dir, "postgres.password"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, strings.ToLower(string(out)), "permission denied")
}

func TestAClosedParentDirectoryIsNamed(t *testing.T) {
	needRoot(t)
	closed := dataDir(t)
	dir := filepath.Join(closed, "deep", "data")
	_, err := Start(t.Context(), Options{Dir: dir})
	require.ErrorContains(t, err, "may not enter "+closed+" (mode 0700) on the way to the data directory "+dir)
	require.ErrorContains(t, err, "chmod o+x "+closed)
	require.NoDirExists(t, filepath.Join(dir, "postgres"))
}

func TestAnUnprivilegedServer(t *testing.T) {
	needRoot(t)
	dir := dataDir(t)
	nobody := account{name: "nobody", uid: 65534, gid: 65534, switched: true}
	require.NoError(t, nobody.own(dir))
	as := asUser(t, nobody.uid, nobody.gid)
	o := startOwner(t, dir, as)
	run(t, o.dsn, "CREATE TABLE kept AS SELECT 1 AS x")
	o.kill(t)

	again := startOwner(t, dir, as)
	require.Equal(t, o.pid, again.pid, "it adopts as it does under root")
	require.NoError(t, again.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-again.exited)

	s := startIn(t, dir) // as root: the cluster keeps its owner
	info, err := os.Stat(fmt.Sprintf("/proc/%d", s.running.pid))
	require.NoError(t, err)
	uid, _ := owners(info)
	require.Equal(t, nobody.uid, uid)
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
	closeServer(t, s)

	// The reverse: a cluster that belongs to another user.
	theirs := usedDir(t)
	closeServer(t, startIn(t, theirs))
	require.NoError(t, os.Chmod(theirs, 0o777))
	refused := spawnOwner(t, theirs, as)
	require.Contains(t, refused.line(t), "failed: the database in "+theirs+"/postgres belongs to the user postgres; "+
		"start the server as that user or as root")
}
