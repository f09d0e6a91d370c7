package trino

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkReadable checks that this user may open the runtime, the installation and the directories
// above them. Its error names the first path that is closed. The JVM itself would end without a log
// message.
func checkReadable(java, installation string) error {
	java, err := followed(java)
	if err == nil {
		err = access(java, unix.R_OK|unix.X_OK)
	}
	if err == nil {
		err = passable(installation)
	}
	if err == nil {
		err = filepath.WalkDir(installation, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				return access(path, unix.R_OK|unix.X_OK)
			}
			return access(path, unix.R_OK)
		})
	}
	if err != nil {
		return fmt.Errorf("the user %d, as which Trino runs, cannot open its installation: %w; open it to all users, as chmod o+x does for a directory on the way, or install it elsewhere with --engines-dir", os.Getuid(), err)
	}
	return nil
}

// followed returns a path without symbolic links, if this process may traverse it.
func followed(path string) (string, error) {
	if err := passable(path); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if missed, ok := errors.AsType[*fs.PathError](err); ok { // names a path inside the closed directory
		if closed := passable(missed.Path); closed != nil {
			return "", closed
		}
	}
	if err != nil {
		return "", err
	}
	return real, passable(real)
}

// passable returns an error for the first directory above a path that cannot be traversed.
func passable(path string) error {
	dir := filepath.Dir(path)
	if dir != path {
		if err := passable(dir); err != nil {
			return err
		}
	}
	return access(dir, unix.X_OK)
}

func access(path string, mode uint32) error {
	if err := unix.Access(path, mode); err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}
