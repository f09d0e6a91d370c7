package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
)

func TestAnAgentStartsWithItsFilesAndNothingOfTheServers(t *testing.T) {
	t.Setenv("MILLPOND_SECRET", "s3cret")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = doEnv
	h.ensure(s)
	h.eventually(func() bool { return strings.Contains(h.said(s), "end of environment") })
	require.NotContains(t, h.said(s), "s3cret")
	require.Contains(t, h.said(s), "PATH=")
	require.Contains(t, h.said(s), "CUDA_VISIBLE_DEVICES=\n", "it sees no GPU")
	for _, token := range []string{"boot", "another"} {
		s.Bootstrap = token
		h.ensure(s)
		b, err := os.ReadFile(h.file(s, "bootstrap"))
		require.NoError(t, err)
		require.Equal(t, token, string(b))
		info, err := os.Stat(h.file(s, "bootstrap"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
	}
	pid := strings.Fields(h.agents(s.Machine)[0])[0]
	cmdline, err := os.ReadFile("/proc/" + pid + "/cmdline")
	require.NoError(t, err)
	args := strings.Split(strings.Trim(string(cmdline), "\x00"), "\x00")
	require.Equal(t, []string{
		"agent", "--server", doEnv, "--token-file", h.file(s, "agent.token"), "--bootstrap-file", h.file(s, "bootstrap"), "--data-dir", h.file(s, "data"),
		"--slots", "4", "--metrics", "own", "--cores", "1", "--memory", strconv.Itoa(1 << 30), "--alone", "15m", "--log-format", "text",
	}, args[1:])
	cwd, err := os.Readlink("/proc/" + pid + "/cwd")
	require.NoError(t, err)
	require.Equal(t, h.file(s, ""), cwd)
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	session, err := syscall.Getpgid(n)
	require.NoError(t, err)
	require.Equal(t, n, session, "a group of its own")
}

// Child processes of a warehouse's engine open the workspace's tables by its group. Tasks get the
// group from Welcome.
func TestAWarehouseIsToldItsGroupAndItsEngines(t *testing.T) {
	h := newHouse(t, func(h *house) { h.options.EnginesDir, h.options.TrinoUnfenced = "/srv/engines", true })
	told := func(machine, engine string) string {
		s := h.spec(machine, 1)
		s.Server, s.WriteEngine = doEnv, engine
		h.ensure(s)
		h.eventually(func() bool { return strings.Contains(h.said(s), "end of environment") })
		return h.said(s)
	}
	group := fmt.Sprintf("MILLPOND_AGENT_GROUP=%d\n", domain.WorkspaceID("ws_1").FileGroup())
	for engine, want := range map[string]string{"duckdb": "duckdb", "trino": "trino", "": "duckdb"} {
		said := told("wh_"+want+engine, engine)
		for _, line := range []string{"MILLPOND_AGENT_WAREHOUSE=true\n", group, "MILLPOND_AGENT_WRITE_ENGINE=" + want + "\n", "MILLPOND_AGENT_ENGINES_DIR=/srv/engines\n", "MILLPOND_AGENT_TRINO_MAY_OPEN_HOST_FILES=true\n"} {
			require.Contains(t, said, line)
		}
	}
	require.NotContains(t, told("cmp_a", ""), "MILLPOND_AGENT_")
}

func TestTrinoIsRefusedWithWhatToDo(t *testing.T) {
	large, small := machine.Flavor{Name: "cpu.2", Memory: 3 << 30}, machine.Flavor{Name: "cpu.1", Memory: 3<<30 - 1}
	installed := func() error { return nil }
	for _, c := range []struct {
		name   string
		trino  func() error
		flavor machine.Flavor
		says   string
	}{
		{"installed", installed, large, ""},
		{"too small", installed, small, "Trino needs a machine with at least 3 GiB of memory, and a cpu.1 machine has 3071 MiB; choose a larger flavor, or the write engine duckdb."},
		{"no engines", nil, large, "Trino is not installed on this host; run `millpond engine install trino` there, or choose the write engine duckdb."},
		{
			"not installed", func() error { return errors.New("it is not in /srv; run this") }, large,
			"Trino is not available on this host: it is not in /srv; run this. Do that there, or choose the write engine duckdb.",
		},
	} {
		h := newHouse(t, func(h *house) { h.options.Trino = c.trino })
		err := h.CheckWriteEngine(t.Context(), settings, c.flavor, machine.EngineTrino)
		if c.says == "" {
			require.NoError(t, err, c.name)
			continue
		}
		require.Equal(t, c.says, domain.AsError(err).Message, c.name)
		require.Equal(t, "write_engine", domain.AsError(err).Field)
	}
}

func TestWhyAMachineEndedIsKnown(t *testing.T) {
	gone := make(chan machine.Ref, 10)
	h := newHouse(t, func(h *house) { h.options.Gone = func(ref machine.Ref) { gone <- ref } })
	s := h.spec("cmp_a", 1)
	s.Server = doExit
	h.ensure(s)
	require.Equal(t, s.Ref, <-gone)
	_, detail, err := h.Alive(t.Context(), s.Ref)
	require.NoError(t, err)
	require.Equal(t, "The machine's process ended: exit status 3. Its log ends with: cannot go on", detail)
}

func TestGoneIsToldOfMachinesThatEndByThemselvesAndOfNoOthers(t *testing.T) {
	gone := make(chan machine.Ref, 10)
	h := newHouse(t, func(h *house) { h.options.Gone = func(ref machine.Ref) { gone <- ref } })
	adopted, replaced, released := h.spec("cmp_adopted", 1), h.spec("cmp_replaced", 1), h.spec("cmp_released", 1)
	for _, s := range []machine.Spec{adopted, replaced, released} {
		h.ensure(s)
	}
	replaced.Incarnation = 2
	h.ensure(replaced)
	require.NoError(t, h.Release(t.Context(), released.Ref))
	h.reopen()
	h.kill(adopted.Machine)
	require.Equal(t, adopted.Ref, <-gone)
	h.Close()
	h.kill(replaced.Machine)
	h.Provider.watching.Wait()
	require.Empty(t, gone)
}

func TestAProcessIsWatchedWhereTheKernelDoesNotTellOfItsEnd(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	proc := process{Pid: cmd.Process.Pid, Start: processStart(cmd.Process.Pid)}
	ended := make(chan bool)
	w := &watch{process: proc, ctx: t.Context(), cancel: func() {}}
	go func() { ended <- w.wait() }()
	require.NoError(t, cmd.Process.Kill())
	require.True(t, <-ended)
	_ = cmd.Wait()
}

func TestAProcessThatWasNotRecordedIsFound(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	h.ensure(s)
	running := h.agents(s.Machine)
	m, err := h.machineDir(s.Machine)
	require.NoError(t, err)
	r, err := m.read()
	require.NoError(t, err)
	r.Process = process{}
	require.NoError(t, m.write(r))
	h.reopen()
	require.True(t, h.alive(s))
	h.ensure(s)
	require.Equal(t, running, h.agents(s.Machine))
	require.NoError(t, os.WriteFile(m.path(recordFile), []byte(`{"Ref":`), 0o600))
	h.reopen()
	refs, err := h.Machines(t.Context())
	require.NoError(t, err)
	require.Equal(t, []machine.Ref{{Machine: s.Machine}}, refs, "the id is all that is known")
	require.NoError(t, h.Remove(t.Context(), refs[0]))
	require.Empty(t, h.agents(s.Machine))
}

func TestAMachineWhoseDirectoryIsLostCanBeReleased(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = doEnv
	h.ensure(s)
	require.NoError(t, os.RemoveAll(h.file(s, "")))
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.Empty(t, h.agents(s.Machine))
}

func TestAPidAloneIsSomebodyElse(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	h.ensure(s)
	h.kill(s.Machine)
	bystander := exec.Command("sleep", "1000")
	require.NoError(t, bystander.Start())
	defer func() { _ = bystander.Wait() }()
	defer func() { _ = bystander.Process.Kill() }()
	m, err := h.machineDir(s.Machine)
	require.NoError(t, err)
	r, err := m.read()
	require.NoError(t, err)
	r.Process.Pid = bystander.Process.Pid
	require.NoError(t, m.write(r))
	require.False(t, h.alive(s))
	s.Incarnation = 2
	h.ensure(s)
	require.NoError(t, h.Release(t.Context(), s.Ref))
	require.NotEmpty(t, startOf(bystander.Process.Pid))
}

func TestNamesThatReachElsewhereAreRefused(t *testing.T) {
	h := newHouse(t)
	for _, id := range []string{"", ".", "..", "../cmp_a", "a/b", "images", ".new-1", strings.Repeat("a", 200)} {
		s := h.spec(id, 1)
		require.True(t, domain.IsCode(h.Ensure(t.Context(), s), domain.CodeInvalid), id)
		require.True(t, domain.IsCode(h.Remove(t.Context(), s.Ref), domain.CodeInvalid), id)
		_, err := h.Log(t.Context(), s.Ref, 10)
		require.True(t, domain.IsCode(err, domain.CodeInvalid), id)
	}
	require.DirExists(t, h.dir)
}

func TestTheLogIsReadFromTheStartOfALine(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	require.NoError(t, os.MkdirAll(h.file(s, ""), 0o700))
	require.NoError(t, os.WriteFile(h.file(s, "agent.log.1"), []byte("one\ntwo\n"), 0o600))
	require.NoError(t, os.WriteFile(h.file(s, "agent.log"), []byte("three\nfour\n"), 0o600))
	for limit, want := range map[int]string{
		100: "one\ntwo\nthree\nfour\n", 19: "one\ntwo\nthree\nfour\n", 18: "two\nthree\nfour\n", 11: "three\nfour\n", 5: "four\n", 4: "our\n", 1: "\n", 0: "",
	} {
		log, err := h.Log(t.Context(), s.Ref, limit)
		require.NoError(t, err)
		require.Equal(t, want, string(log), limit)
	}
}

func TestAStartPutsALargeLogAside(t *testing.T) {
	h := newHouse(t)
	s := h.spec("cmp_a", 1)
	s.Server = doEnv
	require.NoError(t, os.MkdirAll(h.file(s, ""), 0o700))
	require.NoError(t, os.WriteFile(h.file(s, "agent.log"), append(make([]byte, logLimit), "before\n"...), 0o600))
	h.ensure(s)
	h.eventually(func() bool { return strings.Contains(h.said(s), "end of environment") })
	info, err := os.Stat(h.file(s, "agent.log.1"))
	require.NoError(t, err)
	require.Equal(t, int64(logLimit+len("before\n")), info.Size())
}

func TestCheckSaysWhatDoesNotWork(t *testing.T) {
	h := newHouse(t, func(h *house) { h.options.Binary = "/nonexistent/millpond" })
	err := h.Check(t.Context(), settings)
	require.True(t, domain.IsCode(err, domain.CodeInvalid))
	require.Contains(t, err.Error(), "/nonexistent/millpond")
	for _, wrong := range []machine.ProviderSettings{
		{Kind: machine.ProviderEC2}, {Kind: machine.ProviderLocal, Region: "eu-west-1"}, {Kind: machine.ProviderLocal, Role: "r"}, {Kind: machine.ProviderLocal, ExternalID: "x"},
	} {
		require.True(t, domain.IsCode(h.Check(t.Context(), wrong), domain.CodeInvalid), wrong)
	}
	left, err := filepath.Glob(filepath.Join(h.dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
	h = newHouse(t)
	require.NoError(t, h.Check(t.Context(), machine.ProviderSettings{Kind: machine.ProviderLocal, Region: "local"}))
}

func TestOneOddMachineDoesNotKeepTheServerFromStarting(t *testing.T) {
	gone := make(chan machine.Ref, 10)
	h := newHouse(t, func(h *house) { h.options.Gone = func(ref machine.Ref) { gone <- ref } })
	odd, sound := h.spec("cmp_odd", 1), h.spec("cmp_sound", 1)
	h.ensure(odd)
	h.ensure(sound)
	h.kill(odd.Machine)
	require.Equal(t, odd.Ref, <-gone)
	m, err := h.machineDir(odd.Machine)
	require.NoError(t, err)
	r, err := m.read()
	require.NoError(t, err)
	r.Process = process{}
	require.NoError(t, m.write(r))
	for range 2 { // two unrecorded ones at once
		_, err := launch("/proc/self/exe", []string{"millpond", "agent", "--server", doEnv, "--data-dir", m.data()}, &os.ProcAttr{Dir: m.dir})
		require.NoError(t, err)
	}
	h.eventually(func() bool { return len(h.agents(odd.Machine)) == 2 })
	h.reopen()
	require.True(t, h.alive(sound))
	_, _, err = h.Alive(t.Context(), odd.Ref)
	require.ErrorContains(t, err, "all work in")
	h.kill(sound.Machine)
	require.Equal(t, sound.Ref, <-gone)
	require.NoError(t, h.Release(t.Context(), odd.Ref))
	require.Empty(t, h.agents(odd.Machine))
}

func TestTheLastLineOfALogIsItsMessage(t *testing.T) {
	long := strings.Repeat("ä", 400)
	for log, want := range map[string]string{
		"": "",
		"panic: it broke\n\ngoroutine 1 [running]:\n\n": "goroutine 1 [running]:",
		"first\ntime=2026-11-21T15:00:00.000Z level=ERROR msg=\"the server refuses this agent\" agent=agt_1 error=\"401: \\\"no\\\" such token\"\n": `the server refuses this agent: 401: "no" such token`,
		"time=2026-11-21T15:00:00.000Z level=INFO msg=stopped attempts=0\n":                                                                         "stopped",
		"time=2026-11-21T15:00:00.000Z level=INFO msg=stopped peer=\"msg=no error=no\" error=EOF\n":                                                 "stopped: EOF",
		`{"time":"2026-11-21T15:00:00Z","level":"ERROR","msg":"cannot go on","error":"EOF","attempt":{"n":1}}`:                                      "cannot go on: EOF",
		`{"time":"2026-11-21T15:00:00Z","level":"ERROR","msg":"cannot go on","error":{"code":1}}`:                                                   "cannot go on",
		`{"msg":`:                      `{"msg":`,
		"time=now and no message":      "time=now and no message",
		"time=now level=INFO msg=\"br": "time=now level=INFO msg=\"br",
		long:                           strings.Repeat("ä", 148) + "…",
		"time=2026-11-21T15:00:00.000Z level=ERROR msg=\"" + long + "\"": strings.Repeat("ä", 148) + "…",
	} {
		require.Equal(t, want, lastLine([]byte(log)), log)
		require.LessOrEqual(t, len(lastLine([]byte(log))), 300)
	}
}
