// Package storetest gives tests a real PostgreSQL: one throw-away cluster per test binary, and a
// fresh database per test, cloned from one that was migrated once.
//
// A package that uses it declares
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
// The cluster is private (see store/embedded) and starts with the first test that asks for a
// database. MILLPOND_TEST_DATABASE_URL names another server to use instead, as its superuser. Roles
// belong to the cluster, not to a database: migrations must expect to find theirs.
package storetest

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// serverEnv names a server to use instead of a private one.
const serverEnv = "MILLPOND_TEST_DATABASE_URL"

// clusterTime bounds how long a test waits for the cluster.
const clusterTime = 2 * time.Minute

// shared is the cluster of this test binary, which all its tests share.
var shared binary

// binary is the state that the tests of one binary share.
type binary struct {
	mu        sync.Mutex
	main      bool
	server    server
	failed    error // why there is no server; every test that needs one fails with it
	templates map[uintptr]string
	made      int
}

// server is a PostgreSQL on which databases are created.
type server interface {
	dsn(database string) string
	restart(ctx context.Context, kill bool) error
	stop(ctx context.Context) error
}

// Main runs the tests, stops the cluster that they started, if any, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a package with its own cleanup: it returns the exit code.
func Run(m *testing.M) int {
	shared.mu.Lock()
	shared.main = true
	shared.mu.Unlock()
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test cluster:", err)
		code = max(code, 1)
	}
	return code
}

// Database returns the DSN of a fresh database for t, as the cluster's superuser. It is a clone of
// a database that migrate has migrated; nil means an empty database. Each migrate function runs
// once per test binary. It is identified by its code, so it must not depend on captured variables.
// The database is dropped when t ends, with its open connections. Without PostgreSQL, t fails.
func Database(t testing.TB, migrate func(ctx context.Context, dsn string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTime)
	defer cancel()
	s, name, err := shared.clone(ctx, migrate)
	if err != nil {
		t.Fatalf("a database for the test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), clusterTime)
		defer cancel()
		if err := drop(ctx, s, name); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return s.dsn(name)
}

// Restart stops the cluster without a checkpoint and starts it again. Databases and DSNs stay,
// connections break. All tests of the binary share the cluster, so a test that calls Restart must
// not run in parallel with others.
func Restart(t testing.TB) {
	t.Helper()
	restart(t, false)
}

// Kill kills the postmaster with SIGKILL and starts the cluster again, as Restart does.
func Kill(t testing.TB) {
	t.Helper()
	restart(t, true)
}

func restart(t testing.TB, kill bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterTime)
	defer cancel()
	s, err := shared.get(ctx)
	if err == nil {
		err = s.restart(ctx, kill)
	}
	if err != nil {
		t.Fatalf("restart the test cluster: %v", err)
	}
}

// IgnoreCluster returns the options that make goleak ignore the goroutines that watch the cluster.
// They outlive a test.
func IgnoreCluster() []goleak.Option {
	const embedded = "github.com/millpond/millpond/store/embedded."
	return []goleak.Option{
		goleak.IgnoreAnyFunction(embedded + "(*process).reap"),
		goleak.IgnoreAnyFunction(embedded + "(*Server).watch"),
	}
}

// get returns the server, and starts it at the first call. A failed start is not retried.
func (b *binary) get(ctx context.Context) (server, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.start(ctx)
}

func (b *binary) start(ctx context.Context) (server, error) {
	if !b.main {
		return nil, fmt.Errorf("this test binary does not stop what it starts; add to the package: " +
			"func TestMain(m *testing.M) { storetest.Main(m) }")
	}
	if b.server != nil || b.failed != nil {
		return b.server, b.failed
	}
	if url := os.Getenv(serverEnv); url != "" {
		b.server, b.failed = useExternal(ctx, url)
	} else {
		b.server, b.failed = startCluster(ctx)
	}
	b.templates = map[uintptr]string{}
	return b.server, b.failed
}

// clone creates a database. The lock prevents two tests from migrating the same template.
func (b *binary) clone(ctx context.Context, migrate func(context.Context, string) error) (server, string, error) {
	b.mu.Lock()
	s, err := b.start(ctx)
	if err != nil {
		b.mu.Unlock()
		return nil, "", err
	}
	template, err := b.template(ctx, migrate)
	b.made++
	name := fmt.Sprintf("%s_%d", prefix(), b.made)
	b.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	return s, name, create(ctx, s, name, template)
}

// template returns the migrated database to clone from. The caller holds the lock.
func (b *binary) template(ctx context.Context, migrate func(context.Context, string) error) (string, error) {
	if migrate == nil {
		return "template0", nil
	}
	code := reflect.ValueOf(migrate).Pointer()
	if name, ok := b.templates[code]; ok {
		return name, nil
	}
	name := fmt.Sprintf("%s_template_%d", prefix(), len(b.templates)+1)
	if err := makeTemplate(ctx, b.server, name, migrate); err != nil {
		return "", err
	}
	b.templates[code] = name
	return name, nil
}

func (b *binary) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTime)
	defer cancel()
	return b.server.stop(ctx)
}

func prefix() string { return fmt.Sprintf("millpond_test_%d", os.Getpid()) }
