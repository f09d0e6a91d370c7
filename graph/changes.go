package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/statement"
)

// recent is how many of the newest runs are watched for changes, besides all active runs.
const recent = 50

// justNow is how far before a subscription's start changes are sent, so that a list that was read
// just before misses nothing.
const justNow = time.Minute

// runChanges finds the runs that are new or have changed since its last read. It watches the newest
// 50 runs and the newest 200 pending or running runs, and follows each of these to its end. So it
// finds every run that starts, and every change of a watched run, in its latest state: several
// changes between two reads are one. It can miss only a repaired run older than the newest 50 that
// starts and ends between two reads.
type runChanges struct {
	runs   *job.Runs
	scope  domain.Scope
	filter job.RunFilter
	seen   map[domain.RunID]runState // nil before the first read
	since  time.Time                 // changes before the first read count from here on
}

// runState is the changing part of a run.
type runState struct {
	status                       job.RunStatus
	message                      string
	started, finished, cancelled int64
}

func stateOf(r job.Run) runState {
	return runState{r.Status, r.Message, nanos(r.StartedAt), nanos(r.FinishedAt), nanos(r.CancelRequestedAt)}
}

func nanos(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixNano()
}

// next returns the runs that changed and match, or matched before, oldest first.
func (c *runChanges) next(ctx context.Context) ([]job.Run, error) {
	runs, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	var changed []job.Run
	seen := make(map[domain.RunID]runState, len(runs))
	for _, r := range runs {
		state := stateOf(r)
		before, known := c.seen[r.ID]
		fresh := !known || before != state
		if c.seen == nil {
			fresh = c.isRecent(r)
		}
		if fresh && (c.matches(r.Status) || known && c.matches(before.status)) {
			changed = append(changed, r)
		}
		seen[r.ID] = state
	}
	c.seen = seen
	slices.SortFunc(changed, func(a, b job.Run) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return changed, nil
}

// read returns the watched runs, each once.
func (c *runChanges) read(ctx context.Context) ([]job.Run, error) {
	newest, err := c.runs.Heads(ctx, c.scope, job.RunFilter{JobID: c.filter.JobID}, domain.Page{Limit: recent})
	if err != nil {
		return nil, err
	}
	alive := job.RunFilter{JobID: c.filter.JobID, Status: []job.RunStatus{job.RunPending, job.RunRunning}}
	active, err := c.runs.Heads(ctx, c.scope, alive, domain.Page{Limit: domain.MaxLimit})
	if err != nil {
		return nil, err
	}
	byID := map[domain.RunID]job.Run{}
	for _, r := range append(newest.Items, active.Items...) {
		byID[r.ID] = r // the later read is newer
	}
	runs := make([]job.Run, 0, len(byID))
	for _, r := range byID {
		runs = append(runs, r)
	}
	return c.addEnded(ctx, runs, byID)
}

// addEnded reads the runs that were active, and are now neither active nor among the newest.
func (c *runChanges) addEnded(ctx context.Context, runs []job.Run, have map[domain.RunID]job.Run) ([]job.Run, error) {
	var ended []domain.RunID
	for id, state := range c.seen {
		if _, ok := have[id]; !ok && !state.status.Final() {
			ended = append(ended, id)
		}
	}
	if len(ended) == 0 {
		return runs, nil
	}
	found, err := c.runs.ByID(ctx, c.scope, ended)
	return append(runs, found...), err
}

func (c *runChanges) matches(s job.RunStatus) bool {
	return len(c.filter.Status) == 0 || slices.Contains(c.filter.Status, s)
}

func (c *runChanges) isRecent(r job.Run) bool {
	return !r.Status.Final() || r.FinishedAt != nil && r.FinishedAt.After(c.since)
}

// agentChanges finds the agents that are new or have changed since its last read. In its first read
// all are new.
type agentChanges struct {
	agents *job.Agents
	scope  domain.Scope
	clock  domain.Clock
	seen   map[domain.AgentID]agentState
}

// agentState is the changing part of an agent, without the time of its last heartbeat.
type agentState struct {
	name, version, hostname, os, arch, session string
	slots, busy                                int
	status                                     machine.AgentStatus
}

func (c *agentChanges) next(ctx context.Context) (changed []machine.Agent, err error) {
	now := c.clock.Now()
	seen := map[domain.AgentID]agentState{}
	for p := (domain.Page{Limit: domain.MaxLimit}); ; {
		l, err := c.agents.List(ctx, c.scope, p)
		if err != nil {
			return nil, err
		}
		for _, a := range l.Items {
			state := agentState{a.Name, a.Version, a.Hostname, a.OS, a.Arch, a.Session, a.Slots, a.Busy, a.Status(now)}
			if before, known := c.seen[a.ID]; !known || before != state {
				changed = append(changed, a)
			}
			seen[a.ID] = state
		}
		if p.Cursor = l.Next; p.Cursor == "" {
			c.seen = seen
			return changed, nil
		}
	}
}

// machineChanges finds the machines of a kind that are new or have changed since its last read. In
// its first read all are new.
type machineChanges struct {
	machines *machine.Machines
	scope    domain.Scope
	seen     map[domain.MachineID]machineState
}

// machineState is the changing part of a machine.
type machineState struct {
	name, flavor, image, imageRef, message, engines string
	autoStop                                        machine.AutoStop
	slots, incarnation, restarts, nodes             int
	writeEngine                                     string
	trinoStart                                      machine.TrinoStart
	desired, state                                  machine.State
	since                                           time.Time
	stops, used                                     int64
}

func stateOfMachine(m machine.Machine) machineState {
	return machineState{
		m.Name, m.Flavor, m.Image, m.ImageRef, m.Message, fmt.Sprint(m.Engines), m.AutoStop, m.Slots, m.Incarnation, m.Restarts, m.Nodes, m.WriteEngine, m.TrinoStart, m.Desired, m.State,
		m.StateSince, nanos(m.AutoStopAt()), nanos(m.LastUsedAt),
	}
}

func (c *machineChanges) next(ctx context.Context) (changed []machine.Machine, err error) {
	seen := map[domain.MachineID]machineState{}
	for p := (domain.Page{Limit: domain.MaxLimit}); ; {
		l, err := c.machines.List(ctx, c.scope, p)
		if err != nil {
			return nil, err
		}
		for _, m := range l.Items {
			state := stateOfMachine(m)
			if before, known := c.seen[m.ID]; !known || before != state {
				changed = append(changed, m)
			}
			seen[m.ID] = state
		}
		if p.Cursor = l.Next; p.Cursor == "" {
			c.seen = seen
			return changed, nil
		}
	}
}

// newSamples finds a machine's samples since its last read.
type newSamples struct {
	machines *machine.Machines // of the machine's kind; set by watch
	scope    domain.Scope
	id       domain.MachineID
	since    time.Time
}

// watch finds the machine among the kinds, and wakes the channel on each new sample.
func (n *newSamples) watch(ctx context.Context, kinds ...*machine.Machines) (wake <-chan struct{}, stop func(), err error) {
	for _, n.machines = range kinds {
		wake, stop, err = n.machines.WatchMetrics(ctx, n.scope, n.id)
		if !domain.IsCode(err, domain.CodeNotFound) {
			return wake, stop, err
		}
	}
	return nil, nil, domain.NotFound("machine", n.id)
}

func (n *newSamples) next(ctx context.Context) ([]machine.Metrics, error) {
	all, err := n.machines.Metrics(ctx, n.scope, n.id, n.since)
	if len(all) > 0 {
		n.since = all[len(all)-1].At
	}
	return all, err
}

// statementChanges finds the statements that are new or have changed since its last read, as
// runChanges does for runs.
type statementChanges struct {
	statements *statement.Statements
	scope      domain.Scope
	filter     statement.Filter
	seen       map[domain.StatementID]seenStatement // nil before the first read
	since      time.Time                            // changes before the first read count from here on
}

type seenStatement struct {
	state   statementState
	matches bool
	live    bool
}

// next returns the statements that changed and match, or matched before, oldest first.
func (c *statementChanges) next(ctx context.Context) ([]statement.Statement, error) {
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	var changed []statement.Statement
	seen := make(map[domain.StatementID]seenStatement, len(all))
	for _, st := range all {
		now := seenStatement{stateOfStatement(st), len(c.filter.States) == 0 || slices.Contains(c.filter.States, st.State), !st.State.Final()}
		before, known := c.seen[st.ID]
		fresh := !known || before.state != now.state
		if c.seen == nil {
			fresh = now.live || st.FinishedAt != nil && st.FinishedAt.After(c.since)
		}
		if fresh && (now.matches || before.matches) {
			changed = append(changed, st)
		}
		seen[st.ID] = now
	}
	c.seen = seen
	slices.SortFunc(changed, func(a, b statement.Statement) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return changed, nil
}

// read returns the watched statements, each once.
func (c *statementChanges) read(ctx context.Context) ([]statement.Statement, error) {
	filter := c.filter
	filter.States = nil
	newest, err := c.statements.List(ctx, c.scope, filter, domain.Page{Limit: recent})
	if err != nil {
		return nil, err
	}
	filter.States = []statement.State{statement.Queued, statement.Running}
	live, err := c.statements.List(ctx, c.scope, filter, domain.Page{Limit: domain.MaxLimit})
	if err != nil {
		return nil, err
	}
	byID := map[domain.StatementID]statement.Statement{}
	for _, st := range append(newest.Items, live.Items...) {
		byID[st.ID] = st // the later read is newer
	}
	for id, before := range c.seen {
		if _, have := byID[id]; have || !before.live {
			continue
		}
		st, err := c.statements.Get(ctx, c.scope, id) // it ended, and is not among the newest
		if err != nil {
			return nil, err
		}
		byID[id] = st
	}
	return slices.Collect(maps.Values(byID)), nil
}
