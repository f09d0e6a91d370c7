// Package expiry decides which snapshots of an Iceberg table expire. The catalog and the
// maintenance process both use it: one to find due tables, the other to expire snapshots.
//
// The age of a snapshot begins when it was last replaced, not when it was made. The state of a
// table that was unchanged for a month is as old as the commit that replaces it.
package expiry

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go/table"
)

// MinAge is the minimum time that a snapshot stays after it was replaced, whatever Rule.Max says.
const MinAge = time.Hour

// Rule says which snapshots stay. Properties of the table and its branches can only keep more.
type Rule struct {
	Age  time.Duration // a snapshot that was replaced this long ago expires
	Keep int           // minimum number of snapshots that each branch keeps
	// above this number, the oldest snapshots expire even if they are younger; 0 is no limit
	Max int
}

// Plan lists what expires.
type Plan struct {
	Snapshots []int64
	Refs      []string // branches and tags that are older than their own max-ref-age-ms
}

// Decide plans the expiry of the table at the given time. It never removes a snapshot that a
// remaining branch or tag names, if the caller expires the refs first.
func Decide(meta table.Metadata, r Rule, now time.Time) (p Plan) {
	p.Refs = expiredRefs(meta, now)
	h := read(meta, r, p.Refs)
	var rest []*snapshot
	for _, s := range h.all {
		switch {
		case s.stays:
		case now.Sub(s.replaced) >= s.age:
			p.Snapshots = append(p.Snapshots, s.id)
		case now.Sub(s.replaced) >= MinAge:
			rest = append(rest, s)
		}
	}
	if excess := len(h.all) - len(p.Snapshots) - r.Max; r.Max > 0 && excess > 0 {
		slices.SortStableFunc(rest, func(a, b *snapshot) int { return cmp.Or(a.replaced.Compare(b.replaced), a.made.Compare(b.made)) })
		for _, s := range rest[:min(excess, len(rest))] {
			p.Snapshots = append(p.Snapshots, s.id)
		}
	}
	return p
}

// Oldest returns when the oldest expirable snapshot was replaced, or nil if no snapshot may expire.
func Oldest(meta table.Metadata) (oldest *time.Time) {
	for _, s := range read(meta, Rule{}, nil).all {
		if !s.stays && (oldest == nil || s.replaced.Before(*oldest)) {
			at := s.replaced.UTC()
			oldest = &at
		}
	}
	return oldest
}

// snapshot is a snapshot of the table, with the values that decide whether it stays.
type snapshot struct {
	id       int64
	parent   *int64
	made     time.Time
	replaced time.Time     // zero until known
	age      time.Duration // the longest age that its branches require
	stays    bool          // a ref names it, or its branch keeps it by number
}

type history struct {
	all    []*snapshot // in the order of the metadata
	byID   map[int64]*snapshot
	logged map[int64]time.Time // when main last left the snapshot
	rule   Rule

	ownKeep int // the table's number for branches without their own
}

func read(meta table.Metadata, r Rule, expired []string) *history {
	h := &history{byID: map[int64]*snapshot{}, logged: logged(meta), rule: r}
	h.ownKeep = meta.Properties().GetInt(table.MinSnapshotsToKeepKey, table.MinSnapshotsToKeepDefault)
	if own := property(meta, table.MaxSnapshotAgeMsKey); own != nil {
		h.rule.Age = max(r.Age, milliseconds(*own))
	}
	for _, s := range meta.Snapshots() {
		of := &snapshot{id: s.SnapshotID, parent: s.ParentSnapshotID, made: time.UnixMilli(s.TimestampMs), age: h.rule.Age}
		h.all, h.byID[s.SnapshotID] = append(h.all, of), of
	}
	for name, ref := range meta.Refs() {
		switch {
		case slices.Contains(expired, name):
		case ref.SnapshotRefType == table.TagRef:
			h.keep(ref.SnapshotID)
		default:
			h.follow(name, ref)
		}
	}
	for _, s := range h.all {
		if s.replaced.IsZero() { // no branch reaches it
			s.replaced = cmp.Or(h.logged[s.id], s.made)
		}
	}
	return h
}

func (h *history) keep(id int64) {
	if s := h.byID[id]; s != nil {
		s.stays = true
	}
}

// follow walks a branch from its head to its root. The previous snapshot of the walk replaced each
// one.
func (h *history) follow(name string, ref table.SnapshotRef) {
	keep := max(h.rule.Keep, h.ownKeep)
	if ref.MinSnapshotsToKeep != nil {
		keep = max(h.rule.Keep, *ref.MinSnapshotsToKeep)
	}
	age := h.rule.Age
	if ref.MaxSnapshotAgeMs != nil {
		age = max(age, milliseconds(*ref.MaxSnapshotAgeMs))
	}
	h.keep(ref.SnapshotID)
	seen := map[int64]bool{} // metadata may contain a cycle
	var successor *snapshot
	for s := h.byID[ref.SnapshotID]; s != nil && !seen[s.id]; s = h.parent(s) {
		seen[s.id] = true
		if successor != nil {
			s.replacedAt(successor.made)
		}
		if name == table.MainBranch {
			s.replacedAt(h.logged[s.id])
		}
		s.age = max(s.age, age)
		s.stays = s.stays || len(seen) <= keep
		successor = s
	}
}

func (h *history) parent(s *snapshot) *snapshot {
	if s.parent == nil {
		return nil
	}
	return h.byID[*s.parent]
}

// replacedAt adds a time when the snapshot was replaced; the latest counts.
func (s *snapshot) replacedAt(at time.Time) {
	if at.After(s.replaced) {
		s.replaced = at
	}
}

// logged returns when main last left each snapshot, as far as the table's log goes back.
func logged(meta table.Metadata) map[int64]time.Time {
	left := map[int64]time.Time{}
	var last *table.SnapshotLogEntry
	for e := range meta.SnapshotLogs() {
		if last != nil {
			left[last.SnapshotID] = time.UnixMilli(e.TimestampMs)
		}
		delete(left, e.SnapshotID)
		last = &e
	}
	return left
}

// expiredRefs returns the branches and tags that are older than their own limit, or else the
// table's.
func expiredRefs(meta table.Metadata, now time.Time) (names []string) {
	own := property(meta, table.MaxRefAgeMsKey)
	for name, ref := range meta.Refs() {
		limit := cmp.Or(ref.MaxRefAgeMs, own)
		s := meta.SnapshotByID(ref.SnapshotID)
		if name != table.MainBranch && s != nil && limit != nil && now.Sub(time.UnixMilli(s.TimestampMs)) > milliseconds(*limit) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// property returns a table property in milliseconds; nil if it is missing or not a number.
func property(meta table.Metadata, name string) *int64 {
	n, err := strconv.ParseInt(meta.Properties()[name], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// maxAge bounds ages, to avoid overflow; no table is older.
const maxAge = 36500 * 24 * time.Hour

func milliseconds(n int64) time.Duration {
	return time.Duration(max(0, min(n, maxAge.Milliseconds()))) * time.Millisecond
}
