package domain

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rules of when a table's maintenance waits.
const (
	maintenanceQuiet = 5 * time.Minute  // a table that changed since is being written: compaction waits
	maintenanceWait  = 6 * time.Hour    // for so long at most, and for a warehouse as well
	maintenanceAgain = 5 * time.Minute  // after an engine or a server was lost, and after each time that it is lost once more
	maintenanceLook  = 10 * time.Minute // at a warehouse that does not run, and is not to be started
	maintenanceClaim = time.Minute      // in which a replica submits a statement, before another one does
	maintenanceTries = 3                // that may be lost with an engine or a server
	maintenanceTime  = 6 * time.Hour    // that one statement may run
)

// Bounds of maintenance in one workspace, so that people's statements are not held up.
const (
	MaintenanceAtOnce = 2   // statements in a workspace; on one warehouse it is one
	maintenanceRead   = 50  // runs that wait, at one look
	maintenanceSweep  = 500 // tables in one transaction
)

// MaintenanceKept is how long the history of maintenance is kept.
const MaintenanceKept = 90 * 24 * time.Hour

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// needs is what is to be done with the table now, by what its row knows of it: no file is opened.
func (t MaintainedTable) needs(s MaintenanceSettings, now time.Time) []MaintenanceKind {
	if t.Kind != KindTable || t.Snapshot == nil {
		return nil
	}
	need := map[MaintenanceKind]bool{
		MaintenanceCompact: t.scattered(s) || t.deletedFrom(s), MaintenanceExpire: t.aged(s, now), MaintenanceOrphans: t.littered(s, now),
	}
	return slices.DeleteFunc(s.kinds(), func(k MaintenanceKind) bool { return !need[k] })
}

// scattered says that enough data files came since the table was compacted, and that its files are small on average. Where files went instead, it is not known
// which are new, so all of them count. DuckDB's snapshots do not tell the size of files: then they are taken to be small, and the engine leaves those alone that are not.
func (t MaintainedTable) scattered(s MaintenanceSettings) bool {
	if t.DataFiles == nil || *t.DataFiles == 0 {
		return false
	}
	fresh := *t.DataFiles - t.Done.CompactedFiles
	if fresh < 0 {
		fresh = *t.DataFiles
	}
	return fresh >= int64(s.MinFiles) && (t.DataBytes == nil || *t.DataBytes / *t.DataFiles < s.Threshold)
}

// deletedFrom says that files of deletes came since the table was compacted, and that they, or the rows in them, are a large enough share. Where the rows are not
// known, equality deletes hide some: that is beyond any share.
func (t MaintainedTable) deletedFrom(s MaintenanceSettings) bool {
	if t.DeleteFiles == nil || *t.DeleteFiles == 0 || *t.DeleteFiles == t.Done.CompactedDeletes {
		return false
	}
	if t.RowCount == nil || t.DeletedRows == nil || t.DataFiles == nil {
		return true
	}
	share := int64(s.DeletePercent)
	return 100**t.DeleteFiles >= share**t.DataFiles || 100**t.DeletedRows >= share*(*t.RowCount+*t.DeletedRows)
}

// aged says that a snapshot which may go is older than those that are kept. Of a table that was last written before that was noted it is tried once.
func (t MaintainedTable) aged(s MaintenanceSettings, now time.Time) bool {
	oldest := t.ExpirableAt
	if t.Snapshots == nil && t.Done.ExpiredAt == nil {
		oldest = &t.CreatedAt
	}
	return oldest != nil && now.Sub(*oldest) >= days(s.KeepDays)
}

// littered says that the table was written since orphans were looked for, and that this is as long ago as they have to be old.
func (t MaintainedTable) littered(s MaintenanceSettings, now time.Time) bool {
	looked := t.CreatedAt
	if t.Done.CleanedAt != nil {
		looked = *t.Done.CleanedAt
	}
	return t.Version != t.Done.CleanedVersion && now.Sub(looked) >= days(s.OlderDays)
}

// sql is the statement that does the kind.
func (k MaintenanceKind) sql(t LakeTable, s MaintenanceSettings) string {
	do := map[MaintenanceKind]string{
		MaintenanceCompact: fmt.Sprintf("optimize(file_size_threshold => '%dMB')", s.Threshold/mib),
		MaintenanceExpire:  fmt.Sprintf("expire_snapshots(retention_threshold => '%dd')", s.KeepDays),
		MaintenanceOrphans: fmt.Sprintf("remove_orphan_files(retention_threshold => '%dd')", s.OlderDays),
	}[k]
	return "ALTER TABLE " + quotedName(t.Database) + "." + quotedName(t.Schema) + "." + quotedName(t.Name) + " EXECUTE " + do
}

// quotedName is a name as SQL takes it, whatever is in it.
func quotedName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// note takes what came of an operation that succeeded.
func (m *Maintained) note(k MaintenanceKind, after LakeTable, now time.Time) {
	switch k {
	case MaintenanceCompact:
		m.CompactedAt, m.CompactedFiles, m.CompactedDeletes = &now, orZero(after.DataFiles), orZero(after.DeleteFiles)
	case MaintenanceExpire:
		m.ExpiredAt = &now
	case MaintenanceOrphans:
		m.CleanedAt, m.CleanedVersion = &now, after.Version
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
