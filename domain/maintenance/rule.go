package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millpond/millpond/domain/lake"
)

// Times and limits of a table's maintenance.
const (
	// a table that changed within this time is being written, so compaction waits
	maintenanceQuiet = 5 * time.Minute
	// longest wait, also for a warehouse
	maintenanceWait = 6 * time.Hour
	// pause after an engine or a server was lost; each further loss adds as much
	maintenanceAgain = 5 * time.Minute
	// interval of checks for a stopped warehouse that must not be started
	maintenanceLook = 10 * time.Minute
	// tries that may be lost with an engine or a server
	maintenanceTries = 3
	// timeout of one statement
	maintenanceTime = 6 * time.Hour
)

// Bounds of maintenance in one workspace, so that it does not delay people's statements.
const (
	// statements at once in a workspace; one on each warehouse
	AtOnce = 2
	// waiting runs that one pass reads
	maintenanceRead = 50
	// tables in one transaction
	maintenanceSweep = 500
)

// Kept is how long the history of maintenance is stored.
const Kept = 90 * 24 * time.Hour

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// needs returns the kinds that the table needs now, from its row alone, without opening files.
func (t MaintainedTable) needs(s Settings, now time.Time) []Kind {
	if t.Kind != lake.KindTable || t.Snapshot == nil {
		return nil
	}
	need := map[Kind]bool{
		Compact: t.scattered(s) || t.deletedFrom(s), Expire: t.aged(s, now) || t.crowded(s), Orphans: t.littered(s, now),
	}
	return slices.DeleteFunc(s.kinds(), func(k Kind) bool { return !need[k] })
}

// scattered reports whether enough data files were added since the last compaction, and the average
// file is small. If the number of files went down, all files count as new. DuckDB's snapshots do
// not record file sizes: those files count as small, and the engine skips the large ones.
func (t MaintainedTable) scattered(s Settings) bool {
	if t.DataFiles == nil || *t.DataFiles == 0 {
		return false
	}
	fresh := *t.DataFiles - t.Done.CompactedFiles
	if fresh < 0 {
		fresh = *t.DataFiles
	}
	return fresh >= int64(s.MinFiles) && (t.DataBytes == nil || *t.DataBytes / *t.DataFiles < s.Threshold)
}

// deletedFrom reports whether delete files were added since the last compaction, and their share of
// files or rows reaches DeletePercent. If the number of rows is unknown, because of equality
// deletes, any share counts.
func (t MaintainedTable) deletedFrom(s Settings) bool {
	if t.DeleteFiles == nil || *t.DeleteFiles == 0 || *t.DeleteFiles == t.Done.CompactedDeletes {
		return false
	}
	if t.RowCount == nil || t.DeletedRows == nil || t.DataFiles == nil {
		return true
	}
	share := int64(s.DeletePercent)
	return 100**t.DeleteFiles >= share**t.DataFiles || 100**t.DeletedRows >= share*(*t.RowCount+*t.DeletedRows)
}

// aged reports whether an expirable snapshot was replaced at least KeepDays ago. For a table
// without this record, expiry is tried once.
func (t MaintainedTable) aged(s Settings, now time.Time) bool {
	oldest := t.ExpirableAt
	if t.Snapshots == nil && t.Done.ExpiredAt == nil {
		oldest = &t.CreatedAt
	}
	return oldest != nil && now.Sub(*oldest) >= days(s.KeepDays)
}

// crowded reports whether the table has more snapshots than its maximum.
func (t MaintainedTable) crowded(s Settings) bool {
	return t.Snapshots != nil && *t.Snapshots > int64(s.MaxSnapshots)
}

// littered reports whether the table was written since orphans were removed, and that was at least
// OlderDays ago.
func (t MaintainedTable) littered(s Settings, now time.Time) bool {
	looked := t.CreatedAt
	if t.Done.CleanedAt != nil {
		looked = *t.Done.CleanedAt
	}
	return t.Version != t.Done.CleanedVersion && now.Sub(looked) >= days(s.OlderDays)
}

// sql returns the statement of the kind.
func (k Kind) sql(t lake.Table, s Settings) string {
	do := map[Kind]string{
		Compact: fmt.Sprintf("optimize(file_size_threshold => '%dMB')", s.Threshold/mib),
		Expire:  fmt.Sprintf("expire_snapshots(retention_threshold => '%dd', max_snapshots => %d, erase_after => '%dd')", s.KeepDays, s.MaxSnapshots, s.EraseAfterDays),
		Orphans: fmt.Sprintf("remove_orphan_files(retention_threshold => '%dd')", s.OlderDays),
	}[k]
	return "ALTER TABLE " + quotedName(t.Database) + "." + quotedName(t.Schema) + "." + quotedName(t.Name) + " EXECUTE " + do
}

// quotedName returns the name as a quoted SQL identifier.
func quotedName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// note records a succeeded operation.
func (m *Maintained) note(k Kind, after lake.Table, now time.Time) {
	switch k {
	case Compact:
		m.CompactedAt, m.CompactedFiles, m.CompactedDeletes = &now, orZero(after.DataFiles), orZero(after.DeleteFiles)
	case Expire:
		m.ExpiredAt, m.ExpiredSnapshots = &now, orZero(after.Snapshots)
	case Orphans:
		m.CleanedAt, m.CleanedVersion = &now, after.Version
	}
}

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
