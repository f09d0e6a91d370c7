package statement

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lake"
	"github.com/millpond/millpond/domain/lineage"
)

// finalizeLineage corrects and stores the lineage of a statement that has ended, and returns it.
func finalizeLineage(ctx context.Context, tx Tx, st *Statement, end End, seen lake.Lineage) (lake.Lineage, error) {
	owners, err := scanOwners(ctx, tx, end.Scans)
	if err != nil {
		return seen, err
	}
	after, resolution := settlement(*st, end, seen, owners)
	if st.State == Succeeded {
		st.Resolution = resolution
	}
	s := changes(seen, after)
	s.Statement = st.ID
	if len(s.Removed)+len(s.Added)+len(s.Columns) == 0 {
		return after, nil
	}
	return after, tx.SettleLineage(ctx, s)
}

// scanOwners returns the tables that own directories of scanned files.
func scanOwners(ctx context.Context, tx Tx, scans []Scan) (map[string]domain.TableID, error) {
	var directories []string
	known := map[string]bool{}
	for _, scan := range scans {
		for d := range parents(scan.File) {
			if !known[d] {
				known[d] = true
				directories = append(directories, d)
			}
		}
	}
	if len(directories) == 0 {
		return nil, nil
	}
	return tx.LocationOwners(ctx, directories)
}

// parents yields the directories of a file, innermost first.
func parents(file string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		scheme, rest, _ := strings.Cut(file, "://")
		for d := path.Dir(rest); d != "." && d != "/" && yield(scheme+"://"+d); {
			d = path.Dir(d)
		}
	}
}

// tableUse is a statement's use of a table, as its engine reports it.
type tableUse struct {
	written   bool
	asLoaded  bool    // read, as of a snapshot that the engine does not report
	snapshots []int64 // read
}

func (u *tableUse) read(snapshot *int64) {
	switch {
	case snapshot == nil:
		u.asLoaded = true
	case !slices.Contains(u.snapshots, *snapshot):
		u.snapshots = append(u.snapshots, *snapshot)
	}
}

// settlement returns the lineage of a statement: what the catalog recorded, corrected by the
// engine's report. An engine also loads tables that it only writes, reloads a table after a commit
// conflict, and commits nothing if no row changes.
func settlement(st Statement, end End, seen lake.Lineage, owners map[string]domain.TableID) (after lake.Lineage, resolution lineage.Resolution) {
	ids := byName(seen.Read)
	for key, id := range byName(seen.Written) {
		ids[key] = id
	}
	resolution = lineage.Resolved
	if len(end.Tables)+len(ids) == 0 {
		resolution = lineage.None
	}
	if end.Failure != nil { // its engine was lost after the commit, and did not report the tables
		resolution = lineage.Unresolved
	}
	uses, columns := map[domain.TableID]*tableUse{}, columnsOf(end.Scans, owners)
	var order []domain.TableID
	for _, t := range end.Tables {
		id := ids[lineage.TableKey(t.Database, t.Schema, t.Table)]
		if id == "" {
			if !changesCatalog(st.Kind) {
				resolution = lineage.Unresolved
			}
			continue
		}
		if uses[id] == nil {
			uses[id] = &tableUse{}
			order = append(order, id)
		}
		switch {
		case t.Target:
			uses[id].written = true
		case !st.leavesTarget(end, t):
			uses[id].read(t.Snapshot)
			columns[id] = append(columns[id], t.Columns...)
		}
	}
	for _, id := range order {
		uses[id].finalize(id, seen, st.State == Succeeded, &after)
	}
	for _, e := range seen.Read {
		if uses[e.TableID] == nil {
			after.Read = append(after.Read, e)
		}
	}
	for _, e := range seen.Written {
		if uses[e.TableID] == nil {
			after.Written = append(after.Written, e)
		}
	}
	for i, e := range after.Read {
		if c := slices.Compact(slices.Sorted(slices.Values(columns[e.TableID]))); len(c) > 0 {
			after.Read[i].Columns = c
		}
	}
	oldestFirst(after.Read)
	oldestFirst(after.Written)
	return after, resolution
}

func oldestFirst(entries []lake.LineageEntry) {
	slices.SortStableFunc(entries, func(a, b lake.LineageEntry) int { return a.At.Compare(b.At) })
}

// finalize adds the final entries of one table.
func (u *tableUse) finalize(id domain.TableID, seen lake.Lineage, succeeded bool, to *lake.Lineage) {
	ofTable := func(all []lake.LineageEntry) (found []lake.LineageEntry) {
		for _, e := range all {
			if e.TableID == id {
				found = append(found, e)
			}
		}
		return found
	}
	read, written := ofTable(seen.Read), ofTable(seen.Written)
	base := append(slices.Clone(read), written...)[0]
	if n := len(read); u.asLoaded && n > 0 { // earlier loads were for commits that had a conflict
		u.read(&read[n-1].SnapshotID)
	}
	for _, snapshot := range u.snapshots {
		e := base
		if i := slices.IndexFunc(read, func(r lake.LineageEntry) bool { return r.SnapshotID == snapshot }); i >= 0 {
			e = read[i]
		}
		e.Direction, e.SnapshotID = lake.LineageRead, snapshot
		to.Read = append(to.Read, e)
	}
	if u.written && len(written) == 0 && succeeded {
		base.Direction, base.SnapshotID, base.Columns = lake.LineageWritten, 0, nil
		written = []lake.LineageEntry{base}
	}
	for _, e := range written {
		if e.SnapshotID != 0 || len(written) == 1 { // else it is part of the change that made a snapshot
			to.Written = append(to.Written, e)
		}
	}
}

// leavesTarget reports whether the table is the statement's own target, read without changing a
// row.
func (s *Statement) leavesTarget(end End, t Table) bool {
	return s.Rows == 0 && s.ChangesRows() && s.Kind != "INSERT" && slices.ContainsFunc(end.Tables, func(o Table) bool {
		return o.Target && lineage.TableKey(o.Database, o.Schema, o.Table) == lineage.TableKey(t.Database, t.Schema, t.Table)
	})
}

// changes returns what changes the one lineage into the other.
func changes(before, after lake.Lineage) (s lineage.Settlement) {
	s.Columns = map[domain.TableID][]string{}
	for _, pair := range [][2][]lake.LineageEntry{{before.Read, after.Read}, {before.Written, after.Written}} {
		for _, e := range pair[0] {
			if !slices.ContainsFunc(pair[1], e.Same) {
				s.Removed = append(s.Removed, e)
			}
		}
		for _, e := range pair[1] {
			switch {
			case !slices.ContainsFunc(pair[0], e.Same):
				s.Added = append(s.Added, e)
			case e.Direction == lake.LineageRead && e.Columns != nil:
				s.Columns[e.TableID] = e.Columns
			}
		}
	}
	return s
}

// columnsOf returns the columns read of each table, from the scanned files.
func columnsOf(scans []Scan, owners map[string]domain.TableID) map[domain.TableID][]string {
	columns := map[domain.TableID][]string{}
	for _, scan := range scans {
		for d := range parents(scan.File) {
			if id, owned := owners[d]; owned {
				columns[id] = append(columns[id], scan.Columns...)
				break
			}
		}
	}
	return columns
}

func byName(entries []lake.LineageEntry) map[string]domain.TableID {
	ids := make(map[string]domain.TableID, len(entries))
	for _, e := range entries {
		ids[lineage.TableKey(e.Database, e.Schema, e.Name)] = e.TableID
	}
	return ids
}

// changesCatalog reports whether statements of the kind neither read nor write data of the table
// that they name.
func changesCatalog(kind string) bool {
	verb, _, _ := strings.Cut(kind, " ")
	return slices.Contains([]string{"DROP", "ALTER", "DESCRIBE", "SHOW"}, verb) || kind == "CREATE VIEW" || kind == "CREATE SCHEMA"
}
