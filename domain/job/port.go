package job

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/quota"
)

// Tx is what job uses of a transaction.
type Tx interface {
	machine.Tx
	quota.Tx
	jobTx
	fileTx
	runTx
	attemptTx
	logTx
}

// System reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type System interface {
	// DueRuns returns the runs with a queued task that may start now on a connected agent with a
	// free slot, oldest first.
	DueRuns(ctx context.Context, now time.Time, limit int) ([]domain.RunRef, error)
	// NextRetry returns when the next queued task's back-off ends, or the zero time.
	NextRetry(ctx context.Context, now time.Time) (time.Time, error)
	// Schedules returns the jobs with a due or waiting tick, earliest first, and then the one whose
	// tick comes next. A tick that waits for its workspace's quota is returned when there is room.
	Schedules(ctx context.Context, now time.Time, limit int) ([]DueTick, error)
	// ExpiredAgents returns the agents with an expired lease and live attempts.
	ExpiredAgents(ctx context.Context, now time.Time) ([]domain.AgentRef, error)
	// ExtendLeases extends all leases to at least until, unless another replica ran all the time:
	// the server was away, not the agents.
	ExtendLeases(ctx context.Context, now, until time.Time) error
	// ForgetInstances lets agents connect from other directories before their leases end, because
	// the database is a copy.
	ForgetInstances(ctx context.Context) error
	// RenewLeases sets the leases of all agents that are connected, or have work, to end at until,
	// because the clock was set.
	RenewLeases(ctx context.Context, until time.Time) error
	// BootstrapAgent returns the agent of the bootstrap token with the hash.
	BootstrapAgent(ctx context.Context, hash []byte) (domain.AgentRef, error)
	// UnsealedAttempts returns ended attempts whose log is not fully archived, oldest first.
	UnsealedAttempts(ctx context.Context, limit int) ([]domain.AttemptRef, error)
}

// Ref names a job across workspaces.
type Ref struct {
	Workspace domain.WorkspaceID
	Job       domain.JobID
}

// DueTick is the time of a job's next tick, or of its tick that waits.
type DueTick struct {
	Ref
	At time.Time
}
