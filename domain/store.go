package domain

import (
	"context"
	"time"
)

// Store is the only access to a workspace's rows. A Tx reads and writes only rows of that
// workspace.
type Store interface {
	// In runs fn in one transaction confined to the scope's workspace, and commits if fn returns
	// nil. For a zero scope it returns ErrNoScope.
	In(ctx context.Context, s Scope, fn func(Tx) error) error
}

// Tx is one transaction in one workspace. Each noun declares its part beside its type.
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
	LakeErasureTx
	LakeAnswerTx
	LineageTx
	LineageFactTx
	LineageGraphTx
	MaintenanceTx
	ProviderTx
	QuotaTx
	AuditTx
	IdempotencyTx

	// Notify wakes the topics' subscribers on every replica, once the transaction commits.
	Notify(topics ...Topic)
}

// Objects is an object store.
type Objects interface {
	Put(ctx context.Context, key string, data []byte) error
	// Get returns the whole object, or CodeNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
	// Delete removes the object. A missing object is no error.
	Delete(ctx context.Context, key string) error
}

// System reads across workspaces to find work. Changes of a workspace's nouns go through Store.In
// with a SystemScope.
type System interface {
	// DueRuns returns the runs with a queued task that may start now on a connected agent with a
	// free slot, oldest first.
	DueRuns(ctx context.Context, now time.Time, limit int) ([]RunRef, error)
	// NextRetry returns when the next queued task's back-off ends, or the zero time.
	NextRetry(ctx context.Context, now time.Time) (time.Time, error)
	// DueSchedules returns the jobs with a due or waiting tick, oldest first.
	DueSchedules(ctx context.Context, now time.Time, limit int) ([]JobRef, error)
	// NextSchedule returns the time of the next tick, or the zero time.
	NextSchedule(ctx context.Context) (time.Time, error)
	// ExpiredAgents returns the agents with an expired lease and live attempts.
	ExpiredAgents(ctx context.Context, now time.Time) ([]AgentRef, error)
	// ExtendLeases extends all leases to at least until, unless another replica ran all the time:
	// the server was away, not the agents.
	ExtendLeases(ctx context.Context, now, until time.Time) error
	// ForgetInstances lets agents connect from other directories before their leases end, because
	// the database is a copy.
	ForgetInstances(ctx context.Context) error
	// RenewLeases sets the leases of all agents that are connected, or have work, to end at until,
	// because the clock was set.
	RenewLeases(ctx context.Context, until time.Time) error
	// DueMachines returns the machines of the providers with a due time, earliest first: those of
	// the host, and those without a host.
	DueMachines(ctx context.Context, providers []ProviderKind, host string, limit int) ([]DueMachine, error)
	// CheckMachines makes every machine of the host that may have remains due now.
	CheckMachines(ctx context.Context, host string, now time.Time) error
	// ShiftMachines shifts the stored times of the host's machines, because its clock was set.
	ShiftMachines(ctx context.Context, host string, by time.Duration) error
	// OverdueMachines returns the machines that have been starting or stopping since before the
	// times, and that no server has claimed since.
	OverdueMachines(ctx context.Context, starting, stopping time.Time) ([]MachineRef, error)
	// KnownMachines returns those of the ids that exist.
	KnownMachines(ctx context.Context, ids []MachineID) ([]MachineID, error)
	// BootstrapAgent returns the agent of the bootstrap token with the hash.
	BootstrapAgent(ctx context.Context, hash []byte) (AgentRef, error)
	// InsertPrices adds prices for flavors without one, effective from the time.
	InsertPrices(ctx context.Context, provider ProviderKind, region string, from time.Time, prices map[string]Price) error
	// UnsealedAttempts returns ended attempts whose log is not fully archived, oldest first.
	UnsealedAttempts(ctx context.Context, limit int) ([]AttemptRef, error)
	// LostStatements returns the unfinished statements whose server is gone or has handed them
	// over, and those of this replica that are not in live.
	LostStatements(ctx context.Context, now time.Time, replica string, live []StatementID, limit int) ([]StatementRef, error)
	// ExpiredResults returns the statements with expired results that are still stored.
	ExpiredResults(ctx context.Context, now time.Time, limit int) ([]StatementRef, error)
	// CrowdedTables returns live tables with more snapshots than given, by workspace and id, after
	// the given one.
	CrowdedTables(ctx context.Context, snapshots int, after TableRef, limit int) ([]TableRef, error)
	// DueMaintenance returns the due times of maintenance, earliest first.
	DueMaintenance(ctx context.Context, now time.Time, limit int) ([]DueMaintenance, error)
	// Housekeep creates the log partitions of the coming days and drops those that are fully
	// archived and older than a day. It deletes old idempotency keys, API keys 30 days after their
	// expiry, sessions, and maintenance runs after 90 days.
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

// DueMachine is a machine with its due time.
type DueMachine struct {
	MachineRef // without the incarnation
	At         time.Time
}

// AttemptRef names an attempt across workspaces.
type AttemptRef struct {
	Workspace WorkspaceID
	Attempt   AttemptID
}
