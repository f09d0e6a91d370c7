package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// The files of a machine's directory.
const (
	recordFile    = "machine.json"
	bootstrapFile = "bootstrap"   // the single-use token, for the agent to read
	tokenFile     = "agent.token" // the agent's own token, which it writes
	logFile       = "agent.log"
	oldLogFile    = "agent.log.1"
	dataDir       = "data" // the agent's
)

const tempPrefix = ".new-"

// machineDir is the directory of one machine.
type machineDir struct {
	id        domain.MachineID
	dir       string
	directory string // id of the provider's directory
}

func (m machineDir) path(name string) string { return filepath.Join(m.dir, name) }
func (m machineDir) data() string            { return m.path(dataDir) }

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// machineDir returns the directory of a machine, which may not exist.
func (p *Provider) machineDir(id domain.MachineID) (machineDir, error) {
	if !plainName.MatchString(string(id)) || id == imagesDir {
		return machineDir{}, domain.Invalid("machine", "The machine's id %q is not a plain file name.", id)
	}
	return machineDir{id: id, dir: filepath.Join(p.dir, string(id)), directory: p.directory}, nil
}

// machineDirs returns the directories of all machines that have one.
func (p *Provider) machineDirs() ([]machineDir, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var all []machineDir
	for _, e := range entries {
		if m, err := p.machineDir(domain.MachineID(e.Name())); err == nil && e.IsDir() {
			all = append(all, m)
		}
	}
	return all, nil
}

// record is the stored state of a machine. It is written before the process starts, so that a crash
// cannot leave an unknown process.
type record struct {
	Ref        machine.Ref
	Directory  string // id of the provider's directory that it was written in; empty when an earlier version wrote it
	Flavor     string
	Cores      int
	GPUs       []int  // indexes of the GPUs that only it uses
	Image      string // immutable reference
	Args       []string
	Cgroup     string   // directory; empty without a group
	OldCgroups []string // groups in which an earlier incarnation's tasks may still run, after the server moved
	Process    process  // the zero value if no process started yet, or if a crash prevented its recording
	Released   bool     // only the log is left
}

var errBroken = errors.New("the record of a machine cannot be read")

// processRef names the incarnation that runs. It may be older than the incarnation of the record.
func (r record) processRef() machine.Ref {
	ref := r.Ref
	ref.Incarnation = r.Process.Incarnation
	return ref
}

func (m machineDir) read() (record, error) {
	var r record
	b, err := os.ReadFile(m.path(recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("%w: %s: %w", errBroken, m.path(recordFile), err)
	}
	if r.Directory != "" && r.Directory != m.directory { // this directory is a copy: the machine is in the original
		return record{Ref: r.Ref, Released: true}, nil
	}
	return r, nil
}

// records caches records for as long as their files are unchanged.
type records struct {
	mu   sync.Mutex
	read map[domain.MachineID]readRecord
}

type readRecord struct {
	file identity
	record
}

// stableAge is the age from which another write certainly changes a file's modification time.
const stableAge = time.Second

// get returns the machine's record, which may be slightly out of date.
func (k *records) get(m machineDir) (record, error) {
	info, err := os.Stat(m.path(recordFile))
	if err != nil {
		return record{}, err
	}
	file, err := identify(info)
	if err != nil {
		return record{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.read[m.id]; ok && known.file == file {
		return known.record, nil
	}
	r, err := m.read()
	if err != nil || time.Since(info.ModTime()) < stableAge {
		return r, err
	}
	if k.read == nil {
		k.read = map[domain.MachineID]readRecord{}
	}
	k.read[m.id] = readRecord{file, r}
	return r, nil
}

func (k *records) forget(id domain.MachineID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.read, id)
}

// unmade reports whether a record is missing because the machine was never created. The data
// directory is created after the record and removed before it.
func (m machineDir) unmade(err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Lstat(m.data())
	return errors.Is(err, fs.ErrNotExist)
}

// readAny returns the record, or the zero value if the record is missing or unreadable. The
// processes of such a machine can still be ended.
func (m machineDir) readAny() (record, error) {
	r, err := m.read()
	if errors.Is(err, errBroken) || errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	return r, err
}

func (m machineDir) write(r record) error {
	r.Directory = m.directory
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(m.path(recordFile), b)
}

// replaceFile replaces a file atomically. Only this user can read it.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// A child of an agent looks like an agent until its exec. A process that still does after the pause
// is an agent.
const (
	agentPause = 20 * time.Millisecond
	agentTries = 50
)

// completeRecord fills in the process of a record if it was started but not recorded.
func (p *Provider) completeRecord(m machineDir, r *record) error {
	if r.Released || r.Process != (process{}) {
		return nil
	}
	var before []process
	for range agentTries {
		found, err := agentsOf(m.data())
		if err != nil || len(found) == 0 {
			return err
		}
		if len(found) == 1 && slices.Equal(found, before) {
			r.Process = found[0]
			r.Process.Incarnation = r.Ref.Incarnation
			return nil
		}
		before = found
		<-time.After(agentPause)
	}
	return fmt.Errorf("the processes %v all work in %s", before, m.data())
}

// openTree restores this user's rights to its own directories.
func openTree(path string) {
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // on failure the removal reports the error
		}
		return nil
	})
}
