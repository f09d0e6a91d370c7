package worker

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/worker/shim"
)

// worldWritable are the directories in which programs leave temporary files. An attempt with its
// own user gets its own directories in their place.
var worldWritable = []string{"/tmp", "/var/tmp", "/dev/shm"}

// privateDirs lists the directories of worldWritable that can be private to an attempt on this
// machine, and why not all of them can. A directory that contains the agent's directory stays
// shared, because the task must reach its working directory.
func privateDirs(dir string) (private []string, why error) {
	probe := exec.Command(shim.Shell, "-c", ":")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	if err := probe.Run(); err != nil {
		return nil, fmt.Errorf("this machine does not allow mount namespaces: %w", err)
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
