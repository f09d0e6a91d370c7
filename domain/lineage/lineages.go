// Package lineage answers which runs and statements read and wrote which tables, and exchanges
// OpenLineage events.
package lineage

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/lake"
)

// ActorExternal acts outside of the platform and reports lineage by OpenLineage. Its id is the id
// of its job, a slash, and the id of its run.
const ActorExternal domain.ActorKind = "external"

// ProcessID identifies a process that reads and writes tables in the lineage graph. It is a job's
// task (job_…/key, or job_… for a single command) with all of its runs and their statements; a
// statement outside of runs (stm_…); or an external job (xjob_…).
type ProcessID string

// Fact is a lineage entry with its process, run and task.
type Fact struct {
	lake.LineageEntry
	Process ProcessID
	RunID   domain.RunID // empty outside of runs
	TaskKey string       // of the run; empty for a single command
	// Source is the OpenLineage run that reported it, in lower case; empty if the catalog recorded
	// it.
	Source string
}

// Source is an OpenLineage run that reports the lineage of an actor.
type Source struct {
	Actor  domain.Actor
	Source string // as in Fact
}

// Resolution says whether the lineage of a succeeded statement is known.
type Resolution string

// The resolutions.
const (
	None       Resolution = "none" // it names no table
	Resolved   Resolution = "resolved"
	Unresolved Resolution = "unresolved" // it names a table that the catalog did not see it load or commit
)

// Coverage counts succeeded statements by Resolution.
type Coverage struct {
	None, Resolved, Unresolved int64
}

// Share returns the resolved share of the statements that name tables; false if there are none.
func (c Coverage) Share() (float64, bool) {
	all := c.Resolved + c.Unresolved
	if all == 0 {
		return 0, false
	}
	return float64(c.Resolved) / float64(all), true
}

// External is an external dataset or job, as OpenLineage names it.
type External struct {
	ID        string // ext_… or xjob_…: determined by kind, namespace and name
	Job       bool
	Namespace string
	Name      string
}

// Settlement is the correction of a statement's lineage at its end.
type Settlement struct {
	Statement domain.StatementID
	Removed   []lake.LineageEntry         // recorded by the catalog, but not done by the statement
	Added     []lake.LineageEntry         // done by the statement, but not recorded by the catalog
	Columns   map[domain.TableID][]string // that the statement read
}

// OfRun is the lineage of all attempts and statements of a run.
type OfRun struct {
	Facts      []Fact // oldest first
	Externals  map[domain.TableID]External
	Unresolved []domain.StatementID // statements with incomplete lineage
	Truncated  bool                 // limited to MaxOfRun
}

// MaxOfRun bounds the entries that OfRun returns.
const MaxOfRun = 10_000

// factTx reads and writes lineage besides what the catalog records.
type factTx interface {
	// InsertLineageFacts adds entries and leaves existing ones unchanged. It derives run, task and
	// an empty process from the actor.
	InsertLineageFacts(ctx context.Context, facts []Fact) error
	// RetractLineage removes the writes that the sources reported, and ignores their later reports.
	RetractLineage(ctx context.Context, all []Source) error
	// SaveExternals adds the new ones.
	SaveExternals(ctx context.Context, all []External, now time.Time) error
	Externals(ctx context.Context, ids []string) (map[string]External, error)
	// RunLineage returns entries, oldest first.
	RunLineage(ctx context.Context, id domain.RunID, limit int) ([]Fact, error)
	// UnresolvedStatements returns the run's statements with incomplete lineage.
	UnresolvedStatements(ctx context.Context, id domain.RunID) ([]domain.StatementID, error)
	SettleLineage(ctx context.Context, s Settlement) error
	LineageCoverage(ctx context.Context, since time.Time) (Coverage, error)
}

// Lineages answers where data came from and where it went.
type Lineages struct {
	Store      domain.Store[Tx]
	Clock      domain.Clock
	CatalogURL string // namespace of our tables in OpenLineage
}

// OfRun returns the lineage of the run.
func (l *Lineages) OfRun(ctx context.Context, s domain.Scope, id domain.RunID) (found OfRun, err error) {
	if err := domain.Authorize(ctx, l.Store, s, domain.LineageShow); err != nil {
		return found, err
	}
	err = l.Store.In(ctx, s, func(tx Tx) (err error) {
		if _, err = job.RunHead(ctx, tx, id); err != nil {
			return err
		}
		if found.Facts, err = tx.RunLineage(ctx, id, MaxOfRun+1); err != nil {
			return err
		}
		if len(found.Facts) > MaxOfRun {
			found.Facts, found.Truncated = found.Facts[:MaxOfRun], true
		}
		if found.Externals, err = externalsOf(ctx, tx, found.Facts); err != nil {
			return err
		}
		found.Unresolved, err = tx.UnresolvedStatements(ctx, id)
		return err
	})
	return found, err
}

// externalsOf returns the external datasets among the tables of the facts.
func externalsOf(ctx context.Context, tx Tx, facts []Fact) (map[domain.TableID]External, error) {
	var ids []string
	for _, f := range facts {
		if f.TableID.External() {
			ids = append(ids, string(f.TableID))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	all, err := tx.Externals(ctx, ids)
	found := make(map[domain.TableID]External, len(all))
	for id, e := range all {
		found[domain.TableID(id)] = e
	}
	return found, err
}

// Coverage counts the statements that ended since then, by Resolution.
func (l *Lineages) Coverage(ctx context.Context, s domain.Scope, since time.Time) (c Coverage, err error) {
	if err := domain.Authorize(ctx, l.Store, s, domain.LineageShow); err != nil {
		return c, err
	}
	err = l.Store.In(ctx, s, func(tx Tx) (err error) {
		c, err = tx.LineageCoverage(ctx, since)
		return err
	})
	return c, err
}
