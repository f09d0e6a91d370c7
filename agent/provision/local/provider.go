// Package local creates machines that are agent processes on the server's own host. Each has its
// own directory, session and, if available, control group. The state of a machine is on disk and in
// /proc, so another server on the same directory finds it.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// Options configure a Provider.
type Options struct {
	Dir        string // directory of the machines; created if missing
	Binary     string // the millpond binary that machines run; empty means the running binary, even after its file was replaced
	Version    string // of the binary, for people
	Log        *slog.Logger
	LogFormat  string       // of the agents: text or json; empty means text
	EnginesDir string       // where engines are installed, for the agents of warehouses
	Trino      func() error // returns nil if Trino is installed there, else an error that says what to do; nil means not installed
	// TrinoUnfenced lets warehouses run Trino on tables that are files even if the kernel has no
	// Landlock.
	TrinoUnfenced bool
	// Gone is called for a machine when its process ended without Release or another Ensure. It is
	// a hint, and may be nil. A goroutine of the provider calls it; it must not wait for Close.
	Gone func(machine.Ref)
}

// Provider creates machines on this host. It implements machine.Provider.
type Provider struct {
	options   Options
	log       *slog.Logger
	dir       string // absolute, without symbolic links: what /proc shows
	directory string // its id
	host      host
	images    *images
	records   records
	groups    *cgroups
	locks     machineLocks

	watching sync.WaitGroup
	mu       sync.Mutex
	closed   bool
	watches  map[domain.MachineID]*watch
	exits    map[domain.MachineID]exit
}

var _ machine.Provider = (*Provider)(nil)

const checkTime = 10 * time.Second

// New opens the directory of machines, and watches the machines that run in it.
func New(o Options) (*Provider, error) {
	return open(o, readHost(), findCgroups())
}

func open(o Options, h host, groups *cgroups) (*Provider, error) {
	if o.Dir == "" {
		return nil, errors.New("the local provider needs a directory for its machines")
	}
	o.Version, o.LogFormat = cmp.Or(o.Version, "dev"), cmp.Or(o.LogFormat, "text")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("making the directory of machines: %w", err)
	}
	p := &Provider{
		options: o, log: o.Log, dir: dir, host: h, groups: groups,
		images:  &images{dir: filepath.Join(dir, imagesDir), source: cmp.Or(o.Binary, "/proc/self/exe"), version: o.Version},
		watches: map[domain.MachineID]*watch{}, exits: map[domain.MachineID]exit{},
	}
	if err := p.identify(); err != nil {
		return nil, fmt.Errorf("identifying the directory of machines: %w", err)
	}
	if err := p.tidy(); err != nil {
		return nil, err
	}
	p.log.Info("machines can be made on this host", "cores", h.cores, "memory", h.memory, "gpus", len(h.gpus), "limits", cmp.Or(groups.unenforced(), "enforced"))
	if err := p.adopt(); err != nil {
		return nil, err
	}
	return p, nil
}

// identify determines the id of the directory. A copy of a directory has none of its machines.
func (p *Provider) identify() error {
	d, was, err := agent.FindDirectory(p.dir, "")
	if err != nil {
		return err
	}
	if news := d.News(was); news != "" {
		p.log.Warn(news)
	}
	p.directory = d.ID
	return d.Keep(was)
}

// passable is the mode of the parents of a task's working directory. Under a root server tasks run
// as other users, who may traverse these directories but not read them.
func passable() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// makePassable creates a directory of mode passable, whatever the umask.
func makePassable(dir string) error {
	if err := os.MkdirAll(dir, passable()); err != nil {
		return err
	}
	return os.Chmod(dir, passable())
}

func makeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := makePassable(dir); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// tidy removes the temporary files of checks and images that a crash left behind.
func (p *Provider) tidy() error {
	for _, pattern := range []string{filepath.Join(p.dir, tempPrefix+"*"), filepath.Join(p.dir, imagesDir, tempPrefix+"*")} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range left {
			if info, err := os.Lstat(path); err != nil || time.Since(info.ModTime()) < time.Hour { // another server may be using it
				continue
			}
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// adopt watches the machines that an earlier server left running, even if it had no time to record
// their processes. A machine with a broken record is logged and skipped.
func (p *Provider) adopt() error {
	all, err := p.machineDirs()
	if err != nil {
		return err
	}
	for _, m := range all {
		r, err := m.read()
		if m.unmade(err) {
			continue
		}
		if err != nil {
			p.log.Error("the record of a machine cannot be read, so it is not watched", "machine", m.id, "error", err)
			continue
		}
		if err := p.completeRecord(m, &r); err != nil {
			p.log.Error("the process of a machine's agent is unknown, so the machine is not watched", "machine", m.id, "error", err)
			continue
		}
		if r.Process.alive() {
			p.log.Info("adopted a machine", "machine", m.id, "incarnation", r.Process.Incarnation, "pid", r.Process.Pid)
			p.watch(r.processRef(), r.Process)
		}
	}
	return nil
}

// Close stops watching. The machines continue for the next Provider on the directory.
func (p *Provider) Close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.watches {
		w.stop()
	}
	p.mu.Unlock()
	p.watching.Wait()
}

// Check implements machine.Provider. It checks that the directory is writable and that the binary
// runs.
func (p *Provider) Check(ctx context.Context, s machine.ProviderSettings) error {
	if err := checkSettings(s); err != nil {
		return err
	}
	probe, err := os.MkdirTemp(p.dir, tempPrefix)
	if err != nil {
		return domain.Errorf(domain.CodeInvalid, "The server cannot make a directory in %s: %v. Give it the right to write there.", p.dir, plain(err))
	}
	defer func() { _ = os.RemoveAll(probe) }()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.images.source, "version")
	cmd.Dir, cmd.Env, cmd.WaitDelay = probe, environment(nil), time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return domain.Errorf(domain.CodeInvalid, "The binary %s, which machines run, does not start: %v. %s", p.images.source, err, lastLine(out))
	}
	return nil
}

func checkSettings(s machine.ProviderSettings) error {
	switch {
	case s.Kind != machine.ProviderLocal:
		return domain.Invalid("kind", "The provider is %q; only local exists so far.", s.Kind)
	case s.Region != "" && s.Region != string(machine.ProviderLocal):
		return domain.Invalid("region", "The region is %q; the local provider has only the region local.", s.Region)
	case s.Role != "":
		return domain.Invalid("role", "The local provider takes no role; leave it empty.")
	case s.ExternalID != "":
		return domain.Invalid("external_id", "The local provider takes no external id; leave it empty.")
	}
	return nil
}

// plain removes the path from an error of the file system, because the message around it has the
// path.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Resolve implements machine.Provider. An image is a binary of this server, stored under its
// checksum.
func (p *Provider) Resolve(_ context.Context, s machine.ProviderSettings, image string) (string, error) {
	if err := checkSettings(s); err != nil {
		return "", err
	}
	return p.images.resolve(image)
}

// Alive implements machine.Provider. The detail has the exit status, if known, and the last line of
// the agent's log.
func (p *Provider) Alive(_ context.Context, ref machine.Ref) (bool, string, error) {
	m, err := p.machineDir(ref.Machine)
	if err != nil {
		return false, "", err
	}
	r, err := m.read()
	if errors.Is(err, fs.ErrNotExist) {
		return false, "Nothing was made for it on this host.", nil
	}
	if err != nil {
		return false, "", err
	}
	if err := p.completeRecord(m, &r); err != nil {
		return false, "", err
	}
	switch {
	case !r.Process.alive():
		return false, p.describeEnd(m, r), nil
	case r.Process.Incarnation != ref.Incarnation:
		return false, fmt.Sprintf("Incarnation %d runs on this host, not %d.", r.Process.Incarnation, ref.Incarnation), nil
	}
	return true, "", nil
}

// describeEnd says what is known about the end of a machine's process.
func (p *Provider) describeEnd(m machineDir, r record) string {
	if r.Released {
		return "It was released."
	}
	said := "The machine's process no longer exists."
	p.mu.Lock()
	if e, ok := p.exits[m.id]; ok && e.process == r.Process {
		said = "The machine's process ended: " + e.status + "."
	}
	p.mu.Unlock()
	log, err := m.log(tailForDetail)
	if line := lastLine(log); err == nil && line != "" {
		said += " Its log ends with: " + line
	}
	return said
}

// Machines implements machine.Provider. For a machine with a lost record, only the id is known.
func (p *Provider) Machines(context.Context) ([]machine.Ref, error) {
	all, err := p.machineDirs()
	if err != nil {
		return nil, err
	}
	refs := make([]machine.Ref, 0, len(all))
	for _, m := range all {
		r, err := m.read()
		if err != nil {
			r.Ref = machine.Ref{Machine: m.id}
		}
		refs = append(refs, r.Ref)
	}
	return refs, nil
}

// Log implements machine.Provider. The log begins at the start of a line. It is empty for an
// unknown machine.
func (p *Provider) Log(_ context.Context, ref machine.Ref, limit int) ([]byte, error) {
	m, err := p.machineDir(ref.Machine)
	if err != nil {
		return nil, err
	}
	return m.log(limit)
}
