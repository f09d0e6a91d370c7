// Package loader batches the single look-ups of one response into few reads of the domain. If each
// of fifty rows of a page needs a value, it reads all of them at once.
package loader

import (
	"context"
	"slices"
	"sync"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/maintenance"
	"github.com/millpond/millpond/domain/statement"
	"github.com/millpond/millpond/domain/tracking"
)

// Loaders are the look-ups of one response, on behalf of one scope. They cache every result, so use
// them for one response only.
type Loaders struct {
	jobs       *family[domain.JobID, *job.Job]
	latestRuns *family[domain.JobID, *job.Run]
	recent     *family[recentKey, domain.List[job.Run]]
	users      *family[domain.UserID, *identity.User]
	agents     *family[domain.AgentID, *machine.Agent]
	computes   *family[domain.MachineID, *machine.Machine]
	warehouses *family[domain.MachineID, *machine.Machine]
	runsByID   *family[domain.RunID, *job.Run]
	tables     *family[domain.TableID, *lake.Table]
	lineages   *family[domain.StatementID, lake.Lineage]
	maintained *family[domain.TableID, *maintenance.Maintenance]
	flavors    *family[struct{}, map[string]machine.Flavor]
	specs      *family[domain.RunID, job.Spec]
	parameters *family[domain.RunID, []job.Variable]
	tasks      *family[domain.RunID, []job.Task]
	attempts   *family[domain.RunID, map[string][]job.Attempt]
	logSizes   *family[domain.AttemptID, int64]

	experiments *family[domain.ExperimentID, *tracking.Experiment]
	tracking    *family[domain.RunID, []tracking.Run]
	logged      *family[domain.TrackingRunID, *tracking.Run]

	mu    sync.Mutex
	pages map[domain.JobID][]domain.JobID // jobs that are shown together
	runs  map[domain.RunID]weight
	heads map[domain.TrackingRunID]tracking.Run // without what they logged
	rows  int                                   // remaining budget of tasks and attempts
	bytes int                                   // remaining budget of bytes of specs and parameters
}

// weight is the size of a run's parts.
type weight struct{ tasks, spec, parameters int }

// Bounds of the reads for one response. A run has at most 1,000 tasks and, with every byte escaped,
// 24 MiB of spec. One such run always fits, a page of them does not.
const (
	maxRows  = 20_000
	maxBytes = 32 << 20
)

// Tables finds tables and views of the catalog.
type Tables interface {
	// TablesByID returns the tables in the workspace with the ids, live or dropped.
	TablesByID(ctx context.Context, s domain.Scope, ids []domain.TableID) ([]lake.Table, error)
}

// Services are what the loaders read from.
type Services struct {
	Members     *identity.Members
	Agents      *job.Agents
	Jobs        *job.Jobs
	Runs        *job.Runs
	Logs        *job.Logs
	Compute     *machine.Machines
	Warehouses  *machine.Machines
	Statements  *statement.Statements
	Maintenance *maintenance.Maintenances

	Experiments  *tracking.Experiments
	TrackingRuns *tracking.Runs
}

// New returns the loaders of one response.
func New(s Services, tables Tables, scope domain.Scope) *Loaders {
	l := &Loaders{pages: map[domain.JobID][]domain.JobID{}, runs: map[domain.RunID]weight{}, heads: map[domain.TrackingRunID]tracking.Run{}, rows: maxRows, bytes: maxBytes}
	l.jobs = newFamily(func(ctx context.Context, ids []domain.JobID) (map[domain.JobID]*job.Job, error) {
		jobs, err := s.Jobs.ByID(ctx, scope, ids)
		l.expectComputes(jobs)
		return index(jobs, func(j job.Job) domain.JobID { return j.ID }), err
	})
	l.latestRuns = newFamily(func(ctx context.Context, ids []domain.JobID) (map[domain.JobID]*job.Run, error) {
		runs, err := s.Runs.Latest(ctx, scope, ids)
		l.expectRuns(runs)
		return index(runs, func(r job.Run) domain.JobID { return r.JobID }), err
	})
	l.recent = newFamily(func(ctx context.Context, wanted []recentKey) (map[recentKey]domain.List[job.Run], error) {
		return l.readRecent(ctx, s.Runs, scope, wanted)
	})
	l.users = newFamily(func(ctx context.Context, ids []domain.UserID) (map[domain.UserID]*identity.User, error) {
		users, err := s.Members.Users(ctx, scope, ids)
		return index(users, func(u identity.User) domain.UserID { return u.ID }), err
	})
	l.agents = newFamily(func(ctx context.Context, ids []domain.AgentID) (map[domain.AgentID]*machine.Agent, error) {
		agents, err := s.Agents.ByID(ctx, scope, ids)
		return index(agents, func(a machine.Agent) domain.AgentID { return a.ID }), err
	})
	l.computes = newFamily(func(ctx context.Context, ids []domain.MachineID) (map[domain.MachineID]*machine.Machine, error) {
		machines, err := s.Compute.ByID(ctx, scope, ids)
		l.expectMachines(machines)
		return index(machines, func(m machine.Machine) domain.MachineID { return m.ID }), err
	})
	l.flavors = newFamily(func(ctx context.Context, _ []struct{}) (map[struct{}]map[string]machine.Flavor, error) {
		flavors, err := s.Compute.Flavors(ctx, scope)
		byName := make(map[string]machine.Flavor, len(flavors))
		for _, f := range flavors {
			byName[f.Name] = f
		}
		return map[struct{}]map[string]machine.Flavor{{}: byName}, err
	})
	l.specs = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID]job.Spec, error) {
		if err := l.take(ids, func(w weight) (rows, bytes int) { return 0, w.spec }); err != nil {
			return nil, err
		}
		return s.Runs.Specs(ctx, scope, ids)
	})
	l.parameters = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID][]job.Variable, error) {
		if err := l.take(ids, func(w weight) (rows, bytes int) { return 0, w.parameters }); err != nil {
			return nil, err
		}
		return s.Runs.Parameters(ctx, scope, ids)
	})
	l.tasks = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID][]job.Task, error) {
		if err := l.take(ids, func(w weight) (rows, bytes int) { return w.tasks, 0 }); err != nil {
			return nil, err
		}
		tasks, err := s.Runs.Tasks(ctx, scope, ids...)
		l.computes.expect(named(keys(tasks, func(t job.Task) domain.MachineID { return t.Compute })))
		return group(tasks, func(t job.Task) domain.RunID { return t.RunID }), err
	})
	l.attempts = newFamily(func(ctx context.Context, ids []domain.RunID) (map[domain.RunID]map[string][]job.Attempt, error) {
		attempts, err := s.Runs.AttemptsWithin(ctx, scope, l.rowsLeft(), ids...)
		if err != nil {
			return nil, err
		}
		if err := l.spend(len(attempts), 0); err != nil {
			return nil, err
		}
		l.expectAttempts(attempts)
		return byTask(attempts), err
	})
	l.logSizes = newFamily(func(ctx context.Context, ids []domain.AttemptID) (map[domain.AttemptID]int64, error) {
		return s.Logs.Sizes(ctx, scope, ids)
	})
	l.sql(s, tables, scope)
	l.track(s, scope)
	return l
}

// Expect records which items the response shows together: jobs, runs, keys, machines, statements,
// tables, maintenance runs or tracking runs. The first look-up for one item then reads for all,
// however long the others take to follow.
func (l *Loaders) Expect(items any) {
	switch items := items.(type) {
	case []job.Job:
		l.expectJobs(keys(items, func(j job.Job) domain.JobID { return j.ID }))
		l.expectComputes(items)
	case []job.Run:
		l.expectRuns(items)
	case []identity.APIKey:
		l.users.expect(keys(items, func(k identity.APIKey) domain.UserID { return k.CreatedBy }))
	case []machine.Machine:
		l.expectMachines(items)
	case []statement.Statement:
		l.expectStatements(items)
	case []lake.Table:
		l.maintained.expect(keys(items, func(t lake.Table) domain.TableID { return t.ID }))
	case []maintenance.Run:
		l.ExpectTables(keys(items, func(r maintenance.Run) domain.TableID { return r.TableID }))
	case []tracking.Run:
		l.expectTracking(items)
	}
}

// expectComputes records the compute instances of the jobs.
func (l *Loaders) expectComputes(jobs []job.Job) {
	var ids []domain.MachineID
	for _, j := range jobs {
		ids = append(ids, domain.MachineID(j.Compute))
		ids = append(ids, keys(j.Tasks, func(t job.TaskSpec) domain.MachineID { return domain.MachineID(t.Compute) })...)
	}
	l.computes.expect(named(ids))
}

func (l *Loaders) expectMachines(machines []machine.Machine) {
	l.agents.expect(keys(machines, func(m machine.Machine) domain.AgentID { return m.AgentID }))
}

func (l *Loaders) expectJobs(ids []domain.JobID) {
	l.latestRuns.expect(ids)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.pages[id] = ids
	}
}

func (l *Loaders) expectRuns(runs []job.Run) {
	for _, r := range runs {
		l.weigh(r)
	}
	ids := keys(runs, func(r job.Run) domain.RunID { return r.ID })
	l.specs.expect(ids)
	l.parameters.expect(ids)
	l.tasks.expect(ids)
	l.attempts.expect(ids)
	l.tracking.expect(ids)
	l.jobs.expect(keys(runs, func(r job.Run) domain.JobID { return r.JobID }))
}

func (l *Loaders) expectAttempts(attempts []job.Attempt) {
	l.agents.expect(keys(attempts, func(a job.Attempt) domain.AgentID { return a.AgentID }))
	live := slices.DeleteFunc(slices.Clone(attempts), func(a job.Attempt) bool { return a.Status.Final() })
	l.logSizes.expect(keys(live, func(a job.Attempt) domain.AttemptID { return a.ID }))
}

// Job returns the job; nil if it is deleted.
func (l *Loaders) Job(ctx context.Context, id domain.JobID) (*job.Job, error) {
	return l.jobs.load(ctx, id)
}

// LatestRun returns the job's newest run; nil if it has none.
func (l *Loaders) LatestRun(ctx context.Context, j domain.JobID) (*job.Run, error) {
	return l.latestRuns.load(ctx, j)
}

// User returns the user; nil if the workspace has no member with the id.
func (l *Loaders) User(ctx context.Context, id domain.UserID) (*identity.User, error) {
	return l.users.load(ctx, id)
}

// Agent returns the agent; nil if there is none.
func (l *Loaders) Agent(ctx context.Context, id domain.AgentID) (*machine.Agent, error) {
	return l.agents.load(ctx, id)
}

// Compute returns the compute instance; nil if it is deleted.
func (l *Loaders) Compute(ctx context.Context, id domain.MachineID) (*machine.Machine, error) {
	return l.computes.load(ctx, id)
}

// Flavor returns the flavor of the workspace's provider, with its price; the zero value if there is
// none of the name.
func (l *Loaders) Flavor(ctx context.Context, name string) (machine.Flavor, error) {
	all, err := l.flavors.load(ctx, struct{}{})
	return all[name], err
}

// Spec returns the run's frozen spec.
func (l *Loaders) Spec(ctx context.Context, run job.Run) (job.Spec, error) {
	l.weigh(run)
	return l.specs.load(ctx, run.ID)
}

// Parameters returns the run's parameters.
func (l *Loaders) Parameters(ctx context.Context, run job.Run) ([]job.Variable, error) {
	l.weigh(run)
	return l.parameters.load(ctx, run.ID)
}

// Tasks returns the run's tasks in the order of its spec; none for a single command.
func (l *Loaders) Tasks(ctx context.Context, run job.Run) ([]job.Task, error) {
	l.weigh(run)
	return l.tasks.load(ctx, run.ID)
}

// Attempts returns the attempts of the run's task, oldest first. The key of a single command is
// empty.
func (l *Loaders) Attempts(ctx context.Context, run domain.RunID, key string) ([]job.Attempt, error) {
	byTask, err := l.attempts.load(ctx, run)
	return byTask[key], err
}

// LogSize returns how many bytes of the attempt's log are stored.
func (l *Loaders) LogSize(ctx context.Context, id domain.AttemptID) (int64, error) {
	return l.logSizes.load(ctx, id)
}

func (l *Loaders) weigh(r job.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r.ID] = weight{tasks: r.TaskCount, spec: r.SpecSize, parameters: r.ParametersSize}
}

// take subtracts the sizes of the runs' parts from the budget, before they are read.
func (l *Loaders) take(ids []domain.RunID, of func(weight) (rows, bytes int)) error {
	rows, bytes := 0, 0
	l.mu.Lock()
	for _, id := range ids {
		r, b := of(l.runs[id])
		rows, bytes = rows+r, bytes+b
	}
	l.mu.Unlock()
	return l.spend(rows, bytes)
}

func (l *Loaders) spend(rows, bytes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rows > l.rows || bytes > l.bytes {
		return domain.Errorf(domain.CodeTooLarge, "The runs have more tasks and attempts than %d, or more than %d bytes of commands and parameters; ask for fewer runs at once.",
			maxRows, maxBytes)
	}
	l.rows -= rows
	l.bytes -= bytes
	return nil
}

func (l *Loaders) rowsLeft() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows
}

func keys[T any, K comparable](items []T, key func(T) K) []K {
	ks := make([]K, len(items))
	for i, item := range items {
		ks[i] = key(item)
	}
	return ks
}

// named removes empty and duplicate ids.
func named[K ~string](ids []K) []K {
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id K) bool { return id == "" })
}

func index[K comparable, V any](all []V, key func(V) K) map[K]*V {
	m := make(map[K]*V, len(all))
	for i := range all {
		m[key(all[i])] = &all[i]
	}
	return m
}

func group[K comparable, V any](all []V, key func(V) K) map[K][]V {
	m := map[K][]V{}
	for _, v := range all {
		m[key(v)] = append(m[key(v)], v)
	}
	return m
}

func byTask(attempts []job.Attempt) map[domain.RunID]map[string][]job.Attempt {
	runs := group(attempts, func(a job.Attempt) domain.RunID { return a.RunID })
	m := make(map[domain.RunID]map[string][]job.Attempt, len(runs))
	for id, run := range runs {
		m[id] = group(run, func(a job.Attempt) string { return a.TaskKey })
	}
	return m
}

type contextKey struct{}

// With returns a context that carries the loaders of one response.
func With(ctx context.Context, l *Loaders) context.Context {
	return context.WithValue(ctx, contextKey{}, l)
}

// From returns the context's loaders. Outside of a response, such as at the start of a
// subscription, there are none.
func From(ctx context.Context) (*Loaders, bool) {
	l, ok := ctx.Value(contextKey{}).(*Loaders)
	return l, ok
}
