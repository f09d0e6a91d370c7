package trino

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock access rights. A kernel supports those up to its ABI and refuses rulesets with others.
const (
	fileRead  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	fileWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	dirRead   = fileRead | unix.LANDLOCK_ACCESS_FS_READ_DIR
	dirWrite  = fileWrite | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	allRights = dirRead | dirWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// known returns the rights that an ABI supports. ABI 1 lacks REFER. It refuses renames and links
// between directories, even if both are writable.
func known(abi int) uint64 {
	rights := uint64(allRights)
	for right, since := range map[uint64]int{unix.LANDLOCK_ACCESS_FS_REFER: 2, unix.LANDLOCK_ACCESS_FS_TRUNCATE: 3, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV: 5} {
		if abi < since {
			rights &^= right
		}
	}
	return rights
}

// fence is the set of paths that a process and its children may open.
type fence struct {
	Read  []string `json:"read"`  // read and run; missing paths are skipped
	Write []string `json:"write"` // read, write, create and remove; each must exist
	ABI   int      `json:"abi"`   // maximum Landlock ABI to use; 0 means the kernel's
}

// landlockABI returns the kernel's Landlock ABI. It returns an error if Landlock is missing or off.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// enforce restricts the calling thread and its children to the fence permanently. The thread must
// be locked.
func (f *fence) enforce() error {
	abi, err := landlockABI()
	if err != nil {
		return fmt.Errorf("this kernel has no Landlock: %w", err)
	}
	if f.ABI > 0 {
		abi = min(abi, f.ABI)
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: known(abi)}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("making a ruleset of Landlock: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	for _, path := range f.Read {
		if err := allow(int(fd), path, fileRead, dirRead&known(abi)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, path := range f.Write {
		if err := allow(int(fd), path, (fileRead|fileWrite)&known(abi), (dirRead|dirWrite)&known(abi)); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("entering a ruleset of Landlock: %w", errno)
	}
	return nil
}

// allow adds a path to a ruleset. Files support fewer rights than directories.
func allow(ruleset int, path string, ofFile, ofDir uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: ofFile, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		beneath.Allowed_access = ofDir
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
	return nil
}

// systemPaths returns the system paths that every JVM reads.
func systemPaths() []string {
	libraries, _ := filepath.Glob("/lib*") // the pattern is valid
	return append(libraries, "/usr", "/etc", "/proc", "/sys", "/dev")
}

// fenceOf returns the fence of a node. It may read the system, the Java runtime and the
// installation. It may write its own directory and the workspace's. The fence is nil if the storage
// is not files, or if the operator accepts the risk.
func (o Options) fenceOf(l layout, storage Storage) (*fence, error) {
	if !storage.files() || o.unfenced() {
		return nil, nil
	}
	workspace, err := storage.directory()
	if err != nil {
		return nil, err
	}
	return &fence{
		Read: append(systemPaths(), o.javaHome(), o.Installation.Dir, o.Dir), Write: []string{l.dir, "/dev/null", workspace}, ABI: o.MaxABI,
	}, nil
}

// unfenced reports whether Trino runs without a fence, because the kernel has no Landlock and the
// operator accepts the risk.
func (o Options) unfenced() bool {
	_, err := o.landlock()
	return err != nil && o.Unfenced
}

// landlock returns the Landlock ABI to use, or an error if there is none.
func (o Options) landlock() (int, error) {
	if o.MaxABI < 0 {
		return 0, unix.EOPNOTSUPP
	}
	return landlockABI()
}

// UnfencedError means that the kernel cannot confine Trino to the workspace's files.
type UnfencedError struct{ Why error }

func (e *UnfencedError) Error() string {
	return "Trino does not run here: the tables are files, and this kernel has no Landlock (" + e.Why.Error() + "), without which a table's metadata could make Trino read and delete any file that its user may. " +
		"Use a kernel from 5.13 on with Landlock turned on, keep the tables in S3, or write with DuckDB. " + RiskFlag + " runs Trino all the same, if everyone who may write tables may also see and change the host's files"
}

// RiskFlag is the option of serve and agent that allows Trino to run without a fence.
const RiskFlag = "--trino-may-open-host-files"

// Fenceable returns an *UnfencedError if the storage is files, the kernel has no Landlock and the
// operator does not accept the risk.
func (o Options) Fenceable(storage Storage) error {
	if _, err := o.landlock(); err != nil && storage.files() && !o.Unfenced {
		return &UnfencedError{err}
	}
	return nil
}

// javaHome returns the directory of the runtime with all links resolved.
func (o Options) javaHome() string {
	java := o.Installation.Java
	if real, err := filepath.EvalSymlinks(java); err == nil {
		java = real
	}
	return filepath.Dir(filepath.Dir(java))
}

// files reports whether the tables are files of the host.
func (s Storage) files() bool { return strings.HasPrefix(s.Prefix, "file:") }

// directory returns the workspace's directory, if its tables are files.
func (s Storage) directory() (string, error) {
	path, ok := strings.CutPrefix(s.Prefix, "file://")
	if !ok || !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return "", fmt.Errorf("the workspace's storage %q is no directory", s.Prefix)
	}
	path = filepath.Clean(path)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the workspace's directory cannot be opened: %w", err)
	}
	return path, nil
}
