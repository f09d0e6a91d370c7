package domain

import (
	"context"
	"slices"
	"strings"
	"time"
)

// ActorExternal acts outside of the platform and tells of it by OpenLineage: its id is that of its job, a slash, and its run's.
const ActorExternal ActorKind = "external"

// ProcessID is what reads and writes tables in the graph of lineage: the task of a job (job_…/key, or job_… of a single command) with all of its runs and their
// statements, a statement of no run (stm_…), or a job outside (xjob_…).
type ProcessID string

// LineageFact is an entry of lineage with what it belongs to.
type LineageFact struct {
	LineageEntry
	Process ProcessID
	RunID   RunID  // empty where there is none
	TaskKey string // of the run; empty for a single command
	Source  string // of OpenLineage: the run that it names, in lower case; empty for what the catalog saw
}

// LineageSource is a run of OpenLineage that tells of an actor.
type LineageSource struct {
	Actor  Actor
	Source string // as in LineageFact
}

// LineageResolution says whether the lineage of a statement that succeeded is known.
type LineageResolution string

// The resolutions.
const (
	LineageNone       LineageResolution = "none" // it names no table
	LineageResolved   LineageResolution = "resolved"
	LineageUnresolved LineageResolution = "unresolved" // it names one that the catalog did not see it load or commit
)

// LineageCoverage counts statements that succeeded, by what is known of their lineage.
type LineageCoverage struct {
	None, Resolved, Unresolved int64
}

// Share is that of the resolved ones among those that name tables; false where there are none.
func (c LineageCoverage) Share() (float64, bool) {
	all := c.Resolved + c.Unresolved
	if all == 0 {
		return 0, false
	}
	return float64(c.Resolved) / float64(all), true
}

// External is a dataset or a job that is not ours, as OpenLineage names it.
type External struct {
	ID        string // ext_… or xjob_…: the same for the same kind, namespace and name
	Job       bool
	Namespace string
	Name      string
}

// LineageSettlement is what the end of a statement makes of its lineage.
type LineageSettlement struct {
	Statement   StatementID
	Columns     map[TableID][]string // that were used
	OnlyWritten []TableID            // whose load was no read; not where the statement reads a view, which may lead to them
}

// RunLineage is what a run read and wrote: all attempts and all statements of it.
type RunLineage struct {
	Facts      []LineageFact // oldest first
	Externals  map[TableID]External
	Unresolved []StatementID // of its statements: those whose lineage is not wholly known
	Truncated  bool          // there are more than MaxRunLineage
}

// MaxRunLineage bounds the entries that are shown of one run.
const MaxRunLineage = 10_000

// LineageFactTx reads and writes lineage beside what the catalog records.
type LineageFactTx interface {
	// InsertLineageFacts adds entries; what is known already stays as it is. Run, task and, where it is empty, process follow from the actor.
	InsertLineageFacts(ctx context.Context, facts []LineageFact) error
	// RetractLineage removes what the sources said that their actors write, and leaves out what they say later.
	RetractLineage(ctx context.Context, all []LineageSource) error
	// SaveExternals adds those that are not known.
	SaveExternals(ctx context.Context, all []External, now time.Time) error
	Externals(ctx context.Context, ids []string) (map[string]External, error)
	// RunLineage is oldest first.
	RunLineage(ctx context.Context, id RunID, limit int) ([]LineageFact, error)
	// UnresolvedStatements are those of the run.
	UnresolvedStatements(ctx context.Context, id RunID) ([]StatementID, error)
	SettleLineage(ctx context.Context, s LineageSettlement) error
	LineageCoverage(ctx context.Context, since time.Time) (LineageCoverage, error)
}

// Lineages tells where data came from and where it went.
type Lineages struct {
	Store      Store
	Clock      Clock
	CatalogURL string // namespace of our tables in OpenLineage
}

// OfRun is what the run read and wrote.
func (l *Lineages) OfRun(ctx context.Context, s Scope, id RunID) (found RunLineage, err error) {
	if err := authorize(ctx, l.Store, s, LineageShow); err != nil {
		return found, err
	}
	err = l.Store.In(ctx, s, func(tx Tx) (err error) {
		if _, err = runHead(ctx, tx, id); err != nil {
			return err
		}
		if found.Facts, err = tx.RunLineage(ctx, id, MaxRunLineage+1); err != nil {
			return err
		}
		if len(found.Facts) > MaxRunLineage {
			found.Facts, found.Truncated = found.Facts[:MaxRunLineage], true
		}
		if found.Externals, err = externalsOf(ctx, tx, found.Facts); err != nil {
			return err
		}
		found.Unresolved, err = tx.UnresolvedStatements(ctx, id)
		return err
	})
	return found, err
}

// externalsOf are the datasets outside among the tables of the facts.
func externalsOf(ctx context.Context, tx Tx, facts []LineageFact) (map[TableID]External, error) {
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
	found := make(map[TableID]External, len(all))
	for id, e := range all {
		found[TableID(id)] = e
	}
	return found, err
}

// External says that the id is of a dataset outside.
func (id TableID) External() bool { return strings.HasPrefix(string(id), prefixDataset) }

// Coverage counts the statements that ended since then by what is known of their lineage.
func (l *Lineages) Coverage(ctx context.Context, s Scope, since time.Time) (c LineageCoverage, err error) {
	if err := authorize(ctx, l.Store, s, LineageShow); err != nil {
		return c, err
	}
	err = l.Store.In(ctx, s, func(tx Tx) (err error) {
		c, err = tx.LineageCoverage(ctx, since)
		return err
	})
	return c, err
}

// settleLineage completes the lineage of a statement that has ended, and returns it.
func settleLineage(ctx context.Context, tx Tx, s LineageSettlement, seen Lineage) (Lineage, error) {
	if len(s.Columns) == 0 && len(s.OnlyWritten) == 0 {
		return seen, nil
	}
	if err := tx.SettleLineage(ctx, s); err != nil {
		return seen, err
	}
	if len(s.OnlyWritten) > 0 {
		return tx.LineageOf(ctx, Actor{Kind: ActorStatement, ID: string(s.Statement)})
	}
	for _, all := range [][]LineageEntry{seen.Read, seen.Written} {
		for i, e := range all {
			if columns, known := s.Columns[e.TableID]; known {
				all[i].Columns = columns
			}
		}
	}
	return seen, nil
}

// settlement compares what a statement that has succeeded names with what the catalog saw of it.
func settlement(st Statement, end StatementEnd, seen Lineage) (s LineageSettlement, resolution LineageResolution) {
	s, resolution = LineageSettlement{Statement: st.ID, Columns: map[TableID][]string{}}, LineageResolved
	read, written := byName(seen.Read), byName(seen.Written)
	if len(end.Tables)+len(read)+len(written) == 0 {
		resolution = LineageNone
	}
	if end.Failure != nil { // its engine was lost after the commit, and never said what it named
		resolution = LineageUnresolved
	}
	for _, t := range end.Tables {
		key := tableKey(t.Database, t.Schema, t.Table)
		id, wrote := written[key]
		if !wrote {
			id = read[key]
		}
		if id == "" {
			if !changesCatalog(st.Kind) {
				resolution = LineageUnresolved
			}
			continue
		}
		if len(t.Columns) > 0 {
			s.Columns[id] = t.Columns
		}
		if wrote && read[key] != "" && t.Target && !slices.ContainsFunc(end.Tables, func(o StatementTable) bool {
			return !o.Target && tableKey(o.Database, o.Schema, o.Table) == key
		}) {
			s.OnlyWritten = append(s.OnlyWritten, id) // its load was that of an engine which is about to write
		}
	}
	for _, e := range seen.Read {
		if columns := scanned(end.Scans, e.TableID); len(columns) > 0 {
			s.Columns[e.TableID] = columns
		}
	}
	return s, resolution
}

// scanned are the columns that were read of the table, by the files: the catalog's own locations have the id of their table.
func scanned(scans []StatementScan, id TableID) (columns []string) {
	for _, scan := range scans {
		if strings.Contains(scan.File, "/"+string(id)) {
			columns = append(columns, scan.Columns...)
		}
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}

func tableKey(database, schema, name string) string {
	return FoldName(database + "." + schema + "." + name)
}

func byName(entries []LineageEntry) map[string]TableID {
	ids := make(map[string]TableID, len(entries))
	for _, e := range entries {
		ids[tableKey(e.Database, e.Schema, e.Name)] = e.TableID
	}
	return ids
}

// changesCatalog says that statements of the kind neither read nor write data of the table that they name.
func changesCatalog(kind string) bool {
	verb, _, _ := strings.Cut(kind, " ")
	return slices.Contains([]string{"DROP", "ALTER", "DESCRIBE", "SHOW"}, verb) || kind == "CREATE VIEW" || kind == "CREATE SCHEMA"
}
