package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// The command line of an agent.
const (
	agentCommand = "agent"
	dataFlag     = "--data-dir"
	clearFlag    = "--clear"
)

const (
	slotsPerCore = 4
	aloneTime    = "15m"           // an agent without a server ends after this time: nothing else would stop it
	replaceGrace = 2 * time.Second // for the agent of another incarnation: its successor adopts the tasks, so there is little to wait for
)

// Ensure implements machine.Provider. Tasks of a replaced incarnation continue under their shims,
// and the new agent adopts them.
func (p *Provider) Ensure(ctx context.Context, s machine.Spec) error {
	m, flavor, err := p.checkSpec(s)
	if err != nil {
		return err
	}
	unlock, err := p.locks.lock(ctx, m.id)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := m.readAny()
	if err != nil {
		return err
	}
	recorded := r.Process
	if err := p.completeRecord(m, &r); err != nil {
		return err
	}
	if r.Process.alive() && r.Process.Incarnation == s.Incarnation {
		return p.reuse(m, r, s, recorded)
	}
	binary, err := p.images.open(s.ImageRef)
	if err != nil {
		return err
	}
	if r, err = p.reserve(m, r, s, flavor); err != nil {
		return err
	}
	if err := p.replace(ctx, m, &r); err != nil {
		return err
	}
	return p.start(m, r, s, binary)
}

func (p *Provider) checkSpec(s machine.Spec) (machineDir, machine.Flavor, error) {
	if err := checkSettings(s.Provider); err != nil {
		return machineDir{}, machine.Flavor{}, err
	}
	m, err := p.machineDir(s.Machine)
	if err != nil {
		return machineDir{}, machine.Flavor{}, err
	}
	if s.Incarnation < 1 {
		return machineDir{}, machine.Flavor{}, domain.Invalid("incarnation", "The incarnation is %d; it counts from 1.", s.Incarnation)
	}
	f, err := p.host.flavor(s.Flavor.Name)
	return m, f, err
}

// reuse keeps the running process and stores the newest bootstrap token.
func (p *Provider) reuse(m machineDir, r record, s machine.Spec, recorded process) error {
	if err := replaceFile(m.path(bootstrapFile), []byte(s.Bootstrap)); err != nil {
		return fmt.Errorf("writing the bootstrap token: %w", err)
	}
	p.watch(r.processRef(), r.Process)
	if r.Process == recorded {
		return nil
	}
	return m.write(r)
}

// reserve gives the machine its part of the host by writing its record. The record still has the
// previous process.
func (p *Provider) reserve(m machineDir, was record, s machine.Spec, f machine.Flavor) (record, error) {
	unlock, err := p.lockHost()
	if err != nil {
		return record{}, err
	}
	defer unlock()
	t, err := p.usage(m.id, machineDir.read)
	if err := cmp.Or(err, t.unknown); err != nil {
		return record{}, err
	}
	if !p.host.fits(f, t.made) {
		return record{}, p.host.full(f, t.made, s.Workspace)
	}
	r := record{Ref: s.Ref, Flavor: f.Name, Cores: f.Cores, Image: s.ImageRef, Args: p.args(m, s, f), Process: was.Process}
	if f.GPUs > 0 {
		r.GPUs = p.host.freeGPUs(f.GPU, t.made)[:f.GPUs]
	}
	if err := makePassable(m.dir); err != nil { // tasks pass through it
		return record{}, fmt.Errorf("making the machine's directory: %w", err)
	}
	if r.Cgroup, err = p.groups.make(m, f); err != nil {
		p.log.Warn("a machine has no control group, or a group without its limits", "machine", m.id, "error", err)
	}
	if was.Cgroup != "" && was.Cgroup != r.Cgroup {
		p.log.Info("a machine's control group has changed; earlier tasks continue in the old group", "machine", m.id, "was", was.Cgroup, "is", r.Cgroup)
	}
	r.OldCgroups = oldGroups(was, r.Cgroup)
	if err := m.write(r); err != nil {
		return record{}, fmt.Errorf("writing the machine's record: %w", err)
	}
	return r, makePassable(m.data())
}

// oldGroups are the groups in which earlier incarnations may have left tasks.
func oldGroups(was record, now string) []string {
	var old []string
	for _, dir := range append(was.OldCgroups, was.Cgroup) {
		if _, err := os.Stat(dir); err == nil && dir != now && !slices.Contains(old, dir) {
			old = append(old, dir)
		}
	}
	return old
}

func (p *Provider) args(m machineDir, s machine.Spec, f machine.Flavor) []string {
	slots := s.Slots
	if slots <= 0 {
		slots = slotsPerCore * f.Cores
	}
	return []string{
		agentCommand, "--server", s.Server, "--token-file", m.path(tokenFile), "--bootstrap-file", m.path(bootstrapFile), dataFlag, m.data(),
		"--slots", strconv.Itoa(slots), "--metrics", "own", "--cores", strconv.Itoa(f.Cores), "--memory", strconv.FormatInt(f.Memory, 10),
		"--alone", aloneTime, "--log-format", p.options.LogFormat,
	}
}

// replace ends the agent of the previous incarnation.
func (p *Provider) replace(ctx context.Context, m machineDir, r *record) error {
	if r.Process.alive() {
		p.log.Info("replacing a machine's agent", "machine", m.id, "incarnation", r.Process.Incarnation, "by", r.Ref.Incarnation)
		p.expect(m.id)
		if err := r.Process.end(ctx, replaceGrace); err != nil {
			return fmt.Errorf("ending the agent of incarnation %d: %w", r.Process.Incarnation, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Process = process{}
	return m.write(*r)
}

// start starts the agent and records its process.
func (p *Provider) start(m machineDir, r record, s machine.Spec, binary string) error {
	if err := replaceFile(m.path(bootstrapFile), []byte(s.Bootstrap)); err != nil {
		return fmt.Errorf("writing the bootstrap token: %w", err)
	}
	proc, err := p.fork(m, &r, s, binary)
	if err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	r.Process = proc
	r.Process.Incarnation = r.Ref.Incarnation
	p.watch(r.Ref, r.Process)
	p.log.Info("created a machine", "machine", m.id, "incarnation", r.Ref.Incarnation, "flavor", r.Flavor, "pid", proc.Pid)
	return m.write(r) // on an error the process is found by its command line
}

func (p *Provider) fork(m machineDir, r *record, s machine.Spec, binary string) (process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return process{}, err
	}
	defer func() { _ = null.Close() }()
	out, err := openLog(m.path(logFile))
	if err != nil {
		return process{}, err
	}
	defer func() { _ = out.Close() }()
	attr := &os.ProcAttr{
		Dir: m.dir, Env: append(environment(r.GPUs), p.warehouse(s)...), Files: []*os.File{null, out, out},
		Sys: &syscall.SysProcAttr{Setsid: true}, // Ctrl+C in the server's terminal is not for the machine
	}
	argv := append([]string{binary}, r.Args...)
	if r.Cgroup == "" {
		return launch(binary, argv, attr)
	}
	group, err := os.Open(r.Cgroup)
	if err != nil {
		return process{}, err
	}
	defer func() { _ = group.Close() }()
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(group.Fd())
	proc, err := launch(binary, argv, attr)
	if err == nil {
		return proc, nil
	}
	p.log.Warn("an agent could not be started in its control group; starting it outside", "machine", m.id, "group", r.Cgroup, "error", err)
	attr.Sys.UseCgroupFD = false
	return launch(binary, argv, attr)
}

// launch starts a program. It retries ETXTBSY: another start by this server may still hold the new
// file open.
func launch(path string, argv []string, attr *os.ProcAttr) (process, error) {
	var wait pauses
	for try := 0; ; try++ {
		started, err := os.StartProcess(path, argv, attr)
		if err == nil {
			p := process{Pid: started.Pid, Start: processStart(started.Pid)}
			return p, started.Release() // its watch waits for it
		}
		if !errors.Is(err, syscall.ETXTBSY) || try == 10 {
			return process{}, err
		}
		wait.next(context.Background())
	}
}

// environment is the complete environment of an agent, without the server's settings and secrets.
func environment(gpus []int) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LANG=C.UTF-8"}
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		value, ok := os.LookupEnv(name)
		if !ok || value == "" {
			continue
		}
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, name+"="+value)
	}
	visible := make([]string, len(gpus))
	for i, index := range gpus {
		visible[i] = strconv.Itoa(index)
	}
	list := strings.Join(visible, ",")
	return append(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES="+list, "NVIDIA_VISIBLE_DEVICES="+list)
}

// warehouse is the additional environment of a warehouse's agent. An older image ignores unknown
// variables, but would refuse unknown flags.
func (p *Provider) warehouse(s machine.Spec) []string {
	if machine.KindOf(s.Machine) != machine.KindWarehouse {
		return nil
	}
	return []string{
		"MILLPOND_AGENT_WAREHOUSE=true", "MILLPOND_AGENT_GROUP=" + strconv.FormatUint(uint64(s.Workspace.FileGroup()), 10),
		"MILLPOND_AGENT_WRITE_ENGINE=" + cmp.Or(s.WriteEngine, machine.EngineDuckDB), "MILLPOND_AGENT_ENGINES_DIR=" + p.options.EnginesDir,
		"MILLPOND_AGENT_TRINO_MAY_OPEN_HOST_FILES=" + strconv.FormatBool(p.options.TrinoUnfenced),
	}
}
