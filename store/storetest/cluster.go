package storetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/store/embedded"
)

// generation is raised when the initialisation of new clusters changes.
const generation = "1"

// cluster is the private, throw-away server of a test binary.
type cluster struct {
	dir      string
	watchdog *watchdog

	mu     sync.Mutex
	server *embedded.Server
}

func startCluster(ctx context.Context) (_ server, err error) {
	dir, err := os.MkdirTemp(temp(), "millpond-test-")
	if err != nil {
		return nil, err
	}
	w, err := watch(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &cluster{dir: dir, watchdog: w}
	if err := c.begin(ctx); err != nil {
		return nil, errors.Join(err, w.dismiss(), os.RemoveAll(dir))
	}
	return c, nil
}

// begin starts the cluster from the cached one, which it creates first if it is missing.
func (c *cluster) begin(ctx context.Context) error {
	installation, err := embedded.Find(ctx)
	if err != nil {
		return err
	}
	cached, err := cachedCluster(installation)
	if err != nil {
		return err
	}
	if _, err := os.Stat(cached); err != nil {
		if err := initialise(ctx, c.dir, cached); err != nil {
			return err
		}
	} else if err := copyTree(ctx, cached+"/.", c.dir); err != nil {
		return err
	}
	c.server, err = embedded.Start(ctx, options(c.dir))
	return err
}

func options(dir string) embedded.Options {
	return embedded.Options{Dir: dir, Volatile: true, MaxConnections: 300, Stdout: os.Stderr}
}

// initialise creates a new cluster in dir and stores a copy of it for the next test binary.
func initialise(ctx context.Context, dir, cached string) error {
	o := options(dir)
	o.Stdout = io.Discard
	s, err := embedded.Start(ctx, o)
	if err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cached), 0o700); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(cached), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(half)
	for _, name := range []string{"postgres", "postgres.password"} {
		if err := copyTree(ctx, filepath.Join(dir, name), half); err != nil {
			return err
		}
	}
	err = os.Rename(half, cached)
	if errors.Is(err, os.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil // another test binary was faster
	}
	return err
}

// cachedCluster returns the directory of a ready-made cluster for this installation and user. Only
// this user can read its password.
func cachedCluster(installation embedded.Installation) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory for a ready-made test cluster; set HOME or XDG_CACHE_HOME: %w", err)
	}
	sum := sha256.Sum256([]byte(generation + "\n" + installation.Dir + "\n" + installation.Version + "\n" + installation.User))
	return filepath.Join(cache, "millpond", "storetest", installation.Version+"-"+hex.EncodeToString(sum[:6])), nil
}

func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the ready-made test cluster: %w: %s", err, out)
	}
	return nil
}

// temp returns the directory for clusters: TMPDIR if it is set, else memory if there is plenty,
// else /tmp. On ext4 a disk from which files were just removed creates a new database's hundreds of
// files ten times slower. The path is short enough for a socket, so every DSN stays the same over a
// restart.
func temp() string {
	const memory, plenty = "/dev/shm", 4 << 30
	dir := os.Getenv("TMPDIR")
	var fs unix.Statfs_t
	switch {
	case dir != "" && len(dir) < 50:
		return dir
	case dir == "" && unix.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= plenty:
		return memory
	}
	return "/tmp"
}

func (c *cluster) dsn(database string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.DSN(database)
}

func (c *cluster) restart(ctx context.Context, kill bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kill {
		pid, err := c.postmaster()
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		<-c.server.Done()
		return c.server.Restart(ctx)
	}
	if err := c.server.Close(ended()); err != nil {
		return err
	}
	s, err := embedded.Start(ctx, options(c.dir))
	if err != nil {
		return err
	}
	c.server = s
	return nil
}

func (c *cluster) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(strings.TrimSpace(first))
}

func (c *cluster) stop(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.server.Close(ended()), c.watchdog.dismiss(), os.RemoveAll(c.dir))
}

// ended returns a cancelled context: a throw-away cluster needs no checkpoint.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
