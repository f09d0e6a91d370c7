package rest

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/store"
)

// machines is the provider of the test world.
type machines struct {
	*machine.Reconciler
	cloud   *provisiontest.Simulated
	store   *store.Store
	made    chan machine.Spec
	refuses atomic.Pointer[domain.Error] // why creation fails; nil while it succeeds
	full    atomic.Bool                  // no machine fits
}

// crowded is a provider that can be full, and accepts no role.
type crowded struct {
	*provisiontest.Simulated
	full *atomic.Bool
}

// Flavors implements machine.Provider.
func (c crowded) Flavors(ctx context.Context, p machine.ProviderSettings) ([]machine.Flavor, error) {
	all, err := c.Simulated.Flavors(ctx, p)
	for i := range all {
		all[i].Available = !c.full.Load()
	}
	return all, err
}

// Check implements machine.Provider.
func (c crowded) Check(ctx context.Context, p machine.ProviderSettings) error {
	if p.Role != "" || p.ExternalID != "" {
		return domain.Invalid("role", "The role %q with the external id %q cannot be assumed.", p.Role, p.ExternalID)
	}
	return c.Simulated.Check(ctx, p)
}

func newMachines(st *store.Store, clock domain.Clock, runs *job.Runs) *machines {
	m := &machines{store: st, made: make(chan machine.Spec, 100)}
	provider := provisiontest.NewSimulated(provisiontest.Hooks{
		Before: func(_ context.Context, op provisiontest.Operation, _ machine.Ref) error {
			if err := m.refuses.Load(); err != nil && op == provisiontest.OpEnsure {
				return err
			}
			return nil
		},
		Made: func(spec machine.Spec) { m.made <- spec },
	})
	m.cloud = provider
	m.Reconciler = &machine.Reconciler{
		Store: store.For[machine.Tx](st), System: st.System(), Clock: clock, Topics: st.Topics(), Work: job.TaskWork{Runs: runs}, Providers: machine.Providers{machine.ProviderLocal: crowded{provider, &m.full}},
		Times: machine.DefaultTimes, Heartbeat: machine.DefaultLease.Heartbeat, Host: "host", Report: func(error) {},
	}
	return m
}

// noun is one of the two kinds of machines, with the names of its fields.
type noun struct {
	path, prefix, size, state string
}

var (
	computeNoun   = noun{"/compute", "cmp_", "flavor", "status"}
	warehouseNoun = noun{"/sql/warehouses", "wh_", "size", "state"}
)

func (n noun) body(name, flavor string) map[string]any {
	return map[string]any{"name": name, n.size: flavor}
}

// machine creates a machine of the smallest flavor and returns its id.
func (w *world) machine(n noun, token, name string) string {
	w.t.Helper()
	id, _ := w.call(token, "POST", n.path, n.body(name, "cpu.1")).object(http.StatusCreated)["id"].(string)
	return id
}

func (w *world) state(n noun, id string) string {
	w.t.Helper()
	state, _ := w.call(w.ours.viewer, "GET", n.path+"/"+id, nil).object(200)[n.state].(string)
	return state
}

// reconcile runs the due work of machines.
func (w *world) reconcile() {
	w.t.Helper()
	_, err := w.machines.Tick(w.t.Context())
	require.NoError(w.t, err)
	w.machines.Wait()
}

// arrives creates the machine that was started last, and connects its agent.
func (w *world) arrives() *worker {
	w.t.Helper()
	w.reconcile()
	select {
	case spec := <-w.machines.made:
		_, token, err := w.services.Agents.Enroll(w.t.Context(), spec.Bootstrap)
		require.NoError(w.t, err)
		return w.connectWith(token)
	default:
		require.Fail(w.t, "no machine was made")
		return nil
	}
}

// started starts the machine and waits until it runs.
func (w *world) started(n noun, id string) *worker {
	w.t.Helper()
	w.call(w.ours.editor, "POST", n.path+"/"+id+"/start", nil).object(200)
	k := w.arrives()
	require.Equal(w.t, "running", w.state(n, id))
	return k
}

// bothNouns runs the test for compute instances and for warehouses, each in its own world.
func bothNouns(t *testing.T, test func(*testing.T, *world, noun)) {
	t.Helper()
	for _, n := range []noun{computeNoun, warehouseNoun} {
		t.Run(n.path, func(t *testing.T) { test(t, newWorld(t), n) })
	}
}

func TestMachineFromStartToGone(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		token, id := w.ours.editor, w.machine(n, w.ours.editor, "one")
		one := n.path + "/" + id
		require.Regexp(t, "^"+n.prefix, id)
		made := w.call(token, "GET", one, nil).object(200)
		require.Equal(t, "stopped", made[n.state])
		require.Equal(t, []any{"one", "cpu.1", "local", "1h", ""}, []any{made["name"], made[n.size], made["region"], made["auto_stop"], made["image_ref"]})
		require.Contains(t, w.call(token, "POST", one+"/stop", nil).refused(409), "is stopped already")

		starting := w.call(token, "POST", one+"/start", nil).object(200)
		require.Equal(t, "starting", starting[n.state])
		require.Equal(t, "Started by editor@"+string(w.ours.id)+".example.", starting["message"])
		require.Contains(t, w.call(token, "POST", one+"/start", nil).refused(409), "is starting already")
		require.Contains(t, w.call(token, "DELETE", one, nil).refused(409), "stop it first")
		agent := w.arrives()

		running := w.call(token, "GET", one, nil).object(200)
		require.Equal(t, "running", running[n.state])
		require.Regexp(t, "@sha256:", running["image_ref"])
		require.NotNil(t, running["auto_stop_at"])
		require.Equal(t, agent.scope.Actor().ID, running["agent_id"])
		require.Contains(t, w.call(token, "POST", one+"/start", nil).refused(409), "is running already")
		require.Contains(t, w.call(token, "DELETE", one, nil).refused(409), "is running: stop it first")
		require.Equal(t, running, w.call(token, "GET", one, nil).object(200), "nothing was changed")

		stopping := w.call(token, "POST", one+"/stop", nil).object(200)
		require.Equal(t, "stopping", stopping[n.state])
		require.Contains(t, w.call(token, "POST", one+"/stop", nil).refused(409), "is stopping already")
		require.Contains(t, w.call(token, "POST", one+"/start", nil).refused(409), "start it when it is stopped")
		require.Contains(t, w.call(token, "DELETE", one, nil).refused(409), "is stopping")
		w.reconcile()
		stopped := w.call(token, "GET", one, nil).object(200)
		require.Equal(t, "stopped", stopped[n.state])
		require.Nil(t, stopped["auto_stop_at"])
		require.Equal(t, running["image_ref"], stopped["image_ref"], "the image stays pinned")

		r := w.call(token, "DELETE", one, nil)
		require.Equal(t, 204, r.status)
		require.Empty(t, r.body)
		for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/start"}, {"POST", "/stop"}, {"GET", "/metrics"}, {"GET", "/logs"}} {
			w.call(token, c[0], one+c[1], nil).refused(404)
		}
		require.NotContains(t, w.call(token, "GET", n.path, nil).body, id)
		w.machine(n, token, "one") // the name is free again
	})
}

func TestMachineThatFails(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		id := w.machine(n, w.ours.editor, "one")
		one := n.path + "/" + id
		w.machines.refuses.Store(domain.Invalid("image", "The cloud has none of these."))
		w.call(w.ours.editor, "POST", one+"/start", nil).object(200)
		w.reconcile()
		failed := w.call(w.ours.viewer, "GET", one, nil).object(200)
		require.Equal(t, []any{"failed", "The cloud has none of these."}, []any{failed[n.state], failed["message"]})
		w.reconcile() // removes the rest of the machine
		w.machines.refuses.Store(nil)
		w.started(n, id)

		full := w.machine(n, w.ours.editor, "two")
		w.machines.full.Store(true)
		require.Contains(t, w.call(w.ours.editor, "POST", n.path+"/"+full+"/start", nil).refused(409), "no room")
		require.Equal(t, "stopped", w.state(n, full))
	})
}

func TestMachineIsMadeOfWhatIsKnown(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		token := w.ours.editor
		before := w.snapshot()
		for _, c := range []struct{ body, says string }{
			{`{}`, `The field "name" is required.`},
			{`{"name":"x"}`, `The field "` + n.size + `" is required.`},
			{`{"` + n.size + `":"cpu.1"}`, `The field "name" is required.`},
			{`{"name":" ","` + n.size + `":"cpu.1"}`, `name is empty`},
			{`{"name":"x","` + n.size + `":"gpu.a100"}`, `There is no ` + n.size + ` "gpu.a100"; use one of: cpu.1, cpu.2, cpu.4, cpu.8, cpu.16, cpu.32, cpu.64.`},
			{`{"name":"x","` + n.size + `":""}`, `There is no ` + n.size + ` ""`},
			{`{"name":"x","` + n.size + `":"cpu.1","auto_stop":"5m"}`, `The value of "auto_stop" is wrong`},
			{`{"name":"x","` + n.size + `":"cpu.1","auto_stop":""}`, `The value of "auto_stop" is wrong`},
			{`{"name":"x","` + n.size + `":"cpu.1","image":"ubuntu"}`, `The image "ubuntu" is not known here; choose default or simulated:1.`},
			{`{"name":"x","` + n.size + `":"cpu.1","slots":-1}`, `slots`},
			{`{"name":"x","` + n.size + `":"cpu.1","slots":100000}`, `slots`},
			{`{"name":"x","` + n.size + `":"cpu.1","region":"eu"}`, `There is no field "region" here`},
			{`{"name":"x","` + n.size + `":"cpu.1","` + n.state + `":"running"}`, `There is no field "` + n.state + `" here`},
		} {
			require.Contains(t, w.call(token, "POST", n.path, c.body).refused(400), c.says, c.body)
		}
		require.Equal(t, before, w.snapshot())

		for _, choice := range []string{"30m", "1h", "2h", "never"} {
			body := n.body("stops after "+choice, "cpu.2")
			body["auto_stop"], body["image"], body["slots"] = choice, "simulated:1", 7
			id, _ := w.call(token, "POST", n.path, body).object(201)["id"].(string)
			made := w.call(token, "GET", n.path+"/"+id, nil).object(200)
			require.Equal(t, []any{choice, "simulated:1", 7.0, "cpu.2"}, []any{made["auto_stop"], made["image"], made["slots"], made[n.size]})
		}
	})
}

// A name is trimmed, and unique among the workspace's machines of its kind. It is case-sensitive.
func TestMachineNamesAreUnique(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		token := w.ours.editor
		w.machine(n, token, "trainer")
		for _, same := range []string{"trainer", "  trainer ", "trainer\t"} {
			require.Contains(t, w.call(token, "POST", n.path, n.body(same, "cpu.1")).refused(409), `"trainer" already`)
		}
		other := w.machine(n, token, "Trainer")
		w.call(token, "PATCH", n.path+"/"+other, `{"name":"trainer "}`).refused(409)
		w.call(token, "PATCH", n.path+"/"+other, `{"name":"Trainer"}`).object(200)
		for _, kind := range []noun{computeNoun, warehouseNoun} {
			w.machine(kind, w.theirs.editor, "trainer")
			if kind != n {
				w.machine(kind, token, "trainer")
			}
		}
	})
}

func TestMachineChanges(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		token, id := w.ours.editor, w.machine(n, w.ours.editor, "one")
		one := n.path + "/" + id
		patch := func(body string) reply { return w.call(token, "PATCH", one, body) }
		before := w.call(token, "GET", one, nil).object(200)
		require.Equal(t, before, patch(`{}`).object(200))
		require.Equal(t, before, patch(`{"name":null,"auto_stop":null,"`+n.size+`":null,"image":null,"slots":null}`).object(200), "null leaves a field as it is")

		changed := patch(`{"name":"two","auto_stop":"never","` + n.size + `":"cpu.4","image":"simulated:1","slots":3}`).object(200)
		require.Equal(t, []any{"two", "never", "cpu.4", "simulated:1", 3.0}, []any{changed["name"], changed["auto_stop"], changed[n.size], changed["image"], changed["slots"]})
		for body, says := range map[string]string{
			`{"` + n.size + `":"cpu.3"}`: "use one of: cpu.1", `{"auto_stop":"1d"}`: "auto_stop", `{"image":"ubuntu"}`: "simulated:1", `{"name":""}`: "name is empty", `{"slots":-1}`: "slots",
		} {
			require.Contains(t, patch(body).refused(400), says, body)
		}

		w.started(n, id)
		running := w.call(token, "GET", one, nil).object(200)
		require.Nil(t, running["auto_stop_at"], "it never stops by itself")
		for _, body := range []string{`{"` + n.size + `":"cpu.2"}`, `{"image":""}`, `{"slots":1}`, `{"name":"three","slots":1}`} {
			require.Contains(t, patch(body).refused(409), "change only while it is stopped", body)
		}
		require.Equal(t, running, w.call(token, "GET", one, nil).object(200), "nothing was changed")
		changed = patch(`{"name":"three","auto_stop":"30m"}`).object(200)
		require.Equal(t, []any{"three", "30m", "running"}, []any{changed["name"], changed["auto_stop"], changed[n.state]})
		require.NotNil(t, changed["auto_stop_at"])

		w.call(token, "POST", one+"/stop", nil).object(200)
		w.reconcile()
		require.NotEmpty(t, w.call(token, "GET", one, nil).object(200)["image_ref"])
		require.Empty(t, patch(`{"image":"simulated:1"}`).object(200)["image_ref"], "it is pinned again at the next start")
	})
}

func TestMachineLists(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		for i := range 5 {
			w.machine(n, w.ours.editor, fmt.Sprint("machine ", i))
			w.machine(n, w.theirs.editor, fmt.Sprint("theirs ", i))
		}
		var names []any
		next, more := "", true
		for more {
			page := w.call(w.ours.viewer, "GET", n.path+"?limit=2&cursor="+next, nil).object(200)
			data, _ := page["data"].([]any)
			require.LessOrEqual(t, len(data), 2)
			for _, item := range data {
				machine, _ := item.(map[string]any)
				for _, field := range []string{"id", "name", n.size, n.state, "region", "auto_stop"} {
					require.NotEmpty(t, machine[field], field)
				}
				if machine["name"] != "default" { // the first warehouse of a workspace
					names = append(names, machine["name"])
				}
			}
			next, more = page["next_cursor"].(string)
		}
		require.Equal(t, []any{"machine 0", "machine 1", "machine 2", "machine 3", "machine 4"}, names, "oldest first")
	})
}

func TestMachineIdempotencyKeys(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		token := w.ours.editor
		before := len(w.call(token, "GET", n.path, nil).data(200))
		first := w.call(token, "POST", n.path, n.body("once", "cpu.1"), "Idempotency-Key", "k1")
		again := w.call(token, "POST", n.path, n.body("once", "cpu.1"), "Idempotency-Key", "k1")
		require.Equal(t, 201, first.status, first.body)
		require.Equal(t, []any{first.status, first.body, first.header.Get("Location")}, []any{again.status, again.body, again.header.Get("Location")})
		w.call(token, "POST", n.path, n.body("once", "cpu.2"), "Idempotency-Key", "k1").refused(409)
		require.Len(t, w.call(token, "GET", n.path, nil).data(200), before+1)

		id, _ := first.object(201)["id"].(string)
		start := n.path + "/" + id + "/start"
		require.Equal(t, "starting", w.call(token, "POST", start, nil, "Idempotency-Key", "s1").object(200)[n.state])
		require.Equal(t, "starting", w.call(token, "POST", start, nil, "Idempotency-Key", "s1").object(200)[n.state])
		w.call(token, "POST", start, nil, "Idempotency-Key", "s2").refused(409)
		w.arrives()
		require.Equal(t, "running", w.call(token, "POST", start, nil, "Idempotency-Key", "s1").object(200)[n.state], "it is not started again")
		other := w.machine(n, token, "other")
		w.call(token, "POST", n.path+"/"+other+"/start", nil, "Idempotency-Key", "s1").refused(409)
		require.Equal(t, "stopped", w.state(n, other))
	})
}

// Each noun's path answers 404 for the other noun's ids, another workspace's ids, and unknown ids.
func TestMachinesOfOthersAreNotFound(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		other := computeNoun
		if n == computeNoun {
			other = warehouseNoun
		}
		before := w.snapshot()
		for _, id := range []string{w.machine(other, w.theirs.editor, "x"), w.machine(n, w.theirs.editor, "x"), n.prefix + "x", "x"} {
			one := n.path + "/" + id
			for _, c := range []struct{ method, path, body string }{
				{"GET", one, ""},
				{"PATCH", one, `{"name":"y"}`},
				{"PATCH", one, `{"` + n.size + `":"cpu.2"}`},
				{"DELETE", one, ""},
				{"POST", one + "/start", ""},
				{"POST", one + "/stop", ""},
				{"GET", one + "/metrics", ""},
				{"GET", one + "/logs", ""},
			} {
				var body any
				if c.body != "" {
					body = c.body
				}
				w.call(w.ours.admin, c.method, c.path, body).refused(404)
			}
		}
		require.Equal(t, before, w.snapshot())
		ours := w.machine(other, w.ours.editor, "of the other kind")
		for _, c := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/start"}, {"GET", "/logs"}, {"GET", "/metrics"}} {
			w.call(w.ours.editor, c[0], n.path+"/"+ours+c[1], nil).refused(404)
		}
		require.Equal(t, "stopped", w.state(other, ours))
	})
}

func TestMachineViewers(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		one := n.path + "/" + w.machine(n, w.ours.editor, "one")
		before := w.snapshot()
		w.call(w.ours.viewer, "POST", n.path, n.body("two", "cpu.1")).refused(403)
		w.call(w.ours.viewer, "PATCH", one, `{"name":"two"}`).refused(403)
		w.call(w.ours.viewer, "DELETE", one, nil).refused(403)
		w.call(w.ours.viewer, "POST", one+"/start", nil).refused(403)
		w.call(w.ours.viewer, "POST", one+"/stop", nil).refused(403)
		require.Equal(t, before, w.snapshot())
		w.call(w.ours.viewer, "GET", one, nil).object(200)
	})
}

func TestMachineLogs(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		id := w.machine(n, w.ours.editor, "one")
		logs := n.path + "/" + id + "/logs"
		empty := w.call(w.ours.viewer, "GET", logs, nil)
		require.Equal(t, []any{200, "", "text/plain; charset=utf-8"}, []any{empty.status, empty.body, empty.header.Get("Content-Type")})
		w.started(n, id)
		require.Equal(t, "incarnation 1 began as instance-1\n", w.call(w.ours.viewer, "GET", logs, nil).body)
		require.Equal(t, "ance-1\n", w.call(w.ours.viewer, "GET", logs+"?bytes=7", nil).body)
		for _, bytes := range []string{"0", "-1", "1048577", "x"} {
			require.Contains(t, w.call(w.ours.viewer, "GET", logs+"?bytes="+bytes, nil).refused(400), "bytes")
		}
		w.call(w.ours.editor, "POST", n.path+"/"+id+"/stop", nil).object(200)
		w.reconcile()
		require.Contains(t, w.call(w.ours.viewer, "GET", logs, nil).body, "incarnation 1", "it is there after a stop")
	})
}

func TestMachineMetrics(t *testing.T) {
	bothNouns(t, func(t *testing.T, w *world, n noun) {
		id := w.machine(n, w.ours.editor, "one")
		metrics := n.path + "/" + id + "/metrics"
		require.Equal(t, `{"samples":[]}`, w.call(w.ours.viewer, "GET", metrics, nil).body)
		agent := w.started(n, id)
		for i := range 3 {
			w.clock.advance(machine.MetricsEvery)
			require.NoError(t, w.services.Agents.Measured(t.Context(), agent.scope, machine.Metrics{
				CPU: 0.5 + float64(i), Cores: 4, Memory: 1 << 30, MemoryTotal: 4 << 30, Disk: 5 << 40, DiskTotal: 6 << 40,
				GPUs: []machine.GPUMetrics{{Name: "A100", Load: 0.25, Memory: 1 << 33, MemoryTotal: 1 << 36}},
			}))
		}
		samples, _ := w.call(w.ours.viewer, "GET", metrics, nil).object(200)["samples"].([]any)
		require.Len(t, samples, 3)
		var cpu []any
		for _, s := range samples {
			sample, _ := s.(map[string]any)
			cpu = append(cpu, sample["cpu"])
		}
		require.Equal(t, []any{0.5, 1.5, 2.5}, cpu, "oldest first")
		second, _ := samples[1].(map[string]any)
		require.Equal(t, map[string]any{
			"at": second["at"], "cpu": 1.5, "cores": 4.0, "memory": float64(1 << 30), "memory_total": float64(4 << 30), "disk": float64(5 << 40), "disk_total": float64(6 << 40),
			"gpus": []any{map[string]any{"name": "A100", "load": 0.25, "memory": float64(1 << 33), "memory_total": float64(1 << 36)}},
		}, second)
		later, _ := w.call(w.ours.viewer, "GET", metrics+"?since="+fmt.Sprint(second["at"]), nil).object(200)["samples"].([]any)
		require.Equal(t, samples[2:], later)
		require.Contains(t, w.call(w.ours.viewer, "GET", metrics+"?since=yesterday", nil).refused(400), "since")

		w.clock.advance(machine.MetricsKept + time.Minute)
		w.ours = w.renewed(w.ours)
		require.Equal(t, `{"samples":[]}`, w.call(w.ours.viewer, "GET", metrics, nil).body, "the last hour is kept")
	})
}
