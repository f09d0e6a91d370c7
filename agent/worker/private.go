package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const sharedMemory = "/dev/shm"

// worldWritable are the directories in which programs leave files without being asked. An attempt with a user of its own gets its own ones.
var worldWritable = []string{"/tmp", "/var/tmp", sharedMemory}

// privateDirs lists the places of worldWritable that an attempt can have for itself on this machine, and why it is not all of them. A place that holds
// the agent's directory stays as it is: the task must reach its working directory.
func privateDirs(dir string) (private []string, why error) {
	probe := exec.Command(shell, "-c", ":")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		return nil, fmt.Errorf("this machine gives no mount namespaces: %w", err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	for _, place := range worldWritable {
		real, err := filepath.EvalSymlinks(place)
		if err != nil || slices.Contains(private, real) {
			continue
		}
		if dir == real || strings.HasPrefix(dir, real+"/") {
			why = fmt.Errorf("the agent's directory %s lies in %s", dir, real)
			continue
		}
		private = append(private, real)
	}
	return private, why
}

// hideDirs moves the calling thread, which must be locked, into a mount namespace of its own, in which temp is mounted over each of the directories, and
// empty memory over /dev/shm. A process forked there sees it so. leave brings the thread back, as the shim is to see what everybody sees.
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
		_ = unix.Setns(home, unix.CLONE_NEWNS) // staying would harm nothing: none of the shim's files are in these directories
		unix.Close(home)
	}
	// What is mounted here is seen nowhere else; what the machine mounts and unmounts later is seen here as well.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return leave, fmt.Errorf("parting from the machine's mounts: %w", err)
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
