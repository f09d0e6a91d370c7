package storetest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// victimEnv marks a second run of this binary, started by a test.
const victimEnv = "MILLPOND_STORETEST_VICTIM"

func TestMain(m *testing.M) { Main(m) }

// migrated counts the runs of migrate.
var migrated atomic.Int32

func migrate(ctx context.Context, dsn string) error {
	migrated.Add(1)
	return exec1(ctx, dsn, "CREATE TABLE thing (id bigint PRIMARY KEY, name text UNIQUE)")
}

func exec1(ctx context.Context, dsn, statement string) (err error) {
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	_, err = db.ExecContext(ctx, statement)
	return err
}

func scan(t testing.TB, dsn, query string) string {
	t.Helper()
	db, err := sql.Open("postgres", dsn)
	require.NoError(t, err)
	defer db.Close()
	var value string
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	for i := range 8 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			dsn := Database(t, migrate)
			require.NoError(t, exec1(t.Context(), dsn, "INSERT INTO thing VALUES (1, 'mine')"), "another test's row would be in the way")
		})
	}
	t.Cleanup(func() { require.Equal(t, int32(1), migrated.Load()) })
}

func TestTheDatabaseIsDroppedWithItsConnections(t *testing.T) {
	keeper := Database(t, nil)
	var name string
	var forgotten *sql.DB
	t.Run("a test that forgets a connection", func(t *testing.T) {
		dsn := Database(t, migrate)
		name = scan(t, dsn, "SELECT current_database()")
		var err error
		forgotten, err = sql.Open("postgres", dsn)
		require.NoError(t, err)
		require.NoError(t, forgotten.PingContext(t.Context()))
	})
	defer forgotten.Close()
	require.Equal(t, "0", scan(t, keeper, "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"))
}

func TestOtherMigrationsHaveATemplateOfTheirOwn(t *testing.T) {
	other := func(ctx context.Context, dsn string) error { return exec1(ctx, dsn, "CREATE TABLE other ()") }
	require.Equal(t, "0", scan(t, Database(t, other), "SELECT count(*) FROM other"))
	require.Equal(t, "0", scan(t, Database(t, migrate), "SELECT count(*) FROM thing"))
}

func TestAMigrationThatFailsLeavesNothing(t *testing.T) {
	ctx := t.Context()
	s, err := shared.get(ctx)
	require.NoError(t, err)
	before := scan(t, s.dsn(maintenance), "SELECT count(*) FROM pg_database")
	for range 2 {
		_, _, err = shared.clone(ctx, func(context.Context, string) error { return errors.New("no such luck") })
		require.ErrorContains(t, err, "migrate: no such luck")
	}
	require.Equal(t, before, scan(t, s.dsn(maintenance), "SELECT count(*) FROM pg_database"))
}

func TestRestartKeepsWhatWasCommitted(t *testing.T) {
	for name, again := range map[string]func(testing.TB){"Restart": Restart, "Kill": Kill} {
		t.Run(name, func(t *testing.T) {
			dsn := Database(t, migrate)
			db, err := sql.Open("postgres", dsn)
			require.NoError(t, err)
			defer db.Close()
			_, err = db.ExecContext(t.Context(), "INSERT INTO thing SELECT i, 'n' || i FROM generate_series(1, 1000) i")
			require.NoError(t, err)
			began := scan(t, dsn, "SELECT pg_postmaster_start_time()")
			again(t)
			require.NotEqual(t, began, scan(t, dsn, "SELECT pg_postmaster_start_time()"))
			require.Equal(t, "1000", scan(t, dsn, "SELECT count(*) FROM thing"))
		})
	}
}

func TestLeaksAreToldFromTheCluster(t *testing.T) {
	scan(t, Database(t, nil), "SELECT 1")
	goleak.VerifyNone(t, IgnoreCluster()...)
}

func TestAKilledTestLeavesNoPostgres(t *testing.T) {
	if os.Getenv(victimEnv) != "" {
		Database(t, migrate)
		c := shared.server.(*cluster)
		pid, err := c.postmaster()
		require.NoError(t, err)
		fmt.Println("victim", pid, c.dir)
		select {} // until it is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.Len(t, fields, 3, line)
	pid, err := strconv.Atoi(fields[1])
	require.NoError(t, err)
	require.False(t, gone(pid))
	require.DirExists(t, fields[2])

	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Eventually(t, func() bool {
		_, err := os.Stat(fields[2])
		return gone(pid) && errors.Is(err, os.ErrNotExist)
	}, time.Minute, 20*time.Millisecond)
}

// gone also counts a process whose new parent has not reaped it.
func gone(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(state), ") Z ")
}

func TestAServerThatIsGiven(t *testing.T) {
	if os.Getenv(victimEnv) != "" {
		Database(t, migrate)
		Restart(t)
	}
	Database(t, migrate) // so that there is a database
	s, err := shared.get(t.Context())
	require.NoError(t, err)
	dsn := s.dsn(maintenance)
	before := scan(t, dsn, "SELECT count(*) FROM pg_database")

	t.Run("serves the same tests", func(t *testing.T) {
		out, err := rerun(t, dsn, "^(TestEachTest|TestTheDatabase|TestOther)")
		require.NoError(t, err, out)
		require.Equal(t, before, scan(t, dsn, "SELECT count(*) FROM pg_database"), "nothing is left on it")
	})
	t.Run("cannot be restarted", func(t *testing.T) {
		out, err := rerun(t, dsn, "^TestAServerThatIsGiven$", victimEnv+"=1")
		require.Error(t, err)
		require.Contains(t, out, "cannot be restarted from here; unset it to run this test on a private cluster")
	})
	t.Run("fails the tests when it is not there", func(t *testing.T) {
		out, err := rerun(t, "postgres://postgres@/postgres?sslmode=disable&host="+t.TempDir(), "^TestOther")
		require.Error(t, err)
		require.Contains(t, out, "the server of MILLPOND_TEST_DATABASE_URL: ")
		require.NotContains(t, out, "SKIP")
	})
	t.Run("fails the tests when its URL is none", func(t *testing.T) {
		out, err := rerun(t, "localhost", "^TestOther")
		require.Error(t, err)
		require.Contains(t, out, "MILLPOND_TEST_DATABASE_URL must be a URL such as")
	})
}

func rerun(t *testing.T, url, pattern string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+pattern)
	cmd.Env = append(append(os.Environ(), serverEnv+"="+url), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestThePasswordOfTheCachedClusterIsThisUsersAlone(t *testing.T) {
	Database(t, nil)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	files, err := filepath.Glob(cache + "/millpond/storetest/*/postgres.password")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
}

// BenchmarkDatabase measures a clone of a schema with sixty tables, and its removal.
func BenchmarkDatabase(b *testing.B) {
	sixty := func(ctx context.Context, dsn string) error {
		return exec1(ctx, dsn, `DO $$ BEGIN FOR i IN 1..60 LOOP EXECUTE format(
			'CREATE TABLE t%s (id bigint PRIMARY KEY, a text UNIQUE, b jsonb, c timestamptz)', i); END LOOP; END $$`)
	}
	ctx := b.Context()
	s, first, err := shared.clone(ctx, sixty)
	require.NoError(b, err)
	require.NoError(b, drop(ctx, s, first))
	for b.Loop() {
		began := time.Now()
		s, name, err := shared.clone(ctx, sixty)
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/clone(last)")
		require.NoError(b, drop(ctx, s, name))
	}
}

// BenchmarkStart measures the start of a cluster from the cached one, and its end.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := startCluster(b.Context())
		require.NoError(b, err)
		require.NoError(b, s.stop(b.Context()))
	}
}
