package machine

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// Tx is what machine uses of a transaction.
type Tx interface {
	domain.Tx
	agentTx
	machineTx
	providerTx
}

// System reads across workspaces to find work. Changes of a workspace's nouns go through
// Store.In with a SystemScope.
type System interface {
	// DueMachines returns the machines of the providers with a due time, earliest first: those of
	// the host, and those without a host.
	DueMachines(ctx context.Context, providers []ProviderKind, host string, limit int) ([]Due, error)
	// CheckMachines makes every machine of the host that may have remains due now.
	CheckMachines(ctx context.Context, host string, now time.Time) error
	// ShiftMachines shifts the stored times of the host's machines, because its clock was set.
	ShiftMachines(ctx context.Context, host string, by time.Duration) error
	// OverdueMachines returns the machines that have been starting or stopping since before the
	// times, and that no server has claimed since.
	OverdueMachines(ctx context.Context, starting, stopping time.Time) ([]Ref, error)
	// KnownMachines returns those of the ids that exist.
	KnownMachines(ctx context.Context, ids []domain.MachineID) ([]domain.MachineID, error)
	// InsertPrices adds prices for flavors without one, effective from the time.
	InsertPrices(ctx context.Context, provider ProviderKind, region string, from time.Time, prices map[string]Price) error
}

// Due is a machine with its due time.
type Due struct {
	Ref // without the incarnation
	At  time.Time
}
