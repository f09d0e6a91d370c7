package shim

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sharedMemory is the directory of shared memory: a private one must lie in memory too.
const sharedMemory = "/dev/shm"

// hideDirs moves the calling thread, which must be locked, into a new mount namespace. In it temp
// is mounted over each of the directories, and an empty tmpfs over /dev/shm. A process forked there
// inherits the namespace. leave moves the thread back to the machine's namespace.
func hideDirs(dirs []string, temp string) (leave func(), err error) {
	stay := func() {}
	home, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stay, fmt.Errorf("opening the mount namespace: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		unix.Close(home)
		return stay, fmt.Errorf("making a mount namespace: %w", err)
	}
	leave = func() {
		_ = unix.Setns(home, unix.CLONE_NEWNS) // on failure the thread stays, which is harmless: the shim has no files in these directories
		unix.Close(home)
	}
	// Mounts here are visible only here. Later mounts and unmounts of the machine are visible here
	// too.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return leave, fmt.Errorf("separating from the machine's mounts: %w", err)
	}
	var failed []error
	for _, dir := range dirs {
		if err := mountOver(dir, temp); err != nil {
			failed = append(failed, fmt.Errorf("mounting over %s: %w", dir, err))
		}
	}
	return leave, errors.Join(failed...)
}

func mountOver(dir, temp string) error {
	if dir == sharedMemory {
		return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
	}
	return unix.Mount(temp, dir, "", unix.MS_BIND, "")
}
