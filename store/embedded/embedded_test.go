package embedded

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestStartMakesAPrivateCluster(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := dataDir(t)
	var progress strings.Builder
	s, err := Start(t.Context(), Options{Dir: dir, Stdout: &progress})
	require.NoError(t, err)
	defer closeServer(t, s)

	dsn := s.DSN("postgres")
	require.Equal(t, "Creating the database in "+dir+"/postgres …\n", progress.String())
	require.Equal(t, s.Version(), strings.Fields(run(t, dsn, "SHOW server_version"))[0])
	require.Empty(t, run(t, dsn, "SHOW listen_addresses"))
	require.Equal(t, "UTF8", run(t, dsn, "SHOW server_encoding"))
	require.Equal(t, "C", run(t, dsn, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'"))
	require.Equal(t, "on", run(t, dsn, "SHOW fsync"))
	require.Equal(t, "on", run(t, dsn, "SHOW data_checksums"))
	require.Equal(t, "100", run(t, dsn, "SHOW max_connections"))
	require.Equal(t, "0", run(t, dsn, "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"))
	require.Equal(t, "0", run(t, dsn, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'scram-sha-256'"))

	require.Equal(t, os.FileMode(0o700), mode(t, dir, "postgres"))
	require.Equal(t, os.FileMode(0o700), mode(t, dir, "postgres.socket"))
	require.Equal(t, os.FileMode(0o600), mode(t, dir, "postgres.password"))
	require.Zero(t, mode(t, dir, "")&0o007)

	session, err := getsid(s.running.pid)
	require.NoError(t, err)
	require.Equal(t, s.running.pid, session, "PostgreSQL leads a session of its own")
}

func mode(t *testing.T, dir, name string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(filepath.Join(dir, name))
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestEnsureDatabase(t *testing.T) {
	s := startIn(t, usedDir(t))
	for range 2 {
		require.NoError(t, s.EnsureDatabase(t.Context(), `odd "name"`))
	}
	require.Equal(t, `odd "name"`, run(t, s.DSN(`odd "name"`), "SELECT current_database()"))
}

func TestCloseStopsCleanlyAndStartFindsTheDataAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := usedDir(t)
	s := startIn(t, dir)
	run(t, s.DSN("postgres"), "CREATE TABLE kept AS SELECT 1 AS x")
	pid, dsn := s.running.pid, s.DSN("postgres")
	select {
	case <-s.Done():
		require.Fail(t, "Done is closed while PostgreSQL runs")
	default:
	}
	closeServer(t, s)
	require.False(t, alive(pid))
	require.ErrorContains(t, s.Restart(t.Context()), "has been closed")

	s = startIn(t, dir)
	require.Equal(t, dsn, s.DSN("postgres"))
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
	require.NotContains(t, s.cluster.lastLines(time.Time{}), "recover")
	closeServer(t, s)
	closeServer(t, s)
}

func TestCloseEndsAtOnceWhenItsContextEnds(t *testing.T) {
	dir := usedDir(t)
	s := startIn(t, dir)
	run(t, s.DSN("postgres"), "CREATE TABLE kept AS SELECT 1 AS x")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, s.Close(ended))
	require.False(t, alive(s.running.pid))
	s = startIn(t, dir)
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"), "what was committed survives")
}

func TestStartThatIsGivenUpLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := usedDir(t)
	closeServer(t, startIn(t, dir))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{Dir: dir, Volatile: true})
	require.ErrorIs(t, err, context.Canceled)
	left, err := orphans(filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestPostgresOutlivesAKilledServerAndIsAdopted(t *testing.T) {
	defer goleak.VerifyNone(t)
	dir := usedDir(t)
	o := startOwner(t, dir)
	run(t, o.dsn, "CREATE TABLE kept AS SELECT 1 AS x")
	o.kill(t)

	release, err := Lock(dir)
	require.NoError(t, err, "the lock went with the killed server")
	defer func() { require.NoError(t, release()) }()
	require.True(t, alive(o.pid))
	s := startIn(t, dir)
	require.Equal(t, o.pid, s.running.pid)
	require.Equal(t, o.dsn, s.DSN("postgres"))
	require.NotEmpty(t, s.Version())
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))

	require.NoError(t, syscall.Kill(o.pid, syscall.SIGKILL))
	wait(t, s.Done(), "the death of an adopted PostgreSQL is noticed")
	require.NoError(t, s.Restart(t.Context()))
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
	closeServer(t, s)
}

func TestAPostgresOnItsWayDownIsWaitedFor(t *testing.T) {
	dir := usedDir(t)
	o := startOwner(t, dir)
	db := open(t, o.dsn)
	_, err := db.ExecContext(t.Context(), "SELECT 1") // a client blocks a smart shutdown
	require.NoError(t, err)
	o.kill(t)
	require.NoError(t, syscall.Kill(o.pid, syscall.SIGTERM))
	require.Eventually(t, func() bool {
		f, err := readPidFile(filepath.Join(dir, "postgres"))
		return err == nil && f.status == "stopping"
	}, time.Minute, 5*time.Millisecond)
	came := make(chan error, 1)
	var s *Server
	go func() {
		var err error
		s, err = Start(t.Context(), Options{Dir: dir, Volatile: true})
		came <- err
	}()
	require.NoError(t, db.Close()) // ends the old one; Start must succeed before and after
	require.NoError(t, <-came)
	require.NotEqual(t, o.pid, s.running.pid)
	closeServer(t, s)
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := usedDir(t)
	o := startOwner(t, dir)
	_, err := Lock(dir)
	require.EqualError(t, err, "the data directory "+dir+" is in use by another millpond server (pid "+
		strconv.Itoa(o.cmd.Process.Pid)+"); stop it or choose another --data-dir")

	second := spawnOwner(t, dir)
	require.Contains(t, second.line(t), "refused: the data directory "+dir+" is in use by another millpond server")
	require.Error(t, <-second.exited)
	require.True(t, alive(o.pid))
	require.NoError(t, o.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-o.exited)
}

func TestServerStopsPostgresOnSIGTERM(t *testing.T) {
	dir := usedDir(t)
	o := startOwner(t, dir)
	require.NoError(t, o.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "closed", o.line(t))
	require.NoError(t, <-o.exited)
	require.False(t, alive(o.pid))
}

func TestCtrlCReachesTheServerAlone(t *testing.T) {
	dir := usedDir(t)
	o := startOwner(t, dir)
	group, err := syscall.Getpgid(o.pid)
	require.NoError(t, err)
	require.NotEqual(t, o.cmd.Process.Pid, group, "PostgreSQL is not in the terminal's group")
	require.NoError(t, syscall.Kill(-o.cmd.Process.Pid, syscall.SIGINT), "as a terminal does, to the whole group")
	require.Equal(t, "closed", o.line(t), "the owner checks that PostgreSQL was still there")
	require.NoError(t, <-o.exited)
	require.False(t, alive(o.pid))
}

func TestRestartAfterThePostmasterIsKilled(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := startIn(t, usedDir(t))
	dsn := s.DSN("postgres")
	run(t, dsn, "CREATE TABLE kept AS SELECT 1 AS x")

	busy := open(t, dsn)
	conn, err := busy.Conn(t.Context())
	require.NoError(t, err)
	var backend int
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	failed := make(chan error, 1)
	go func() {
		// A busy backend does not notice that its postmaster is gone.
		_, err := conn.ExecContext(context.Background(), "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$")
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return run(t, dsn, "SELECT state FROM pg_stat_activity WHERE pid = "+strconv.Itoa(backend)) == "active"
	}, time.Minute, 10*time.Millisecond)

	require.NoError(t, syscall.Kill(s.running.pid, syscall.SIGKILL))
	wait(t, s.Done(), "Done")
	require.True(t, alive(backend), "the backend keeps the directory from being used")
	require.NoError(t, s.Restart(t.Context()))
	require.Error(t, <-failed)
	require.Equal(t, "1", run(t, dsn, "SELECT x FROM kept"))
	select {
	case <-s.Done():
		require.Fail(t, "Done is a new channel after Restart")
	default:
	}
	require.NoError(t, busy.Close())
	closeServer(t, s)
}

func TestStalePidFile(t *testing.T) {
	dir := usedDir(t)
	closeServer(t, startIn(t, dir))
	a, err := accountFor(filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	reused := exec.Command("sleep", "600")
	reused.SysProcAttr = a.attr()
	reused.Dir = "/"
	require.NoError(t, reused.Start())
	t.Cleanup(func() {
		require.NoError(t, reused.Process.Kill())
		_ = reused.Wait() // it was killed
	})
	dead := exec.Command("true")
	require.NoError(t, dead.Run())

	for name, pid := range map[string]int{"of another process": reused.Process.Pid, "of no process": dead.Process.Pid, "of this process": os.Getpid()} {
		t.Run(name, func(t *testing.T) {
			stale := strconv.Itoa(pid) + "\n" + dir + "/postgres\n1700000000\n5432\n" + dir + "/postgres.socket\n\n  123456 123\nready   \n"
			file := filepath.Join(dir, "postgres", "postmaster.pid")
			require.NoError(t, os.WriteFile(file, []byte(stale), 0o600))
			require.NoError(t, a.own(file))
			s, err := Start(t.Context(), Options{Dir: dir, Volatile: true})
			require.NoError(t, err)
			require.NotEqual(t, pid, s.running.pid)
			closeServer(t, s)
		})
	}
}

func TestInitialisationThatWasKilledIsDoneAgain(t *testing.T) {
	dir := dataDir(t)
	o := spawnOwner(t, dir)
	var half []string
	require.Eventually(t, func() bool {
		half, _ = filepath.Glob(dir + "/postgres.init-*/data/base/1/*")
		return len(half) > 0
	}, time.Minute, time.Millisecond)
	o.kill(t)
	require.NoDirExists(t, filepath.Join(dir, "postgres"))

	s := startIn(t, dir)
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT 1"))
	left, err := filepath.Glob(dir + "/postgres.init-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestForeignFilesAreLeftAlone(t *testing.T) {
	dir := dataDir(t)
	mine := filepath.Join(dir, "postgres", "mine.txt")
	require.NoError(t, os.Mkdir(filepath.Dir(mine), 0o700))
	a, err := systemAccount()
	if os.Geteuid() == 0 {
		require.NoError(t, err)
		require.NoError(t, a.own(filepath.Dir(mine)))
	}
	require.NoError(t, os.WriteFile(mine, []byte("mine"), 0o600))
	_, err = Start(t.Context(), Options{Dir: dir})
	require.EqualError(t, err, dir+"/postgres holds files but no PostgreSQL cluster; move it away or restore it from a backup")
	require.FileExists(t, mine)
}

func TestALostPasswordIsReplaced(t *testing.T) {
	for name, running := range map[string]bool{"stopped": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			dir := usedDir(t)
			o := startOwner(t, dir)
			run(t, o.dsn, "CREATE TABLE kept AS SELECT 1 AS x")
			if running {
				o.kill(t)
			} else {
				require.NoError(t, o.cmd.Process.Signal(syscall.SIGTERM))
				require.NoError(t, <-o.exited)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "postgres.password")))
			s := startIn(t, dir)
			require.NotEqual(t, o.dsn, s.DSN("postgres"))
			require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
			require.Equal(t, os.FileMode(0o600), mode(t, dir, "postgres.password"))
		})
	}
}

func TestAWrongPasswordIsSaid(t *testing.T) {
	for name, running := range map[string]bool{"stopped": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			dir := usedDir(t)
			s := startIn(t, dir)
			if !running {
				closeServer(t, s)
			}
			file := filepath.Join(dir, "postgres.password")
			require.NoError(t, os.WriteFile(file, []byte("guess\n"), 0o600))
			_, err := Start(t.Context(), Options{Dir: dir, Volatile: true})
			require.ErrorContains(t, err, "does not accept its stored password; remove the file "+file)
			require.Equal(t, running, alive(s.running.pid))
		})
	}
}

func TestADirectoryTooLongForASocket(t *testing.T) {
	dir := filepath.Join(dataDir(t), strings.Repeat("long/", 25), "it's, \"odd\" [x]*")
	o := startOwner(t, makeParents(t, dir))
	run(t, o.dsn, "CREATE TABLE kept AS SELECT 1 AS x")
	o.kill(t)

	s := startIn(t, dir)
	require.Equal(t, o.pid, s.running.pid)
	require.Equal(t, o.dsn, s.DSN("postgres"), "the short directory is remembered")
	short := s.cluster.socket.path
	require.LessOrEqual(t, len(short), socketPathMax)
	require.Equal(t, os.FileMode(0o700), mode(t, short, ""))

	require.NoError(t, os.RemoveAll(short), "as a cleaner of temporary files does")
	s, err := Start(t.Context(), Options{Dir: dir, Volatile: true})
	require.NoError(t, err)
	require.NotEqual(t, short, s.cluster.socket.path)
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
	closeServer(t, s)
	require.NoDirExists(t, s.cluster.socket.path)
}

// TestACopyHasASocketOfItsOwn: the link in a copy names the original's socket.
func TestACopyHasASocketOfItsOwn(t *testing.T) {
	base := filepath.Join(dataDir(t), strings.Repeat("long/", 25))
	original := startIn(t, makeParents(t, filepath.Join(base, "original")))
	copied := makeParents(t, filepath.Join(base, "copied"))
	require.NoError(t, os.Symlink(original.cluster.socket.path, filepath.Join(copied, "postgres.socket")))
	s := startIn(t, copied)
	require.NotEqual(t, original.cluster.socket.path, s.cluster.socket.path)
	closeServer(t, s)
	require.Equal(t, "1", run(t, original.DSN("postgres"), "SELECT 1"))
}

func makeParents(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		require.NoError(t, os.Chmod(at, 0o755))
	}
	return dir
}

func wait(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, what)
	}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
