package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain/machine"
)

const (
	releaseGrace = 3 * time.Second  // for the agent to end
	clearTime    = 20 * time.Second // for everything that it ran to end
	clearTries   = 3
	sweepTime    = 10 * time.Second // for the remaining processes to end
)

// Release implements machine.Provider. The log of the agent stays.
func (p *Provider) Release(ctx context.Context, ref machine.Ref) error {
	m, err := p.machineDir(ref.Machine)
	if err != nil {
		return err
	}
	unlock, err := p.locks.lock(ctx, m.id)
	if err != nil {
		return err
	}
	defer unlock()
	return p.release(ctx, m)
}

// Remove implements machine.Provider. It also removes images that no machine uses any more.
func (p *Provider) Remove(ctx context.Context, ref machine.Ref) error {
	m, err := p.machineDir(ref.Machine)
	if err != nil {
		return err
	}
	unlock, err := p.locks.lock(ctx, m.id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.release(ctx, m); err != nil {
		return err
	}
	if err := removeTree(m.dir); err != nil {
		return fmt.Errorf("removing the machine's directory: %w", err)
	}
	p.mu.Lock()
	delete(p.exits, m.id)
	p.mu.Unlock()
	p.records.forget(m.id)
	if err := p.pruneImages(); err != nil { // the machine is removed all the same; the next removal retries
		p.log.Warn("unused images could not be removed", "error", err)
	}
	return nil
}

func (p *Provider) release(ctx context.Context, m machineDir) error {
	r, err := m.readAny() // there may be processes even without a record or a directory
	if err != nil {
		return err
	}
	p.expect(m.id)
	if err := endAgents(ctx, m, r); err != nil {
		return err
	}
	groups := slices.Compact(append(r.OldCgroups, r.Cgroup, p.groups.path(m)))
	if err := p.clear(ctx, m, r, groups); err != nil {
		return err
	}
	if err := sweep(ctx, m, groups); err != nil {
		return err
	}
	for _, dir := range groups {
		if err := removeCgroup(ctx, dir); err != nil {
			return fmt.Errorf("removing the machine's control group: %w", err)
		}
	}
	for _, name := range []string{dataDir, tokenFile, bootstrapFile} {
		if err := removeTree(m.path(name)); err != nil {
			return fmt.Errorf("removing what the machine had: %w", err)
		}
	}
	if r.Ref == (machine.Ref{}) { // the record is missing or unreadable
		return removeTree(m.path(recordFile))
	}
	if r.Released {
		return nil
	}
	r.Process, r.Released, r.Cgroup, r.OldCgroups, r.GPUs = process{}, true, "", nil, nil
	p.log.Info("released a machine", "machine", m.id, "incarnation", r.Ref.Incarnation)
	return m.write(r)
}

// endAgents ends the recorded process and every other agent in the data directory.
func endAgents(ctx context.Context, m machineDir, r record) error {
	found, err := agentsOf(m.data())
	if err != nil {
		return err
	}
	for _, agent := range append(found, r.Process) { // sweep ends a process that clears the directory
		if !agent.alive() {
			continue
		}
		if err := agent.end(ctx, releaseGrace); err != nil {
			return fmt.Errorf("ending the machine's agent: %w", err)
		}
	}
	return nil
}

// clear runs the agent's own program to end every attempt that runs without an agent. Only that
// program knows the attempts' shims and users.
func (p *Provider) clear(ctx context.Context, m machineDir, r record, groups []string) error {
	if _, err := os.Lstat(m.data()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	binary, err := p.images.open(r.Image)
	if err != nil { // the server's own binary also works
		binary = p.images.source
	}
	for try, wait := 1, (pauses{}); ; try++ {
		err := clearOnce(ctx, m, binary)
		for _, dir := range groups {
			if killed := killCgroup(dir); killed != nil {
				p.log.Warn("a machine's control group could not be killed", "machine", m.id, "error", killed)
			}
		}
		if err == nil {
			return nil
		}
		if try == clearTries || !wait.next(ctx) {
			return fmt.Errorf("ending what the machine ran: %w", err)
		}
	}
}

func clearOnce(ctx context.Context, m machineDir, binary string) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, agentCommand, dataFlag, m.data(), clearFlag)
	cmd.Dir, cmd.Env, cmd.WaitDelay = m.dir, environment(nil), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s %s: %w: %s", agentCommand, clearFlag, m.data(), errors.Join(ctx.Err(), err), lastLine(out))
	}
	return nil
}

// sweep kills the machine's remaining processes, and returns when none is left.
func sweep(ctx context.Context, m machineDir, groups []string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	for wait := (pauses{}); ; {
		left, err := remains(m.data(), groups)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		var failed []error
		for _, p := range left {
			failed = append(failed, p.signal(syscall.SIGKILL))
		}
		if !wait.next(ctx) {
			return errors.Join(append(failed, fmt.Errorf("%d processes of the machine are still there, such as %d", len(left), left[0].Pid))...)
		}
	}
}

// remains are the processes that belong to a machine: members of its control groups, its agent, and
// processes tied to the data directory. A tie is a root, a working directory, an environment value
// or a writable open file below it.
func remains(data string, groups []string) ([]process, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	member := map[int]bool{}
	for _, dir := range groups {
		for _, pid := range members(dir) {
			member[pid] = true
		}
	}
	var found []process
	for _, pid := range all {
		p := process{Pid: pid, Start: processStart(pid)}
		if p.Start != "" && (member[pid] || isAgent(pid, data) || tied(pid, data)) {
			found = append(found, p)
		}
	}
	return found, nil
}

func tied(pid int, data string) bool {
	for _, link := range []string{"cwd", "root"} {
		if target, err := os.Readlink(procPath(pid, link)); err == nil && below(target, data) {
			return true
		}
	}
	if env, err := os.ReadFile(procPath(pid, "environ")); err == nil {
		for entry := range strings.SplitSeq(string(env), "\x00") {
			if _, value, ok := strings.Cut(entry, "="); ok && below(value, data) {
				return true
			}
		}
	}
	return writes(pid, data)
}

// writes reports whether a process has a writable open file below the directory, as shims do. A
// process that only reads may be a backup.
func writes(pid int, data string) bool {
	dir, err := os.Open(procPath(pid, "fd"))
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		target, err := os.Readlink(dir.Name() + "/" + name)
		if err != nil || !below(target, data) {
			continue
		}
		if info, err := os.Lstat(dir.Name() + "/" + name); err == nil && info.Mode().Perm()&0o200 != 0 {
			return true
		}
	}
	return false
}

func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/' || strings.HasPrefix(rest, " (deleted)"))
}

// removeTree deletes a directory, even if a task removed this user's rights to it.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, unix.EACCES) {
		return err
	}
	openTree(path)
	return os.RemoveAll(path)
}
