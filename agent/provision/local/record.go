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
)

// What there is in a machine's directory.
const (
	recordFile    = "machine.json"
	bootstrapFile = "bootstrap"   // the single-use token, for the agent to read
	tokenFile     = "agent.token" // the agent's own token, which it writes
	logFile       = "agent.log"
	oldLogFile    = "agent.log.1"
	dataDir       = "data" // the agent's
)

const tempPrefix = ".new-"

// place is the directory of one machine.
type place struct {
	id  domain.MachineID
	dir string
}

func (m place) path(name string) string { return filepath.Join(m.dir, name) }
func (m place) data() string            { return m.path(dataDir) }

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// place is where a machine has its directory.
func (p *Provider) place(id domain.MachineID) (place, error) {
	if !plainName.MatchString(string(id)) || id == imagesDir {
		return place{}, domain.Invalid("machine", "The machine's id %q is no plain file name.", id)
	}
	return place{id: id, dir: filepath.Join(p.dir, string(id))}, nil
}

// places are those of all machines of which there is something left.
func (p *Provider) places() ([]place, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var all []place
	for _, e := range entries {
		if m, err := p.place(domain.MachineID(e.Name())); err == nil && e.IsDir() {
			all = append(all, m)
		}
	}
	return all, nil
}

// record is what is known of a machine. It is written before its process is started, so that no crash leaves a process of which nothing is known.
type record struct {
	Ref        domain.MachineRef
	Flavor     string
	Cores      int
	GPUs       []int  // indexes of those it has to itself
	Image      string // immutable reference
	Args       []string
	Cgroup     string   // directory; empty without
	OldCgroups []string // where an earlier incarnation's tasks may run on, after the server moved
	Process    process  // the zero value where none was started yet, or where that was not recorded any more
	Released   bool     // nothing is left but the log
}

var errBroken = errors.New("the record of a machine cannot be read")

// processRef names the incarnation that runs, which may be one before that of the record.
func (r record) processRef() domain.MachineRef {
	ref := r.Ref
	ref.Incarnation = r.Process.Incarnation
	return ref
}

func (m place) read() (record, error) {
	var r record
	b, err := os.ReadFile(m.path(recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("%w: %s: %w", errBroken, m.path(recordFile), err)
	}
	return r, nil
}

// records are those that were read, for as long as their files stay the same.
type records struct {
	mu   sync.Mutex
	read map[domain.MachineID]readRecord
}

type readRecord struct {
	file identity
	record
}

// settled is the age from which a file that is written once more surely gets another time.
const settled = time.Second

// get is the machine's record, which may be that of a moment ago.
func (k *records) get(m place) (record, error) {
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
	if err != nil || time.Since(info.ModTime()) < settled {
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

// unmade says that there is no record because nothing was made: the data directory is made after the record, and removed before it.
func (m place) unmade(err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Lstat(m.data())
	return errors.Is(err, fs.ErrNotExist)
}

// readAny is the record, or the zero value where there is none that can be read: what is left of such a machine can still be ended.
func (m place) readAny() (record, error) {
	r, err := m.read()
	if errors.Is(err, errBroken) || errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	return r, err
}

func (m place) write(r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(m.path(recordFile), b)
}

// replaceFile puts a file there, for this user alone, as a whole or not at all.
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

// A process that is about to become something else looks like an agent for a moment: one that still does after the pause is one.
const (
	settlePause = 20 * time.Millisecond
	settleTries = 50
)

// settle completes a record whose process was started and not recorded any more.
func (p *Provider) settle(m place, r *record) error {
	if r.Released || r.Process != (process{}) {
		return nil
	}
	var before []process
	for range settleTries {
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
		<-time.After(settlePause)
	}
	return fmt.Errorf("the processes %v all work in %s", before, m.data())
}

// openTree gives this user back the rights to its own directories.
func openTree(path string) {
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // what cannot be opened cannot be removed, which is said then
		}
		return nil
	})
}
