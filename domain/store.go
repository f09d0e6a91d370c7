package domain

import (
	"context"
	"time"
)

// Store is the one door to a workspace's rows. Everything done through a Tx sees and touches that workspace only.
type Store interface {
	// In runs fn in one transaction confined to the scope's workspace, and commits when fn returns nil. A zero scope is
	// refused with ErrNoScope.
	In(ctx context.Context, s Scope, fn func(Tx) error) error
}

// Tx is one transaction in one workspace: what each noun needs, declared beside it.
type Tx interface {
	WorkspaceTx
	MemberTx
	APIKeyTx
	AgentTx
	JobTx
	FileTx
	RunTx
	AttemptTx
	LogTx
	MachineTx
	StatementTx
	DatabaseTx
	LakeSchemaTx
	LakeTableTx
	LakeAnswerTx
	LineageTx
	LineageFactTx
	LineageGraphTx
	MaintenanceTx
	ProviderTx
	QuotaTx
	AuditTx
	IdempotencyTx

	// Notify wakes the topics' subscribers on every replica, if and when the transaction commits.
	Notify(topics ...Topic)
}

// System is what the platform reads across workspaces to know where there is work. It changes nothing: changes go through
// Store.In with a SystemScope of the workspace concerned.
type System interface {
	// DueRuns are runs with a queued task that may start now on a connected agent with a free slot, oldest first.
	DueRuns(ctx context.Context, now time.Time, limit int) ([]RunRef, error)
	// NextRetry is when the next queued task's back-off ends; the zero time when none waits.
	NextRetry(ctx context.Context, now time.Time) (time.Time, error)
	// DueSchedules are jobs whose next tick has come or which have a tick waiting, oldest first.
	DueSchedules(ctx context.Context, now time.Time, limit int) ([]JobRef, error)
	// NextSchedule is when the next tick comes; the zero time when none will.
	NextSchedule(ctx context.Context) (time.Time, error)
	// ExpiredAgents are agents whose lease has run out while attempts of theirs are alive.
	ExpiredAgents(ctx context.Context, now time.Time) ([]AgentRef, error)
	// ExtendLeases makes no agent's lease end before until, unless another replica was here all the time: the server was away, not the agents.
	ExtendLeases(ctx context.Context, now, until time.Time) error
	// RenewLeases makes the leases of all agents that are connected, or have work, end at until: the clock by which they ended was set.
	RenewLeases(ctx context.Context, until time.Time) error
	// DueMachines are the machines of the providers that are due or will be, the earliest first: those of the host, and those of no host.
	DueMachines(ctx context.Context, providers []ProviderKind, host string, limit int) ([]DueMachine, error)
	// CheckMachines makes every machine of the host of which something may be left due now.
	CheckMachines(ctx context.Context, host string, now time.Time) error
	// ShiftMachines moves the times that the host's machines are judged by: its clock was set.
	ShiftMachines(ctx context.Context, host string, by time.Duration) error
	// OverdueMachines have been starting, or stopping, since then, and nobody has looked at them.
	OverdueMachines(ctx context.Context, starting, stopping time.Time) ([]MachineRef, error)
	// KnownMachines are those of the ids that exist.
	KnownMachines(ctx context.Context, ids []MachineID) ([]MachineID, error)
	// BootstrapAgent is the agent that the bootstrap token with the hash was made for.
	BootstrapAgent(ctx context.Context, hash []byte) (AgentRef, error)
	// InsertPrices gives flavors that have no price one, effective from the time given.
	InsertPrices(ctx context.Context, provider ProviderKind, region string, from time.Time, prices map[string]Price) error
	// UnsealedAttempts are attempts that are over and whose log is not sealed to its end, oldest first.
	UnsealedAttempts(ctx context.Context, limit int) ([]AttemptRef, error)
	// LostStatements are statements that are not over and whose server is gone.
	LostStatements(ctx context.Context, now time.Time, limit int) ([]StatementRef, error)
	// ExpiredResults are statements whose result may be read no more and is still there.
	ExpiredResults(ctx context.Context, now time.Time, limit int) ([]StatementRef, error)
	// DueMaintenance is what maintenance is to look at now or later, the earliest first.
	DueMaintenance(ctx context.Context, now time.Time, limit int) ([]DueMaintenance, error)
	// Housekeep makes the log partitions of the coming days, drops those that are sealed to the last byte and older than
	// a day, and removes what has outlived its use: old idempotency keys, API keys 30 days after their expiry, sessions, runs of maintenance after 90 days.
	Housekeep(ctx context.Context, now time.Time) error
}

// RunRef names a run across workspaces.
type RunRef struct {
	Workspace WorkspaceID
	Run       RunID
}

// JobRef names a job across workspaces.
type JobRef struct {
	Workspace WorkspaceID
	Job       JobID
}

// AgentRef names an agent across workspaces.
type AgentRef struct {
	Workspace WorkspaceID
	Agent     AgentID
}

// DueMachine is a machine that the reconciler is to look at, and when.
type DueMachine struct {
	MachineRef // without the incarnation
	At         time.Time
}

// AttemptRef names an attempt across workspaces.
type AttemptRef struct {
	Workspace WorkspaceID
	Attempt   AttemptID
}
