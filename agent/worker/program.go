package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Tasks find this program by its name: it is in binDir of the agent's directory, the last entry of
// their search path.
const (
	binDir      = "bin"
	programName = "millpond"
	programMode = 0o755
)

// runningProgram is the running image, even if its file was replaced or removed since.
const runningProgram = "/proc/self/exe"

func (w *worker) binDir() string { return filepath.Join(w.options.Dir, binDir) }

// layProgram links or copies the source into dir for tasks to run, unless it is there already. A
// link takes no space, but has the mode of the source. It is impossible to another file system, to
// the file of another user, or to a removed file. A copy is identified by the time and size of its
// source.
func layProgram(source, dir string) error {
	if err := os.MkdirAll(dir, programMode); err != nil {
		return err
	}
	if err := os.Chmod(dir, programMode); err != nil {
		return err
	}
	from, err := os.Stat(source)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, programName)
	if there, err := os.Lstat(path); err == nil && (os.SameFile(from, there) || sameCopy(from, there)) {
		return nil
	}
	part := path + ".part"
	if err := removeIfThere(part); err != nil {
		return err
	}
	if !linkProgram(source, from, part) {
		if err := copyProgram(source, from, part); err != nil {
			return errors.Join(fmt.Errorf("copying %s: %w", source, err), removeIfThere(part))
		}
	}
	return os.Rename(part, path)
}

func sameCopy(from, there fs.FileInfo) bool {
	return there.Mode() == programMode && there.Size() == from.Size() && there.ModTime().Equal(from.ModTime())
}

// linkProgram creates a link that everybody can run. It reports whether it could.
func linkProgram(source string, from fs.FileInfo, path string) bool {
	return from.Mode()&(fs.ModeSetuid|fs.ModeSetgid|0o005) == 0o005 &&
		unix.Linkat(unix.AT_FDCWD, source, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW) == nil
}

func copyProgram(source string, from fs.FileInfo, path string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, programMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(programMode), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Chtimes(path, from.ModTime(), from.ModTime())
}
