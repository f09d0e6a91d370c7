package worker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/proc"
)

func TestTheEnvironmentIsTheAttemptsAlone(t *testing.T) {
	t.Setenv("MILLPOND_AGENT_SECRET", "leaked")
	t.Setenv("CUDA_VISIBLE_DEVICES", "1") // tasks get the variable with the machine's GPUs
	bothUsers(t, func(t *testing.T, c *control, o Options) {
		c.agent(o)
		c.start(agent.Attempt{
			ID: "att_1", Command: "env -0 | tr '\\0' '\\n'; pwd; cat; ls -A; stat -c %a \"$TMPDIR\"; ls /proc/self/fd",
			Env: map[string]string{"MILLPOND_RUN": "run_1", "LANG": "de_DE.UTF-8", "MULTI": "a b=c"},
		})
		require.Equal(t, 0, *c.exited("att_1").ExitCode)
		out := lines(c.record("att_1").head)
		work := filepath.Join(o.Dir, "attempts", "att_1", "work")
		var names []string
		for _, line := range out[:slices.Index(out, work)] {
			name, _, _ := strings.Cut(line, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		names = slices.DeleteFunc(names, func(n string) bool { return n == "_" || n == "OLDPWD" || n == "PWD" || n == "SHLVL" }) // sh's own
		require.Equal(t, []string{"CUDA_VISIBLE_DEVICES", "HOME", "LANG", directoryMarker, marker, "MILLPOND_RUN", "MULTI", "PATH", "TMPDIR", "USER"}, names)
		require.Subset(t, out, []string{"CUDA_VISIBLE_DEVICES=1", "HOME=" + work, "TMPDIR=" + work + "/.tmp", "LANG=de_DE.UTF-8", "MULTI=a b=c", "700"})
		require.NotContains(t, string(c.record("att_1").head), "leaked")
		// Standard input is empty, and no descriptor of the shim is inherited: only 0, 1, 2 and
		// ls's own exist.
		require.Equal(t, []string{"0", "1", "2", "3"}, out[len(out)-4:])
	})
}

func TestNoShimHasTheAgentsEnvironment(t *testing.T) {
	t.Setenv("MILLPOND_AGENT_SECRET", "leaked")
	c := newControl(t)
	c.agent(c.options())
	waitFor(t, func() bool { return len(idleShims()) > 0 })
	for _, pid := range idleShims() {
		b, err := os.ReadFile(proc.Path(pid, "environ"))
		require.NoError(t, err)
		require.Empty(t, b)
	}
}

func TestTasksAreKeptApart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tasks users of their own")
	}
	c := newControl(t)
	o := c.options()
	c.agent(o)
	other := filepath.Join(o.Dir, "attempts", "att_2")
	c.start(agent.Attempt{
		ID: "att_2", Command: "echo $$; id -u; echo secret > mine; exec sleep 1000", Env: map[string]string{"TOKEN": "run-token"},
		Files: []agent.File{{Path: "dir/script.sh", Mode: 0o750, Data: []byte("exit 0")}},
	})
	c.until("two lines", waitLimit, func() bool { return len(lines(c.attempts["att_2"].head)) == 2 })
	second := lines(c.record("att_2").head)
	c.start(agent.Attempt{ID: "att_1", Command: fmt.Sprintf(`id -u; id -G; grep NoNewPrivs /proc/self/status | tr -d '\t'
		for f in %[1]s/spec.json %[1]s/log %[1]s/work/mine %[1]s/work/dir/script.sh %[2]s/agent.lock ../spec.json ../log ../marks ../started.json /proc/$PPID/environ /proc/%[3]s/environ; do
			cat $f 2>/dev/null && echo "could read $f"
		done
		ls %[2]s %[2]s/attempts .. 2>/dev/null && echo could list
		kill -9 %[3]s 2>/dev/null && echo could kill
		echo x 2>/dev/null > ../log && echo could write
		echo out > /dev/stdout; echo err > /dev/stderr`, other, o.Dir, second[0])})
	c.exited("att_1")
	first := lines(c.record("att_1").head)
	require.Len(t, first, 5, "%s", first)
	require.NotEqual(t, first[0], second[1])
	require.NotEqual(t, "0", first[0])
	require.Equal(t, []string{first[0], "NoNewPrivs:1", "out", "err"}, first[1:])
	c.cancel("att_2")
	c.exited("att_2")
}

func TestTwoAgentsOfOneMachineShareTheUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tasks users of their own")
	}
	r := ownUsers(t, 4)
	one, two := mustUsers(t, r), mustUsers(t, r)
	var taken []*user
	seen := map[uint32]bool{}
	for i := range 4 {
		u, err := []*users{one, two}[i%2].take()
		require.NoError(t, err)
		require.False(t, seen[u.id])
		seen[u.id] = true
		taken = append(taken, u)
	}
	_, err := one.take()
	require.ErrorContains(t, err, "in use")
	taken[2].release()
	u, err := two.take()
	require.NoError(t, err)
	require.Equal(t, taken[2].id, u.id)
	for _, u := range append(taken, u) {
		u.release()
	}
}

// TestUserOfAKilledShim: a killed shim holds its user's lock until its last thread has ended. The
// attempt's processes can be found only by their user, so the lock is waited for.
func TestUserOfAKilledShim(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has task users")
	}
	id := ownUsers(t, 1).First
	mustUsers(t, Users{First: id, Last: id})
	dying, err := lockUser(id)
	require.NoError(t, err)
	pauses := 0
	u := lockFreedUser(id, func() bool {
		if pauses++; pauses == 3 {
			dying.release()
		}
		return true
	})
	require.NotNil(t, u)
	require.Equal(t, 3, pauses)
	require.Nil(t, lockFreedUser(id, func() bool { return false }), "another agent's attempt uses the id")
	u.release()
}

func mustUsers(t *testing.T, r Users) *users {
	u, err := newUsers(r)
	require.NoError(t, err)
	t.Cleanup(func() { u.lastFile.Close() })
	return u
}

// ownUsers returns a range that no other test process of this machine uses. It removes the range's
// files after the test.
func ownUsers(t *testing.T, n uint32) Users {
	first := 1_000_000 + 16*uint32(os.Getpid())
	r := Users{First: first, Last: first + n - 1}
	t.Cleanup(func() {
		for _, dir := range []string{lastUserDir, userLocks} {
			_ = os.Remove(filepath.Join(dir, fmt.Sprintf("last-of-%d-%d", r.First, r.Last)))
		}
		for id := r.First; id <= r.Last; id++ {
			_ = os.Remove(filepath.Join(userLocks, fmt.Sprint(id)))
		}
		for _, m := range metadata {
			for exec.Command("ip", m.family, "rule", "del", "uidrange", fmt.Sprintf("%d-%d", r.First, r.Last), "to", m.address, "prohibit").Run() == nil {
			}
		}
	})
	return r
}

// Files that a task leaves in a shared directory belong to the next task with its user. So a user
// is reused only after all others of the range.
func TestAUserComesBackAfterAllOthersOfTheMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give tasks users of their own")
	}
	r := ownUsers(t, 5)
	running := mustUsers(t, r)
	var order []uint32
	for i := range 10 {
		from := running
		if i%2 == 1 {
			from = mustUsers(t, r) // a newly started agent
		}
		u, err := from.take()
		require.NoError(t, err)
		order = append(order, u.id-r.First)
		u.release()
	}
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}, order)
}

func TestTheTurnOfTheUsersIsFoundAgain(t *testing.T) {
	r := Users{First: 10, Last: 12}
	closed := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(closed, nil, 0o600))
	open := t.TempDir()
	for range 2 {
		f, err := openLastUser(r, filepath.Join(closed, "dir"), open)
		require.NoError(t, err)
		require.Equal(t, open, filepath.Dir(f.Name()))
		require.NoError(t, f.Close())
	}
	_, err := openLastUser(r, filepath.Join(closed, "dir"))
	require.ErrorContains(t, err, closed)
	for content, want := range map[string]uint32{"": 0, "0000000011\n": 11, "nonsense": 0, "99999999999999": 0} {
		require.NoError(t, os.WriteFile(filepath.Join(open, "last-of-10-12"), []byte(content), 0o600))
		f, err := openLastUser(r, open)
		require.NoError(t, err)
		require.Equal(t, want, (&users{Users: r, lastFile: f}).last())
		require.NoError(t, f.Close())
	}
}

func TestTheMetadataAddressIsClosedToTasks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can set routing rules")
	}
	if err := closeMetadata(context.Background(), dynamicUsers); err != nil {
		t.Skip("this machine sets no routing rules: ", err)
	}
	c := newControl(t)
	c.agent(c.options())
	c.start(agent.Attempt{ID: "att_1", Command: testBinary(t) + " connect 169.254.169.254:80"})
	require.Equal(t, 1, *c.exited("att_1").ExitCode)
	require.Contains(t, string(c.record("att_1").head), "permission denied")
}

func TestTheMetadataAddressIsClosedOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can set routing rules")
	}
	r := ownUsers(t, 4)
	uids := fmt.Sprintf("%d-%d", r.First, r.Last)
	if err := closeMetadata(t.Context(), r); err != nil {
		t.Skip("this machine sets no routing rules: ", err)
	}
	require.NoError(t, closeMetadata(t.Context(), r), "it is safe to repeat")
	for _, m := range metadata {
		rules, err := exec.Command("ip", m.family, "rule").Output()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(rules), "uidrange "+uids))
	}
}

func connectMain(address string) int {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	conn.Close()
	return 0
}

func TestADirectoryTasksCannotReachIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives tasks users of their own")
	}
	c := newControl(t)
	o := c.options()
	closed := filepath.Join(o.Dir, "closed")
	require.NoError(t, os.MkdirAll(closed, 0o755))
	require.NoError(t, os.Chmod(closed, 0o700))
	o.Dir = filepath.Join(closed, "agent")
	require.ErrorContains(t, Run(t.Context(), o), "chmod o+x "+closed)
}
