package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cluster is the database on disk and its settings.
type cluster struct {
	dir, data string // the data directory and the cluster within it
	account   account
	socket    socketDir
	password  string // "" when the file is missing and the cluster exists
	finder    finder
	volatile  bool
	maxConns  int
	log       *slog.Logger
	out       io.Writer
}

func openCluster(o Options, f finder) (*cluster, error) {
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{
		dir: dir, data: filepath.Join(dir, "postgres"), finder: f,
		volatile: o.Volatile, maxConns: o.MaxConnections, log: o.Log, out: o.Stdout,
	}
	if c.maxConns == 0 {
		c.maxConns = 100
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.out == nil {
		c.out = io.Discard
	}
	if c.account, err = accountFor(c.data); err != nil {
		return nil, err
	}
	if err := c.account.enter(dir); err != nil {
		return nil, err
	}
	if c.socket, err = openSocketDir(dir, c.account); err != nil {
		return nil, err
	}
	c.password, err = c.readPassword()
	return c, err
}

func (c *cluster) dsn(database string) string { return socketURL(c.socket.path, c.password, database) }

// up returns the cluster's running process, ready for connections. It adopts a running one, or
// starts a new one.
func (c *cluster) up(ctx context.Context) (*process, string, error) {
	p, version, err := c.adopt(ctx)
	if err != nil || p != nil {
		return p, version, err
	}
	major, err := c.major()
	if err != nil {
		return nil, "", err
	}
	b, err := c.finder.find(ctx, major, c.account, c.log, c.out)
	if err != nil {
		return nil, "", err
	}
	if major == 0 {
		if err := c.initialise(ctx, b); err != nil {
			return nil, "", err
		}
	}
	if err := c.configure(); err != nil {
		return nil, "", err
	}
	if c.password == "" {
		if err := c.resetPassword(ctx, b); err != nil {
			return nil, "", err
		}
	}
	return c.launch(ctx, b)
}

// major returns the major version of the cluster on disk, 0 when there is none yet.
func (c *cluster) major() (int, error) {
	entries, err := os.ReadDir(c.data)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("the database directory: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s holds files but no PostgreSQL cluster; move it away or restore it from a backup", c.data)
	}
	if err != nil {
		return 0, fmt.Errorf("the database directory: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION holds %q, which is no version of PostgreSQL; restore it from a backup", c.data, text)
	}
	return major, nil
}

// initialise creates the cluster in a temporary directory and renames it when it is complete. So a
// crash never leaves a partial cluster.
func (c *cluster) initialise(ctx context.Context, b binaries) error {
	fmt.Fprintf(c.out, "Creating the database in %s …\n", c.data)
	c.log.Info("creating the database", "dir", c.data, "version", b.version, "user", c.account.name)
	if err := sweep(globQuote(c.dir) + "/postgres.init-*"); err != nil {
		return err
	}
	work, err := os.MkdirTemp(c.dir, "postgres.init-")
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	defer os.RemoveAll(work)
	secret := filepath.Join(work, "password")
	if err := os.WriteFile(secret, []byte(c.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	if err := errors.Join(c.account.own(secret), c.account.own(work)); err != nil {
		return err
	}
	fresh := filepath.Join(work, "data")
	if _, err := tool(ctx, c.account, nil, b.initdb(), c.initArgs(fresh, secret)...); err != nil {
		return fmt.Errorf("create the database in %s: %w", c.dir, err)
	}
	if err := include(fresh); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	if err := os.Rename(fresh, c.data); err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return syncDir(c.dir)
}

func (c *cluster) initArgs(dir, pwfile string) []string {
	args := []string{
		"--pgdata=" + dir, "--username=" + superuser, "--pwfile=" + pwfile,
		"--auth-local=scram-sha-256", "--auth-host=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-instructions",
	}
	if c.volatile {
		return append(args, "--no-sync", "--wal-segsize=1")
	}
	return append(args, "--data-checksums")
}

// readPassword returns the superuser's password. It creates one for a cluster that does not exist
// yet.
func (c *cluster) readPassword() (string, error) {
	text, err := os.ReadFile(c.passwordFile())
	if err == nil && len(bytes.TrimSpace(text)) > 0 {
		return string(bytes.TrimSpace(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the database's password: %w", err)
	}
	if major, err := c.major(); err != nil || major != 0 {
		return "", err
	}
	password := rand.Text()
	return password, c.writePassword(password)
}

func (c *cluster) passwordFile() string { return filepath.Join(c.dir, "postgres.password") }

func (c *cluster) writePassword(password string) error {
	if err := writeFile(c.passwordFile(), []byte(password+"\n"), 0o600); err != nil {
		return fmt.Errorf("store the database's password: %w", err)
	}
	return nil
}

// resetPassword sets a new superuser password if the password file is lost. The cluster is not
// running.
func (c *cluster) resetPassword(ctx context.Context, b binaries) error {
	c.log.Warn("the file with the database's password is missing; a new password is set", "file", c.passwordFile())
	if err := c.clear(ctx); err != nil {
		return err
	}
	password := rand.Text()
	alter := strings.NewReader("ALTER ROLE " + superuser + " PASSWORD '" + password + "'\n")
	if _, err := tool(ctx, c.account, alter, b.postgres(), "--single", "-D", c.data, "postgres"); err != nil {
		return fmt.Errorf("set a new password for the database: %w", err)
	}
	if err := c.writePassword(password); err != nil {
		return err
	}
	c.password = password
	return nil
}

// writeFile replaces a whole file: a crash leaves the old one or the new one.
func writeFile(name string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncDir(filepath.Dir(name))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// globQuote escapes the pattern characters of a directory's name.
func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
