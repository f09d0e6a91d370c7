package local

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/agent/worker"
	"github.com/millpond/millpond/agent/worker/shim"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

// The test binary is the image: machines run it with the real worker, and it is the server that a
// test kills.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "agent":
			exitNow(agentMain(os.Args[2:]))
		case "shim":
			exitNow(shim.Main())
		case "version":
			fmt.Println("millpond of a test")
			exitNow(0)
		case "server":
			exitNow(serverMain(os.Args[2]))
		}
	}
	goleak.VerifyTestMain(m)
}

// exitNow avoids the second that the race detector sleeps at the end of a process.
func exitNow(code int) { _, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(code), 0, 0) }

// Server addresses that make an agent do something else than connect.
const (
	doExit = "test:exit" // log a line and exit 3
	doDeaf = "test:deaf" // live, and ignore SIGTERM
	doEnv  = "test:env"  // log the environment and live
)

// refuseClear in the data directory makes --clear fail.
const refuseClear = "refuse-clear"

func agentMain(args []string) int {
	var o worker.Options
	var metrics string
	f := flag.NewFlagSet("agent", flag.ExitOnError)
	f.StringVar(&o.Server, "server", "", "")
	f.StringVar(&o.TokenFile, "token-file", "", "")
	f.StringVar(&o.BootstrapFile, "bootstrap-file", "", "")
	f.StringVar(&o.Dir, "data-dir", "", "")
	f.IntVar(&o.Slots, "slots", 0, "")
	f.StringVar(&metrics, "metrics", "none", "")
	f.Float64Var(&o.Cores, "cores", 0, "")
	f.Int64Var(&o.Memory, "memory", 0, "")
	f.DurationVar(&o.Alone, "alone", 0, "")
	f.String("log-format", "text", "")
	clearing := f.Bool("clear", false, "")
	_ = f.Parse(args)
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	o.Metrics = worker.MetricsOf(metrics)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *clearing:
		if _, there := os.Stat(filepath.Join(o.Dir, refuseClear)); there == nil {
			err = fmt.Errorf("the test refuses to clear")
		} else {
			err = worker.Clear(ctx, o)
		}
	case o.Server == doExit:
		fmt.Println("something happened")
		fmt.Println("cannot go on")
		return 3
	case o.Server == doDeaf:
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
		select {}
	case o.Server == doEnv:
		fmt.Println(strings.Join(os.Environ(), "\n"))
		fmt.Println("end of environment")
		<-ctx.Done()
	default:
		err = worker.Run(ctx, o)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var settings = machine.ProviderSettings{Kind: machine.ProviderLocal}

// roomy is a host large enough for the tests' machines.
var roomy = host{cores: 12, memory: 12 << 30}

// house is a directory of machines. At the end of the test it checks that nothing is left.
type house struct {
	*testing.T
	dir     string
	host    host
	groups  *cgroups
	options Options
	*Provider
}

func newHouse(t *testing.T, change ...func(*house)) *house {
	dir, err := os.MkdirTemp("", "millpond-local-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711), "tasks pass through it")
	h := &house{T: t, dir: filepath.Join(dir, "machines"), host: roomy, groups: findCgroups()}
	h.options = Options{Version: "v1", Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, c := range change {
		c(h)
	}
	t.Cleanup(func() {
		h.reopen()
		refs, err := h.Machines(context.Background())
		require.NoError(t, err)
		for _, ref := range refs {
			assert.NoError(t, h.Remove(context.Background(), ref), "the others are removed all the same")
		}
		h.Close()
		require.NoError(t, os.RemoveAll(dir))
		require.Empty(t, h.leftGroups())
	})
	h.reopen()
	return h
}

// leftGroups are the control groups of machines of this directory.
func (h *house) leftGroups() (left []string) {
	h.Helper()
	if h.groups.base == "" {
		return nil
	}
	entries, err := os.ReadDir(h.groups.base)
	require.NoError(h, err)
	for _, e := range entries {
		if _, id, ok := strings.Cut(strings.TrimPrefix(e.Name(), "millpond-"), "-"); ok {
			m, err := h.machineDir(domain.MachineID(id))
			require.NoError(h, err)
			if path := h.groups.path(m); filepath.Base(path) == e.Name() {
				left = append(left, path)
			}
		}
	}
	return left
}

// reopen opens another provider on the directory.
func (h *house) reopen() machine.Provider {
	h.Helper()
	if h.Provider != nil {
		h.Close()
	}
	h.options.Dir = h.dir
	p, err := open(h.options, h.host, h.groups)
	require.NoError(h, err)
	h.Provider = p
	return p
}

// agents are the living agents of a machine's directory, found without the provider's code.
func (h *house) agents(id domain.MachineID) []string {
	h.Helper()
	found, parents := map[int]string{}, map[int]int{} // start times and parents, read first: an ended process has none
	for _, pid := range allPids(h.T) {
		parents[pid] = parentOf(pid)
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		for try := 0; err == nil && len(args) == 0 && try < 1000 && inExec(pid); try++ {
			args, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		}
		if err == nil && strings.Contains(string(args), "\x00"+filepath.Join(h.dir, string(id), "data")+"\x00") {
			found[pid] = startOf(pid)
		}
	}
	var names []string
	for pid, start := range found {
		// A child before its exec looks like its parent.
		if _, child := found[parents[pid]]; start != "" && !child {
			names = append(names, strconv.Itoa(pid)+" since "+start)
		}
	}
	return names
}

// inExec reports whether a process without a command line is in exec, and will have one. Kernel
// threads and dead processes have no program.
func inExec(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil
}

func allPids(t *testing.T) []int {
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(b)[strings.LastIndex(string(b), ")")+1:])
	if slices.Contains([]string{"Z", "X"}, fields[0]) {
		return ""
	}
	return fields[19]
}

func (h *house) kill(id domain.MachineID) {
	h.Helper()
	for _, name := range h.agents(id) {
		pid, err := strconv.Atoi(strings.Fields(name)[0])
		require.NoError(h, err)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != syscall.ESRCH {
			require.NoError(h, err)
		}
	}
	h.eventually(func() bool { return len(h.agents(id)) == 0 })
}

const (
	patience = time.Minute
	tickle   = 2 * time.Millisecond
)

func (h *house) eventually(is func() bool) {
	h.Helper()
	require.Eventually(h, is, patience, tickle)
}

func (h *house) spec(name string, incarnation int) machine.Spec {
	h.Helper()
	image, err := h.Resolve(h.Context(), settings, "")
	require.NoError(h, err)
	return machine.Spec{
		Ref:      machine.Ref{Workspace: "ws_1", Machine: domain.MachineID(name), Incarnation: incarnation},
		Provider: settings, Flavor: machine.Flavor{Name: "cpu.1"}, ImageRef: image, Server: "http://127.0.0.1:9", Bootstrap: "boot",
	}
}

func (h *house) ensure(s machine.Spec) {
	h.Helper()
	require.NoError(h, h.Ensure(h.Context(), s))
}

func (h *house) alive(s machine.Spec) bool {
	h.Helper()
	alive, _, err := h.Alive(h.Context(), s.Ref)
	require.NoError(h, err)
	return alive
}

func (h *house) said(s machine.Spec) string {
	h.Helper()
	log, err := h.Log(h.Context(), s.Ref, 1<<20)
	require.NoError(h, err)
	return string(log)
}

func (h *house) file(s machine.Spec, name string) string {
	return filepath.Join(h.dir, string(s.Machine), name)
}

func TestTheLocalProviderKeepsThePromises(t *testing.T) {
	promises(t, findCgroups())
}

func TestTheLocalProviderKeepsThePromisesWithoutControlGroups(t *testing.T) {
	promises(t, &cgroups{why: "the test has none"})
}

func promises(t *testing.T, groups *cgroups) {
	provisiontest.Run(t, provisiontest.Suite{Limited: true, New: func(t *testing.T) *provisiontest.World {
		var lacks error // of the installation of Trino
		h := newHouse(t, func(h *house) { h.groups, h.options.Trino = groups, func() error { return lacks } })
		return &provisiontest.World{
			Provider: h.Provider, Settings: settings, Server: "http://127.0.0.1:9",
			Trino:     func(now error) { lacks = now },
			Reopen:    func(*testing.T) machine.Provider { return h.reopen() },
			Instances: func(_ *testing.T, id domain.MachineID) []string { return h.agents(id) },
			Kill:      func(_ *testing.T, id domain.MachineID) { h.kill(id) },
		}
	}})
}
