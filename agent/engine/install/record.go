package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// recordFile describes an installation. Only a complete installation has it.
const recordFile = "installed.json"

var errBroken = errors.New("its record is invalid")

// record describes an installation.
type record struct {
	Engine      string `json:"engine"` // trino, or java for a runtime
	Version     string `json:"version"`
	SHA256      string `json:"sha256"`         // of the archive
	Files       int    `json:"files"`          // number of files without this one
	Bytes       int64  `json:"bytes"`          // of those files; each link counts
	Java        string `json:"java,omitempty"` // path of the java binary, relative if it is in the directory of engines
	JavaVersion string `json:"java_version,omitempty"`
	// StartupCache says that the cache of this Java was made, or could not be.
	StartupCache bool      `json:"startup_cache,omitempty"`
	InstalledAt  time.Time `json:"installed_at"`
}

func readRecord(home string) (r record, err error) {
	b, err := os.ReadFile(filepath.Join(home, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errBroken, err)
	}
	return r, nil
}

// javaIn returns the absolute path of the java binary.
func (r record) javaIn(dir string) string {
	if filepath.IsAbs(r.Java) {
		return r.Java
	}
	return filepath.Join(dir, r.Java)
}

// setJava records a Java. A path in the directory of engines becomes relative, so that the
// directory can be moved.
func (r *record) setJava(dir string, j javaBinary) {
	r.Java, r.JavaVersion, r.StartupCache = j.path, j.version, false
	if below, ok := strings.CutPrefix(j.path, dir+string(filepath.Separator)); ok {
		r.Java = below
	}
}

// writeRecord writes a new file that every user may read.
func writeRecord(path string, r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
}

// replaceRecord replaces the record of an installation.
func (i *installer) replaceRecord(home string, r record) error {
	work, err := os.MkdirTemp(i.Dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := writeRecord(filepath.Join(work, recordFile), r); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, recordFile), filepath.Join(home, recordFile))
}

// whole reports whether an installation is the pinned one and has all of its files.
func whole(home string, pin release) bool {
	r, err := readRecord(home)
	if err != nil || r.SHA256 != pin.sha256 {
		return false
	}
	u, err := measure(home)
	return err == nil && u.files == r.Files && u.bytes == r.Bytes
}

// usage is the size of a directory without its record and startup cache.
type usage struct {
	files int
	bytes int64 // of all files
	disk  int64 // of all files; several links to one file count once
}

func measure(home string) (u usage, err error) {
	seen := map[uint64]bool{}
	err = filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(home, recordFile) || path == filepath.Join(home, startupFile) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		u.files, u.bytes = u.files+1, u.bytes+info.Size()
		if inode := info.Sys().(*syscall.Stat_t).Ino; !seen[inode] {
			seen[inode] = true
			u.disk += info.Size()
		}
		return nil
	})
	return u, err
}

// Installed is an engine in a directory of engines.
type Installed struct {
	Engine      string    `json:"engine"` // trino
	Version     string    `json:"version"`
	Dir         string    `json:"dir,omitzero"`
	Java        string    `json:"java,omitzero"` // absolute path of the java binary
	JavaVersion string    `json:"java_version,omitzero"`
	Bytes       int64     `json:"bytes,omitzero"` // on disk, including the Java runtime installed for it
	InstalledAt time.Time `json:"installed_at,omitzero"`
}

// List returns the installed engines in a directory, including versions other than the pinned one.
// A missing directory has none.
func List(dir string) ([]Installed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the directory of engines cannot be read: %w", err)
	}
	all := []Installed{}
	for _, e := range entries {
		home := filepath.Join(dir, e.Name())
		r, err := readRecord(home)
		if err != nil || r.Engine != "trino" {
			continue
		}
		u, err := measure(home)
		if err != nil {
			return nil, fmt.Errorf("the installation in %s cannot be read: %w", home, err)
		}
		all = append(all, Installed{
			Engine: r.Engine, Version: r.Version, Dir: home, Java: r.javaIn(dir), JavaVersion: r.JavaVersion, Bytes: u.disk + javaBytes(dir, r), InstalledAt: r.InstalledAt,
		})
	}
	return all, nil
}

// javaBytes returns the size of the runtime that was installed for an engine, or 0.
func javaBytes(dir string, r record) int64 {
	if filepath.IsAbs(r.Java) {
		return 0
	}
	name, _, _ := strings.Cut(r.Java, string(filepath.Separator))
	u, err := measure(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	return u.disk
}
