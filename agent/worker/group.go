package worker

import (
	"fmt"
	"os/exec"
	"syscall"

	"github.com/millpond/millpond/agent"
)

// Groups are those that processes of a workspace get beside their own: its group, or none for 0. It is an error when this machine does not give it, as a
// container to which it is not mapped, or when it is none of a workspace's.
func Groups(group uint32) ([]uint32, error) {
	if group == 0 {
		return nil, nil
	}
	if group < agent.FirstGroup || group > agent.LastGroup {
		return nil, fmt.Errorf("the group %d is no workspace's: those are %d to %d", group, agent.FirstGroup, agent.LastGroup)
	}
	groups := []uint32{group}
	probe := exec.Command(shell, "-c", ":")
	probe.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: groups}}
	if err := probe.Run(); err != nil {
		return nil, fmt.Errorf("this machine gives no process the group %d: %w", group, err)
	}
	return groups, nil
}

// join gives tasks that start from now on the workspace's group. Those that run have it from the agent that started them.
func (w *worker) join(group uint32) {
	if w.users == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.group == group {
		return
	}
	groups, err := Groups(group)
	if err != nil {
		w.log.Warn("tasks do not get the workspace's group: where its tables are files that are closed to others, they cannot open them", "error", err)
	}
	w.group, w.groups = group, groups
}

func (w *worker) taskGroups() []uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.groups
}
