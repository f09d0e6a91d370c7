package embedded

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// oldest is the first major version that Millpond runs on.
const oldest = 15

// binaries is a PostgreSQL installation that the cluster's account can run.
type binaries struct {
	dir          string // holds initdb and postgres
	version      string
	major, minor int
}

func (b binaries) initdb() string   { return filepath.Join(b.dir, "initdb") }
func (b binaries) postgres() string { return filepath.Join(b.dir, "postgres") }

// finder looks for installations. Its zero value searches this machine's usual directories, and
// fetches an installation if there is no usable one.
type finder struct {
	installed func(ctx context.Context) []string // directories that may hold binaries
	cache     string                             // where fetched installations are stored
	npm       string                             // the command that fetches
}

// find returns the newest usable installation of the major version, or of any supported version if
// major is 0. It fetches one when the machine has none.
func (f finder) find(ctx context.Context, major int, a account, log *slog.Logger, out io.Writer) (binaries, error) {
	look := f.installed
	if look == nil {
		look = installed
	}
	var usable []binaries
	var others []string
	for _, dir := range unique(look(ctx)) {
		b, err := probe(ctx, dir, a)
		if ctx.Err() != nil {
			return binaries{}, ctx.Err()
		}
		if err != nil {
			log.Debug("this PostgreSQL will not do", "dir", dir, "error", err)
			continue
		}
		if b.major < oldest || (major != 0 && b.major != major) {
			others = append(others, b.version)
			continue
		}
		usable = append(usable, b)
	}
	if len(usable) > 0 {
		return slices.MaxFunc(usable, func(x, y binaries) int {
			return cmp.Or(cmp.Compare(x.major, y.major), cmp.Compare(x.minor, y.minor))
		}), nil
	}
	if major != 0 && major != fetchedMajor {
		return binaries{}, wrongMajor(major, others)
	}
	return f.fetch(ctx, a, log, out)
}

func wrongMajor(major int, others []string) error {
	have := "none"
	if len(others) > 0 {
		have = strings.Join(others, ", ")
	}
	return fmt.Errorf("the database was made by PostgreSQL %d, which is not installed (found: %s), and no other version can read it; "+
		"install PostgreSQL %d, for example the package postgresql-%d; nothing was changed", major, have, major, major)
}

// installed lists the directories where systems keep PostgreSQL, whether they exist or not.
func installed(ctx context.Context) []string {
	var dirs []string
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ask, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // PGDG on Fedora, RHEL
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil { // only a malformed pattern fails
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

func unique(dirs []string) []string {
	var real []string
	for _, dir := range dirs {
		path, err := filepath.EvalSymlinks(dir)
		if err != nil || slices.Contains(real, path) {
			continue
		}
		real = append(real, path)
	}
	return real
}

// probe runs both programs as the account, to prove that it can.
func probe(ctx context.Context, dir string, a account) (binaries, error) {
	b := binaries{dir: dir}
	for _, program := range []string{b.initdb(), b.postgres()} {
		if _, err := os.Stat(program); err != nil {
			return b, err
		}
		said, err := tool(ctx, a, nil, program, "--version")
		if err != nil {
			return b, err
		}
		b.version = said
	}
	return b.parse()
}

// parse reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
func (b binaries) parse() (binaries, error) {
	said := b.version
	_, rest, ok := strings.Cut(said, "(PostgreSQL) ")
	if !ok {
		return b, fmt.Errorf("%s says it is %q", b.postgres(), said)
	}
	b.version, _, _ = strings.Cut(rest, " ")
	major, minor, _ := strings.Cut(b.version, ".")
	var err error
	if b.major, err = strconv.Atoi(major); err != nil {
		return b, fmt.Errorf("%s is not a released version: %q", b.postgres(), said)
	}
	if b.minor, err = strconv.Atoi(minor); err != nil {
		return b, fmt.Errorf("%s is not a released version: %q", b.postgres(), said)
	}
	return b, nil
}

// tool runs one of PostgreSQL's programs to its end as the account. It returns the output, or an
// error that contains it.
func tool(ctx context.Context, a account, stdin io.Reader, name string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.SysProcAttr = a.attr()
	dieWithParent(cmd.SysProcAttr)
	cmd.WaitDelay = 5 * time.Second
	// The child's death is tied to this thread's, so the thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(name), err, oneLine(stderr.String()+" "+stdout.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// environment is the environment of PostgreSQL. It contains no settings or secrets of the server,
// and no variable that selects another cluster or language.
func environment() []string {
	env := []string{"LC_ALL=C", "TZ=UTC"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
