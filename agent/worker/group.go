package worker

import (
	"fmt"
	"os/exec"
	"syscall"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// Groups returns the supplementary groups of a workspace's processes: its group, or nothing for 0.
// It returns an error for a group outside the range of workspaces' groups. It also does if this
// machine cannot set the group, as in a container without a mapping.
func Groups(group uint32) ([]uint32, error) {
	if group == 0 {
		return nil, nil
	}
	if group < agent.FirstGroup || group > agent.LastGroup {
		return nil, fmt.Errorf("the group %d does not belong to a workspace: those are %d to %d", group, agent.FirstGroup, agent.LastGroup)
	}
	groups := []uint32{group}
	probe := exec.Command(shim.Shell, "-c", ":")
	probe.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: groups}}
	if err := probe.Run(); err != nil {
		return nil, fmt.Errorf("this machine cannot give a process the group %d: %w", group, err)
	}
	return groups, nil
}

// join gives the workspace's group and its shared directory to tasks that start from now on.
// Running tasks keep theirs.
func (w *worker) join(group uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.group == group {
		return
	}
	w.group, w.groups = group, nil
	if w.users != nil {
		groups, err := Groups(group)
		if err != nil {
			w.log.Warn("tasks do not get the workspace's group: they cannot open its tables if these are files closed to others, and share no directory", "error", err)
		}
		w.groups = groups
	}
	w.shareWith(group)
}

func (w *worker) taskGroups() []uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.groups
}
