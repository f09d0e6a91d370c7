package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

const (
	// orphanGrace is how long the backends of a killed PostgreSQL may take to exit by themselves.
	orphanGrace = time.Second
	// answerGrace is how long a PostgreSQL that reports itself ready may refuse to answer.
	answerGrace = 10 * time.Second
	// socketGrace is answerGrace for a PostgreSQL without a socket.
	socketGrace = time.Second
	// contention is how long a start is retried while another PostgreSQL holds the directory.
	contention = 15 * time.Second
)

var (
	errStopping = errors.New("PostgreSQL is shutting down")
	errPassword = errors.New("PostgreSQL does not accept its stored password")
	errSilent   = errors.New("PostgreSQL runs but does not answer")
)

// adopt returns the running process once it is ready; nil when there is none. It waits for a
// stopping process to exit, and stops one that does not answer.
func (c *cluster) adopt(ctx context.Context) (*process, string, error) {
	p, err := findPostmaster(c.data)
	if err != nil || p == nil {
		return nil, "", err
	}
	c.log.Info("PostgreSQL is running already", "pid", p.pid)
	if c.password == "" {
		_, err := p.stop(ctx)
		return nil, "", err
	}
	version, err := c.ready(ctx, p)
	switch {
	case err == nil:
		return p, version, nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case errors.Is(err, errPassword):
		return nil, "", err
	case errors.Is(err, errStopping):
		select {
		case <-p.exited:
			return nil, "", nil
		case <-ctx.Done():
			return nil, "", ctx.Err()
		}
	}
	c.log.Warn("restarting the running PostgreSQL", "pid", p.pid, "error", err)
	stop, cancel := context.WithTimeout(ctx, answerGrace)
	defer cancel()
	_, err = p.stop(stop)
	return nil, "", err
}

// launch starts PostgreSQL and waits until it answers. If another PostgreSQL holds the directory,
// it waits for that to exit or adopts it.
func (c *cluster) launch(ctx context.Context, b binaries) (*process, string, error) {
	deadline := time.Now().Add(contention)
	for {
		if err := c.clear(ctx); err != nil {
			return nil, "", err
		}
		began := time.Now()
		p, version, err := c.attempt(ctx, b)
		if err == nil || ctx.Err() != nil {
			return p, version, err
		}
		said := c.lastLines(began)
		held := strings.Contains(said, "is still in use") || strings.Contains(said, "already exists")
		if !held || time.Now().After(deadline) {
			return nil, "", fmt.Errorf("start PostgreSQL %s in %s: %w: %s", b.version, c.data, err, said)
		}
		if err := pause(ctx, 250*time.Millisecond); err != nil {
			return nil, "", err
		}
		if p, version, err := c.adopt(ctx); err != nil || p != nil {
			return p, version, err
		}
	}
}

func (c *cluster) attempt(ctx context.Context, b binaries) (*process, string, error) {
	p, err := c.spawn(b)
	if err != nil {
		return nil, "", err
	}
	version, err := c.ready(ctx, p)
	if err == nil {
		return p, version, nil
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerGrace)
	defer cancel()
	_, stopErr := p.stop(stop)
	return nil, "", errors.Join(err, stopErr)
}

// spawn starts the postmaster. Its output goes to a file: a pipe would break when this process
// ends.
func (c *cluster) spawn(b binaries) (*process, error) {
	out, err := os.OpenFile(c.startLog(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(b.postgres(), "-D", c.data)
	cmd.Dir = c.data
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = c.account.attr()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return childProcess(cmd), nil
}

// ready waits until the process answers, and returns its version.
func (c *cluster) ready(ctx context.Context, p *process) (string, error) {
	slow := time.AfterFunc(5*time.Second, func() {
		c.log.Info("PostgreSQL is still starting; after a crash it recovers first", "pid", p.pid)
	})
	defer slow.Stop()
	var claimed time.Time
	wait := 5 * time.Millisecond
	for {
		switch c.status(p) {
		case "stopping":
			return "", errStopping
		case "ready":
			if claimed.IsZero() {
				claimed = time.Now()
			}
			version, err := query(ctx, c.dsn("postgres"), "SHOW server_version")
			if err == nil {
				version, _, _ = strings.Cut(version, " ")
				return version, nil
			}
			if pq.As(err, pqerror.InvalidPassword) != nil {
				return "", fmt.Errorf("%w; remove the file %s to have a new one set", errPassword, c.passwordFile())
			}
			if silent := time.Since(claimed); silent > answerGrace || silent > socketGrace && errors.Is(err, fs.ErrNotExist) {
				return "", fmt.Errorf("%w: %w", errSilent, err)
			}
		}
		select {
		case <-p.exited:
			return "", fmt.Errorf("it ended (%s)", p.end())
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(wait):
		}
		wait = min(wait*5/4, 100*time.Millisecond)
	}
}

// status is the state in the pid file: starting, ready, stopping or "".
func (c *cluster) status(p *process) string {
	f, err := readPidFile(c.data)
	if err != nil || f.pid != p.pid {
		return ""
	}
	return f.status
}

// clear prepares the directory for a start. It ends the processes of a killed PostgreSQL, and
// removes a pid file that names another program's process. It leaves a living PostgreSQL alone.
func (c *cluster) clear(ctx context.Context) error {
	began := time.Now()
	for {
		if f, err := readPidFile(c.data); err == nil && worksIn(f.pid, c.data) {
			return nil
		}
		left, err := orphans(c.data)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return dropStale(c.data, c.socket.path)
		}
		if waited := time.Since(began); waited > orphanGrace {
			sig := syscall.SIGQUIT
			if waited > 5*orphanGrace {
				sig = syscall.SIGKILL
			}
			c.log.Warn("ending processes of a killed PostgreSQL", "pids", left, "signal", sig)
			for _, pid := range left {
				if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("end a process of a killed PostgreSQL: %w", err)
				}
			}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *cluster) startLog() string { return filepath.Join(c.dir, "postgres.log") }

// lastLines returns the last lines that PostgreSQL has written since then, for an error message.
func (c *cluster) lastLines(since time.Time) string {
	names := []string{c.startLog()}
	collected, err := filepath.Glob(globQuote(c.data) + "/log/postgres-*.log")
	if err == nil && len(collected) > 0 {
		names = append(names, slices.MaxFunc(collected, func(x, y string) int { return modified(x).Compare(modified(y)) }))
	}
	var lines []string
	for _, name := range names {
		// File times are coarser than the clock.
		if modified(name).After(since.Add(-time.Second)) {
			lines = append(lines, tail(name)...)
		}
	}
	return strings.Join(lines, "; ")
}

func modified(name string) time.Time {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func tail(name string) []string {
	const enough = 4096
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	text := make([]byte, min(enough, info.Size()))
	n, err := f.ReadAt(text, info.Size()-int64(len(text)))
	if err != nil && n == 0 {
		return nil
	}
	lines := strings.FieldsFunc(string(text[:n]), func(r rune) bool { return r == '\n' })
	return lines[max(0, len(lines)-5):]
}

// query runs one statement on a new connection and returns the first column of its row, if any.
func query(ctx context.Context, dsn, statement string) (value string, err error) {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, statement).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
