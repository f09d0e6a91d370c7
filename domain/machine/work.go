package machine

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// Work is what runs on machines or waits for them. It changes that in its own transactions, because
// runs are locked before machines.
type Work interface {
	// Starting shows what waits for the machine that the machine is being started.
	Starting(ctx context.Context, s domain.Scope, m Machine) error
	// Evict asks what runs on the machine to end, with the reason.
	Evict(ctx context.Context, s domain.Scope, m Machine, why string) error
	// End ends what ran on the machine, of which nothing remains.
	End(ctx context.Context, s domain.Scope, m Machine, why string) error
	// Failed fails what waits for the machine, which has failed.
	Failed(ctx context.Context, s domain.Scope, m Machine) error
	// Held shows what waits for the machine that a person has stopped it.
	Held(ctx context.Context, s domain.Scope, m Machine) error
}

// Busy is the work of one machine.
type Busy struct {
	Attempts   int  // that have not ended
	Statements int  // that have not ended
	Waiting    bool // whether a run has a queued task for it
}
