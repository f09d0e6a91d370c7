package agent

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Directory identifies a directory that only one server or agent uses. A copy has the same file
// with the same random id, but another inode or device. FindDirectory gives it its own id.
type Directory struct {
	ID     string `json:"id"` // random
	Path   string `json:"path"`
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

const directoryFile = "directory.json"

// FindDirectory identifies the directory at a path. was is the content of its file, or the zero
// value without a file. A directory without a file gets fallback as its id, or a random id if
// fallback is empty.
func FindDirectory(path, fallback string) (d, was Directory, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return d, was, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return d, was, err
	}
	device, inode, err := fileID(path)
	if err != nil {
		return d, was, err
	}
	if was, err = readDirectory(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d, was, err
	}
	d = Directory{ID: was.ID, Path: path, Device: device, Inode: inode}
	if was.ID == "" {
		d.ID = fallback
	}
	if d.ID == "" || was.ID != "" && !d.continues(was) {
		d.ID = rand.Text()
	}
	return d, was, nil
}

// continues reports whether d is the directory that its file describes, and not a copy. The device
// number may change when a file system is mounted again.
func (d Directory) continues(was Directory) bool {
	switch {
	case d.Inode != was.Inode:
		return false
	case d.Device == was.Device:
		return true
	}
	original, err := readDirectory(was.Path)
	return was.Path == d.Path || err != nil || original.ID != was.ID
}

// Keep writes the identity into the directory unless it equals was, which FindDirectory returned.
func (d Directory) Keep(was Directory) error {
	if d == was {
		return nil
	}
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	path := filepath.Join(d.Path, directoryFile)
	next := path + ".next"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// Copied reports whether d is a copy of the directory that was describes.
func (d Directory) Copied(was Directory) bool { return was.ID != "" && was.ID != d.ID }

// News returns a sentence if the directory was moved or copied since was, and "" if not.
func (d Directory) News(was Directory) string {
	switch {
	case d.Copied(was):
		return fmt.Sprintf("%s is a copy of %s, and has an id of its own from now on; what runs there is left alone.", d.Path, was.Path)
	case was.ID != "" && was.Path != d.Path:
		return fmt.Sprintf("%s was moved here from %s.", d.Path, was.Path)
	}
	return ""
}

// Gone reports whether the directory was removed, moved or replaced, or has lost its id.
func (d Directory) Gone() bool {
	device, inode, err := fileID(d.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if device != d.Device || inode != d.Inode {
		return true
	}
	is, err := readDirectory(d.Path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && is.ID != d.ID
}

func fileID(path string) (device, inode uint64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: the file system gives no inode", path)
	}
	return uint64(s.Dev), s.Ino, nil
}

// readDirectory reads the identity from a directory's file. A file that a crash left incomplete
// counts as missing.
func readDirectory(path string) (d Directory, err error) {
	b, err := os.ReadFile(filepath.Join(path, directoryFile))
	if err != nil {
		return d, err
	}
	if json.Unmarshal(b, &d) != nil || d.ID == "" {
		return Directory{}, fs.ErrNotExist
	}
	return d, nil
}
