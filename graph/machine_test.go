package graph

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/agent/provision/provisiontest"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/loader"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

// machine creates a machine of the smallest flavor.
func (n *tenant) machine(of *machine.Machines, name string) machine.Machine {
	n.w.t.Helper()
	m, err := of.Create(n.w.t.Context(), n.editor.scope, machine.NewMachine{Name: name, Flavor: "cpu.1"}, domain.Idempotency{})
	require.NoError(n.w.t, err)
	return m
}

// measured stores a sample of a machine as if its agent had reported it, at any time.
func (n *tenant) measured(id domain.MachineID, m machine.Metrics) {
	n.w.t.Helper()
	require.NoError(n.w.t, n.w.db.In(n.w.t.Context(), n.admin.scope, func(tx *store.Tx) error { return tx.SaveMetrics(n.w.t.Context(), id, m) }))
	n.w.db.Topics().Wake(domain.MetricsTopic(id))
}

// fleet simulates the agents of machines of the simulated provider.
type fleet struct {
	w        *world
	mu       sync.Mutex
	scopes   map[domain.MachineID]domain.Scope
	sessions map[domain.MachineID]string
}

// reconcile runs the due work of machines until the test ends.
func (w *world) reconcile() *fleet {
	f := &fleet{w: w, scopes: map[domain.MachineID]domain.Scope{}, sessions: map[domain.MachineID]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	r := &machine.Reconciler{
		Store: store.For[machine.Tx](w.db), System: w.db.System(), Clock: w.services.Clock, Topics: w.db.Topics(), Work: job.TaskWork{Runs: w.services.Runs}, Times: machine.DefaultTimes, Heartbeat: machine.DefaultLease.Heartbeat,
		Providers: machine.Providers{machine.ProviderLocal: w.cloud.Reopen(provisiontest.Hooks{Made: func(m machine.Spec) { f.connect(ctx, m) }})},
		Host:      "here", Server: w.url, Report: func(err error) { w.t.Error(err) },
	}
	wake, stop := w.db.Topics().Subscribe(domain.ReconcileTopic)
	var ticking sync.WaitGroup
	ticking.Go(func() {
		defer stop()
		for ctx.Err() == nil {
			if _, err := r.Tick(ctx); err != nil && ctx.Err() == nil {
				w.t.Error(err)
			}
			select {
			case <-wake:
			case <-ctx.Done():
			}
		}
		r.Wait()
	})
	w.t.Cleanup(func() { cancel(); ticking.Wait() })
	return f
}

func (f *fleet) connect(ctx context.Context, m machine.Spec) {
	_, token, err := f.w.services.Agents.Enroll(ctx, m.Bootstrap)
	if err != nil {
		f.w.t.Errorf("enrolling: %v", err)
		return
	}
	scope, err := f.w.auth.Bearer(ctx, token)
	if err != nil {
		f.w.t.Errorf("the token of a machine's agent: %v", err)
		return
	}
	f.mu.Lock()
	session := domain.RequestID("")
	f.scopes[m.Machine], f.sessions[m.Machine] = scope, session
	f.mu.Unlock()
	_, err = f.w.services.Agents.Hello(ctx, scope, job.AgentHello{
		Session: session, Version: "1.2.3", Hostname: "host", OS: "linux", Arch: "amd64", Slots: 4, Token: domain.HashSecret(token),
		Engines: []machine.Engine{{Name: "duckdb", Version: "1.5.5"}},
	})
	if err != nil {
		f.w.t.Errorf("the hello of a machine's agent: %v", err)
	}
}

// says simulates a machine's agent that reports its usage.
func (f *fleet) says(id domain.MachineID, m machine.Metrics) {
	f.w.t.Helper()
	f.mu.Lock()
	scope := f.scopes[id]
	f.mu.Unlock()
	require.NoError(f.w.t, f.w.services.Agents.Measured(f.w.t.Context(), scope, m))
}

const machineFields = `id name state desired message autoStop autoStopAt image imageRef slots createdBy lastUsedAt pricePerHour currency incarnation restarts region agent { status } `

// noun is one of the two kinds of machines, which have the same operations.
type noun struct {
	one, many, created, size, updated string
}

var nouns = []noun{
	{one: "compute", many: "computeInstances", created: "Compute", size: "flavor", updated: "computeUpdated"},
	{one: "warehouse", many: "warehouses", created: "Warehouse", size: "size", updated: "warehouseUpdated"},
}

// does runs a mutation of one machine and returns the answer.
func (n noun) does(w *world, who header, verb string, input map[string]any) answer {
	w.t.Helper()
	selection := fmt.Sprintf("%s { %s %s }", n.one, machineFields, n.size)
	if verb == "delete" {
		selection = "id"
	}
	return w.query(who, fmt.Sprintf("mutation($input: %s%sInput!) { it: %s%s(input: $input) { %s } }", title(verb), n.created, verb, n.created, selection), map[string]any{"input": input})
}

func title(verb string) string { return string(verb[0]-'a'+'A') + verb[1:] }

// did runs a mutation that must succeed.
func (n noun) did(w *world, who header, verb string, input map[string]any) any {
	w.t.Helper()
	a := n.does(w, who, verb, input)
	require.Empty(w.t, a.Errors, "%s", a.Body)
	if verb == "delete" {
		return at(a.Data, "it")
	}
	return at(a.Data, "it", n.one)
}

func TestAMachineFromItsMakingToItsEnd(t *testing.T) {
	w := newWorld(t, quick)
	a, b := w.tenant("acme"), w.tenant("beta")
	w.reconcile()
	me := bearer(a.editor.token)
	for _, n := range nouns {
		t.Run(n.one, func(t *testing.T) {
			w := w
			get := func(id any) any {
				return w.ok(me, fmt.Sprintf(`query($id: ID!) { %s(id: $id) { %s %s log } }`, n.one, machineFields, n.size), map[string]any{"id": id})[n.one]
			}
			made := n.did(w, me, "create", map[string]any{"name": "gpu", n.size: "cpu.2", "idempotencyKey": n.one})
			id := at(made, "id")
			for field, want := range map[string]any{
				"name": "gpu", n.size: "cpu.2", "state": "STOPPED", "desired": "STOPPED", "message": nil, "autoStop": "1h", "autoStopAt": nil, "image": nil, "imageRef": nil,
				"slots": 0.0, "createdBy": "acme-editor@example.com", "pricePerHour": "0.08", "currency": "USD", "incarnation": 0.0, "region": "local",
			} {
				require.Equal(t, want, at(made, field), field)
			}
			require.Equal(t, made, n.did(w, me, "create", map[string]any{"name": "gpu", n.size: "cpu.2", "idempotencyKey": n.one}), "the same key, the same machine")
			taken := n.does(w, me, "create", map[string]any{"name": "gpu", n.size: "cpu.1"})
			require.Equal(t, "CONFLICT", taken.code())
			unknown := n.does(w, me, "create", map[string]any{"name": "other", n.size: "cpu.3"})
			require.Equal(t, "INVALID", unknown.code())
			require.Equal(t, n.size, unknown.Errors[0].Extensions["field"])
			require.Contains(t, unknown.Errors[0].Message, "cpu.1, cpu.2")
			require.Equal(t, "INVALID", n.does(w, me, "create", map[string]any{"name": "other", n.size: "cpu.1", "autoStop": "3h"}).code())
			require.Equal(t, "INVALID", n.does(w, me, "update", map[string]any{"id": id, "image": "ubuntu"}).code())
			require.Equal(t, made, n.did(w, me, "update", map[string]any{"id": id, "name": nil, "slots": nil}), "what is null stays")
			changed := n.did(w, me, "update", map[string]any{"id": id, "autoStop": "30m", "slots": 3, n.size: "cpu.1"})
			require.Equal(t, []any{"30m", 3.0, "cpu.1", "0.04"}, []any{at(changed, "autoStop"), at(changed, "slots"), at(changed, n.size), at(changed, "pricePerHour")})

			c := w.open(bearer(a.viewer.token), nil)
			events := c.subscribe(fmt.Sprintf(`subscription { it: %s { id state imageRef agent { status } } }`, n.updated), nil)
			is := func(state string) func(map[string]any) bool {
				return func(d map[string]any) bool { return at(d, "it", "id") == id && at(d, "it", "state") == state }
			}
			c.until(events, is("STOPPED"))
			require.Equal(t, "STARTING", at(n.did(w, me, "start", map[string]any{"id": id}), "state"))
			running := c.until(events, is("RUNNING"))
			require.Equal(t, "CONNECTED", at(running, "it", "agent", "status"))
			require.NotNil(t, at(get(id), "autoStopAt"))
			require.Equal(t, "incarnation 1 began as instance-", string(decoded(t, at(get(id), "log")))[:32])
			require.Equal(t, "CONFLICT", n.does(w, me, "start", map[string]any{"id": id}).code())
			require.Equal(t, "CONFLICT", n.does(w, me, "delete", map[string]any{"id": id}).code())
			require.Equal(t, "CONFLICT", n.does(w, me, "update", map[string]any{"id": id, "slots": 4}).code())
			require.Equal(t, "NOT_FOUND", n.does(w, bearer(b.admin.token), "stop", map[string]any{"id": id}).code())
			require.Equal(t, "FORBIDDEN", n.does(w, bearer(a.viewer.token), "stop", map[string]any{"id": id}).code())

			require.Equal(t, "STOPPING", at(n.did(w, me, "stop", map[string]any{"id": id}), "state"))
			c.until(events, is("STOPPED"))
			stopped := get(id)
			require.NotNil(t, at(stopped, "imageRef"), "it stays pinned")
			require.Nil(t, at(stopped, "autoStopAt"))
			require.Equal(t, "CONFLICT", n.does(w, me, "stop", map[string]any{"id": id}).code())
			n.did(w, me, "delete", map[string]any{"id": id})
			require.Nil(t, get(id))
			require.Equal(t, "NOT_FOUND", n.does(w, me, "start", map[string]any{"id": id}).code())
		})
	}
}

func TestAMachineIsOfOneKindAlone(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	w.reconcile()
	me := bearer(a.editor.token)
	made := a.machine(w.services.Compute, "gpu")
	list := `{ warehouses { edges { node { id name size writeEngine engines { name version } createdBy } } } }`
	first := at(w.ok(me, list, nil), "warehouses", "edges", 0, "node")
	require.Equal(t, map[string]any{
		"id": at(first, "id"), "name": "default", "size": "cpu.1", "writeEngine": "duckdb", "engines": []any{}, "createdBy": "workspace",
	}, first, "a workspace begins with a warehouse, which never started")
	both := `query($c: ID!, $w: ID!) { compute(id: $c) { ...M } warehouse(id: $w) { ...M } } fragment M on Machine { id name }`
	data := w.ok(me, both, map[string]any{"c": made.ID, "w": at(first, "id")})
	require.Equal(t, "gpu", at(data, "compute", "name"))
	require.Equal(t, "default", at(data, "warehouse", "name"))
	data = w.ok(me, both, map[string]any{"c": at(first, "id"), "w": made.ID})
	require.Equal(t, map[string]any{"compute": nil, "warehouse": nil}, data)
	require.Equal(t, "NOT_FOUND", nouns[0].does(w, me, "start", map[string]any{"id": at(first, "id")}).code())
	require.Equal(t, "NOT_FOUND", nouns[1].does(w, me, "delete", map[string]any{"id": made.ID}).code())

	c := w.open(me, nil)
	events := c.subscribe(`subscription { warehouseUpdated { id state engines { name version } } }`, nil)
	nouns[1].did(w, me, "start", map[string]any{"id": at(first, "id")})
	running := c.until(events, func(d map[string]any) bool { return at(d, "warehouseUpdated", "state") == "RUNNING" })
	require.Equal(t, []any{map[string]any{"name": "duckdb", "version": "1.5.5"}}, at(running, "warehouseUpdated", "engines"))
}

const metricsSubscription = `subscription($id: ID!, $since: Time) { machineMetrics(id: $id, since: $since) { at cpu cores memory memoryTotal disk diskTotal gpus { name load memory memoryTotal } } }`

func TestWhatIsMeasuredOfAMachineIsFollowed(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	agents := w.reconcile()
	m := a.machine(w.services.Compute, "gpu")
	c := w.open(bearer(a.viewer.token), nil)
	states := c.subscribe(`subscription { computeUpdated { state } }`, nil)
	nouns[0].did(w, bearer(a.editor.token), "start", map[string]any{"id": m.ID})
	c.until(states, func(d map[string]any) bool { return at(d, "computeUpdated", "state") == "RUNNING" })

	now := time.Now()
	for _, ago := range []time.Duration{2 * time.Hour, 30 * time.Second, 20 * time.Second} {
		a.measured(m.ID, machine.Metrics{At: now.Add(-ago), CPU: ago.Seconds()})
	}
	follower := w.open(bearer(a.viewer.token), nil)
	all := follower.subscribe(metricsSubscription, map[string]any{"id": m.ID})
	require.Equal(t, 30.0, at(follower.event(all), "machineMetrics", "cpu"), "of the last hour")
	second := follower.event(all)
	require.Equal(t, 20.0, at(second, "machineMetrics", "cpu"))
	agents.says(m.ID, machine.Metrics{
		CPU: 0.5, Cores: 2, Memory: 1 << 40, MemoryTotal: 1 << 41, Disk: 3, DiskTotal: 4, GPUs: []machine.GPUMetrics{{Name: "H100", Load: 0.25, Memory: 5, MemoryTotal: 6}},
	})
	third := at(follower.event(all), "machineMetrics")
	require.Equal(t, map[string]any{
		"at": at(third, "at"), "cpu": 0.5, "cores": 2.0, "memory": "1099511627776", "memoryTotal": "2199023255552", "disk": "3", "diskTotal": "4",
		"gpus": []any{map[string]any{"name": "H100", "load": 0.25, "memory": "5", "memoryTotal": "6"}},
	}, third)
	later := w.open(bearer(a.viewer.token), nil)
	since := later.subscribe(metricsSubscription, map[string]any{"id": m.ID, "since": at(second, "machineMetrics", "at")})
	require.Equal(t, third, at(later.event(since), "machineMetrics"), "only what came after it")
	read := w.ok(bearer(a.viewer.token), `query($id: ID!, $since: Time) { compute(id: $id) { metrics { cpu } since: metrics(since: $since) { cpu } } }`,
		map[string]any{"id": m.ID, "since": at(second, "machineMetrics", "at")})
	require.Len(t, at(read, "compute", "metrics"), 3)
	require.Equal(t, []any{map[string]any{"cpu": 0.5}}, at(read, "compute", "since"))
	unknown := w.open(bearer(a.viewer.token), nil)
	require.Equal(t, "NOT_FOUND", unknown.failure(unknown.subscribe(metricsSubscription, map[string]any{"id": "cmp_no"})))
}

func TestSamplesAreBoundedByWhatThereIs(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	m := a.machine(w.services.Compute, "gpu")
	start := time.Now().Add(-machine.MetricsKept + time.Minute)
	require.NoError(t, w.db.In(t.Context(), a.admin.scope, func(tx *store.Tx) error {
		for i := range 700 {
			if err := tx.SaveMetrics(t.Context(), m.ID, machine.Metrics{At: start.Add(time.Duration(i) * machine.MetricsEvery)}); err != nil {
				return err
			}
		}
		return nil
	}))
	ask := func(fields int) answer {
		return w.query(bearer(a.viewer.token), `query($id: ID!) { compute(id: $id) { metrics { `+repeated(fields, "a%d: at ")+` } } }`, map[string]any{"id": m.ID})
	}
	require.Len(t, at(ask(10).Data, "compute", "metrics"), 700)
	require.Equal(t, "TOO_LARGE", ask(800).code(), "560,000 fields")
}

func TestPagesOfMachinesAndOfWhatRunsOnThemAreReadAtOnce(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	a.connect(100)
	me := bearer(a.viewer.token)
	_, err := w.services.Quotas.Update(t.Context(), a.admin.scope, quota.MaxRunningRuns, new(int64(100)))
	require.NoError(t, err)
	for i := range 12 {
		m := a.machine(w.services.Compute, fmt.Sprintf("machine %d", i))
		a.run(a.job(job.Spec{Compute: string(m.ID), Tasks: []job.TaskSpec{
			{Key: "one", Command: "true"}, {Key: "two", Command: "true", Compute: "machine 0"}, {Key: "three", Command: "true", DependsOn: []string{"one"}},
		}}))
	}
	for query, most := range map[string]int64{
		// Machines; flavors; agents.
		`query($n: Int!) { page: computeInstances(first: $n) { edges { node { name pricePerHour currency agent { name } } } } }`: 3,
		// Jobs; compute instances; flavors; agents.
		`query($n: Int!) { page: jobs(first: $n) { edges { node { compute { name pricePerHour agent { name } } tasks { compute { name } } } } } }`: 4,
		// Runs; tasks; compute instances.
		`query($n: Int!) { page: runs(first: $n) { edges { node { tasks { key compute { name } } } } } }`: 3,
	} {
		reads := func(n int) int64 {
			return w.fewestReads(func() { require.Len(t, at(w.ok(me, query, map[string]any{"n": n}), "page", "edges"), n) })
		}
		require.Equal(t, most, reads(12), query)
		require.Equal(t, most, reads(3), query)
	}
	page := at(w.ok(me, `{ runs(first: 1) { edges { node { tasks { compute { name } } } } } }`, nil), "runs", "edges", 0, "node", "tasks")
	require.Equal(t, []any{"machine 11", "machine 0", "machine 11"}, []any{at(page, 0, "compute", "name"), at(page, 1, "compute", "name"), at(page, 2, "compute", "name")})
}

// Fields of one response are loaded together, wherever they are selected.
func TestMachinesOfOneAnswerAreReadTogether(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := a.viewer.scope
	for i := range 5 {
		m, other := a.machine(w.services.Compute, fmt.Sprintf("machine %d", i)), a.machine(w.services.Compute, fmt.Sprintf("other %d", i))
		a.run(a.job(job.Spec{Compute: string(m.ID), Tasks: []job.TaskSpec{{Key: "one", Command: "true"}, {Key: "two", Command: "true", Compute: string(other.ID)}}}))
	}
	jobs, err := w.services.Jobs.List(t.Context(), me, job.Filter{}, domain.Page{})
	require.NoError(t, err)
	runs, err := w.services.Runs.Heads(t.Context(), me, job.RunFilter{}, domain.Page{})
	require.NoError(t, err)
	machines, err := w.services.Compute.List(t.Context(), me, domain.Page{})
	require.NoError(t, err)
	once := func(read func()) {
		t.Helper()
		before := w.counted.count.Load()
		read()
		require.Equal(t, int64(1), w.counted.count.Load()-before)
	}
	machine := func(l *loader.Loaders, id domain.MachineID) {
		t.Helper()
		m, err := l.Compute(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, m.ID)
	}
	l := loader.New(w.services.loaded(), w.lake, me)
	l.Expect(jobs.Items)
	once(func() {
		for _, j := range jobs.Items {
			machine(l, domain.MachineID(j.Compute))
			machine(l, domain.MachineID(j.Tasks[1].Compute))
		}
	})
	l = loader.New(w.services.loaded(), w.lake, me)
	l.Expect(runs.Items)
	_, err = l.Tasks(t.Context(), runs.Items[0])
	require.NoError(t, err)
	once(func() {
		for _, r := range runs.Items {
			tasks, err := l.Tasks(t.Context(), r)
			require.NoError(t, err)
			machine(l, tasks[0].Compute)
			machine(l, tasks[1].Compute)
		}
	})
	l = loader.New(w.services.loaded(), w.lake, me)
	l.Expect(machines.Items)
	once(func() {
		for _, m := range machines.Items {
			agent, err := l.Agent(t.Context(), m.AgentID)
			require.NoError(t, err)
			require.Equal(t, m.ID, agent.MachineID)
		}
	})
}

func TestAJobNamesItsComputeInstance(t *testing.T) {
	w := newWorld(t, quick)
	a, b := w.tenant("acme"), w.tenant("beta")
	me := bearer(a.editor.token)
	gpu, cpu := a.machine(w.services.Compute, "gpu"), a.machine(w.services.Compute, "cpu")
	b.machine(w.services.Compute, "theirs")
	const shown = `job { id compute { name } computeId computeFallback tasks { compute { name } computeId } }`
	create := `mutation($input: CreateJobInput!) { createJob(input: $input) { ` + shown + ` } }`
	update := `mutation($input: UpdateJobInput!) { updateJob(input: $input) { ` + shown + ` } }`
	task := func(compute any) []any {
		return []any{map[string]any{"key": "one", "command": "true", "compute": compute}}
	}
	j := at(w.ok(me, create, map[string]any{"input": map[string]any{"name": "etl", "compute": "gpu", "computeFallback": true, "tasks": task(cpu.ID)}}), "createJob", "job")
	require.Equal(t, map[string]any{
		"id": at(j, "id"), "compute": map[string]any{"name": "gpu"}, "computeId": string(gpu.ID), "computeFallback": true,
		"tasks": []any{map[string]any{"compute": map[string]any{"name": "cpu"}, "computeId": string(cpu.ID)}},
	}, j)
	change := func(input map[string]any) any {
		input["id"] = at(j, "id")
		return at(w.ok(me, update, map[string]any{"input": input}), "updateJob", "job")
	}
	require.Equal(t, j, change(map[string]any{"compute": nil, "computeFallback": nil}), "what is null stays")
	require.Nil(t, at(change(map[string]any{"tasks": task(nil)}), "tasks", 0, "computeId"))
	none := change(map[string]any{"compute": "", "computeFallback": false})
	require.Equal(t, []any{nil, nil, false}, []any{at(none, "compute"), at(none, "computeId"), at(none, "computeFallback")}, "the workspace's agent")
	for field, input := range map[string]map[string]any{
		"compute": {"name": "x", "command": "true", "compute": "theirs"}, "tasks[0].compute": {"name": "x", "tasks": task("no such")},
	} {
		refused := w.query(me, create, map[string]any{"input": input})
		require.Equal(t, "INVALID", refused.code())
		require.Equal(t, field, refused.Errors[0].Extensions["field"])
	}
	change(map[string]any{"compute": "gpu"})
	run := a.run(job.Job{ID: domain.JobID(at(j, "id").(string))})
	_, err := w.services.Runs.Cancel(t.Context(), a.editor.scope, run.ID)
	require.NoError(t, err)
	other := a.job(job.Spec{Command: "true", Compute: "cpu"})
	nouns[0].did(w, me, "delete", map[string]any{"id": cpu.ID})
	left := w.ok(me, `query($id: ID!) { job(id: $id) { compute { name } computeId } }`, map[string]any{"id": other.ID})
	require.Equal(t, map[string]any{"compute": nil, "computeId": string(cpu.ID)}, left["job"], "it was deleted")
	ran := w.ok(me, `query($id: ID!) { run(id: $id) { tasks { compute { name } computeId } } }`, map[string]any{"id": run.ID})
	require.Equal(t, "gpu", at(ran, "run", "tasks", 0, "compute", "name"))
}

func TestWhereMachinesAndObjectsComeFrom(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	me := bearer(a.admin.token)
	storage := w.services.Settings.Storage
	before := w.ok(me, `{ provider { kind region role externalId updatedAt } storage { url role externalId updatedAt } }`, nil)
	require.Equal(t, map[string]any{"kind": "local", "region": "local", "role": nil, "externalId": nil, "updatedAt": nil}, before["provider"])
	require.Equal(t, map[string]any{"url": storage, "role": nil, "externalId": nil, "updatedAt": nil}, before["storage"])
	provider := `mutation($input: UpdateProviderInput!) { updateProvider(input: $input) { provider { kind region updatedAt } } }`
	objects := `mutation($input: UpdateStorageInput!) { updateStorage(input: $input) { storage { url updatedAt } } }`
	require.NotNil(t, at(w.ok(me, provider, in("kind", "local")), "updateProvider", "provider", "updatedAt"))
	require.NotNil(t, at(w.ok(me, objects, in("url", storage)), "updateStorage", "storage", "updatedAt"))
	for field, res := range map[string]answer{
		"kind": w.query(me, provider, in("kind", "ec2", "region", "eu-central-1")), "region": w.query(me, provider, in("kind", "local", "region", "mars")),
		"url": w.query(me, objects, in("url", "s3://bucket/prefix")), "role": w.query(me, objects, in("url", storage, "role", "arn")),
	} {
		require.Equal(t, "INVALID", res.code(), field)
		require.Equal(t, field, res.Errors[0].Extensions["field"])
	}
	flavors := w.ok(bearer(a.viewer.token), `{ flavors { name cores memory gpus gpu available pricePerHour currency } }`, nil)
	require.Equal(t, map[string]any{
		"name": "cpu.2", "cores": 2.0, "memory": "8589934592", "gpus": 0.0, "gpu": nil, "available": true, "pricePerHour": "0.08", "currency": "USD",
	}, at(flavors, "flavors", 1))
	require.Nil(t, at(flavors, "flavors", 2, "pricePerHour"), "no price is known")
}

// A server without the provider still shows the existing machines.
func TestMachinesAreShownWithoutTheirProvider(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	w.services.Compute.Providers = machine.Providers{}
	require.Nil(t, at(w.ok(bearer(a.viewer.token), `{ warehouses { edges { node { name pricePerHour } } } }`, nil), "warehouses", "edges", 0, "node", "pricePerHour"))
	require.Equal(t, "UNAVAILABLE", w.query(bearer(a.viewer.token), `{ flavors { name } }`, nil).code())
}
