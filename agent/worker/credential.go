package worker

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/tunnel"
)

// credential is this agent's token for the control plane. A machine starts with a bootstrap token,
// which it exchanges once for its own token. Only one goroutine at a time may use it.
type credential struct {
	server string
	tls    *tls.Config
	log    *slog.Logger

	file      string // of the agent's token; "" if the token was given directly
	bootstrap string // file of the bootstrap token; "" for none

	token   string             // as last given, read or received
	unsaved bool               // token is not written to file yet
	refused string             // the bootstrap token that the control plane last refused …
	because *tunnel.FinalError // … and its reason
}

func newCredential(o Options) (*credential, error) {
	if o.BootstrapFile != "" && o.TokenFile == "" {
		return nil, errors.New("the agent has no file for the token that it gets for its bootstrap token: name one with --token-file")
	}
	c := &credential{server: o.Server, tls: o.TLS, log: o.Log, file: o.TokenFile, bootstrap: o.BootstrapFile}
	if c.file == "" {
		c.token = o.Token
	}
	return c, nil
}

// current returns the token to connect with. If there is a bootstrap token, which is always newer,
// it exchanges that first. A *tunnel.FinalError means that no retry can yield a token.
func (c *credential) current(ctx context.Context) (string, error) {
	if c.unsaved {
		c.save()
	}
	for {
		boot, err := readSecret(c.bootstrap)
		if err != nil {
			return c.without(err)
		}
		if boot == "" || boot == c.refused {
			return c.known()
		}
		err = c.enroll(ctx, boot)
		final, ok := errors.AsType[*tunnel.FinalError](err)
		if !ok || !unaccepted(final) {
			return c.token, err
		}
		// The answer to an earlier exchange may be lost, or a new bootstrap token may have arrived.
		c.refused, c.because = boot, final
		c.log.Warn("the bootstrap token was refused", "file", c.bootstrap, "error", err)
	}
}

// without returns the agent's own token if the bootstrap token cannot be read.
func (c *credential) without(err error) (string, error) {
	err = fmt.Errorf("reading the bootstrap token: %w", err)
	token, none := c.known()
	if none != nil {
		return "", err
	}
	c.log.Warn("the agent continues with its present token", "error", err)
	return token, nil
}

func unaccepted(e *tunnel.FinalError) bool {
	return e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
}

// known returns the agent's own token. A token that was read stays valid if its file disappears.
func (c *credential) known() (string, error) {
	read, err := readSecret(c.file)
	if read != "" && !c.unsaved {
		c.token = read
	}
	switch {
	case c.token != "":
		return c.token, nil
	case errors.Is(err, fs.ErrPermission):
		return "", final("The agent's token cannot be read: %v. Let this user read the file.", err)
	case err != nil:
		return "", fmt.Errorf("reading the agent's token: %w", err)
	case c.because != nil:
		return "", c.because
	case c.bootstrap != "":
		return "", final("There is neither a token in %s nor a bootstrap token in %s. Write a new bootstrap token there and start the agent again.", c.file, c.bootstrap)
	case c.file != "":
		return "", final("There is no token in %s. Make one on the workspace's page of agents, write it there and start the agent again.", c.file)
	}
	return "", final("The agent has no token. Make one on the workspace's page of agents and start the agent with it.")
}

// renewed reports whether a new bootstrap token exists after the agent's token was refused.
func (c *credential) renewed(err error) bool {
	refusal, ok := errors.AsType[*tunnel.FinalError](err)
	if !ok || !unaccepted(refusal) {
		return false
	}
	boot, err := readSecret(c.bootstrap)
	return err == nil && boot != "" && boot != c.refused
}

// proven records that the control plane accepted the token. It then removes a bootstrap token that
// was refused earlier, because this token was issued for it.
func (c *credential) proven() {
	if c.refused != "" && !c.unsaved {
		c.spend(c.refused)
	}
}

const enrollTimeout = 30 * time.Second

// enroll exchanges a bootstrap token for the agent's own token. It stores the token before it
// removes the bootstrap token. It creates the file before the request: if that fails, the bootstrap
// token stays unused.
func (c *credential) enroll(ctx context.Context, boot string) error {
	next, err := os.OpenFile(c.next(), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("making the file of the agent's token: %w", err)
	}
	next.Close()
	e, err := c.exchange(ctx, boot)
	if err != nil {
		return errors.Join(err, removeIfThere(c.next()))
	}
	c.token, c.unsaved, c.refused, c.because = e.Token, true, "", nil
	c.log.Info("enrolled with the bootstrap token", "server", c.server, "agent", e.AgentID)
	if c.save() {
		c.spend(boot)
	} else {
		c.refused = boot // it was used: another exchange would fail
	}
	return nil
}

// save writes the token to its file. If that fails, the agent uses the token and retries at the
// next connection.
func (c *credential) save() bool {
	err := writeSecret(c.file, c.next(), c.token)
	if err != nil {
		c.log.Error("the agent's token could not be stored, so the agent cannot be restarted; the next connection retries", "error", err)
	}
	c.unsaved = err != nil
	return err == nil
}

func (c *credential) next() string { return c.file + ".next" }

// spend removes a used bootstrap token, unless a new one has replaced it.
func (c *credential) spend(boot string) {
	now, err := readSecret(c.bootstrap)
	if err == nil && now == boot {
		err = removeIfThere(c.bootstrap)
	}
	if err != nil {
		c.log.Warn("the used bootstrap token could not be removed", "error", err)
		return
	}
	c.refused = ""
}

// exchange requests the agent's own token from the control plane.
func (c *credential) exchange(ctx context.Context, boot string) (e agent.Enrollment, err error) {
	address, err := url.Parse(c.server)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return e, final("%q is not the address of a control plane; give an http or https URL.", c.server)
	}
	address.Path = strings.TrimSuffix(address.Path, "/") + agent.EnrollPath
	ctx, cancel := context.WithTimeout(ctx, enrollTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), nil)
	if err != nil {
		return e, err
	}
	r.Header.Set("Authorization", "Bearer "+boot)
	client := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.tls.Clone(), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(r)
	if err != nil {
		return e, fmt.Errorf("enrolling at %s: %w", c.server, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return e, c.notEnrolled(res)
	}
	err = json.NewDecoder(io.LimitReader(res.Body, answerLimit)).Decode(&e)
	if err == nil && e.Token == "" {
		err = errors.New("it has no token")
	}
	if err != nil {
		return e, fmt.Errorf("enrolling at %s: reading the answer: %w", c.server, err)
	}
	return e, nil
}

const answerLimit = 64 << 10

// notEnrolled turns a refusal into an error that a person can act on.
func (c *credential) notEnrolled(res *http.Response) error {
	said := reasonOf(res)
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &tunnel.FinalError{Status: res.StatusCode, Message: fmt.Sprintf(
			"The control plane at %s does not accept this machine's bootstrap token (%s). It works once and for a short time: start the machine again, or write a new one to %s and start the agent again.", c.server, said, c.bootstrap)}
	case http.StatusUpgradeRequired:
		return &tunnel.FinalError{Status: res.StatusCode, Message: fmt.Sprintf("The control plane at %s does not support this version of the agent (%s). Install the version it names.", c.server, said)}
	}
	return fmt.Errorf("enrolling at %s: answered %d: %s", c.server, res.StatusCode, said)
}

func final(format string, args ...any) *tunnel.FinalError {
	return &tunnel.FinalError{Message: fmt.Sprintf(format, args...)}
}

// readSecret reads a file with one secret; "" if the file is empty or missing.
func readSecret(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// writeSecret replaces a file atomically and durably.
func writeSecret(path, next, secret string) error {
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, removeIfThere(next))
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
