package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/millpond/millpond/agent"
)

// deletesByEquality reports whether a snapshot has deletes by equality, or does not say.
func (s *shape) deletesByEquality() bool {
	return slices.ContainsFunc(s.Snapshots, func(o shapeSnapshot) bool { return o.Summary["total-equality-deletes"] != "0" })
}

func (s *shape) current() *shapeSnapshot {
	if s.Snapshot == nil {
		return nil
	}
	return s.snapshot(*s.Snapshot)
}

func (s *shape) snapshot(id int64) *shapeSnapshot {
	for i := range s.Snapshots {
		if s.Snapshots[i].ID == id {
			return &s.Snapshots[i]
		}
	}
	return nil
}

// equalityAt looks into a snapshot as equalityOf does, by the schema that the snapshot had.
func (e *execution) equalityAt(t agent.StatementTable, s *shape, id int64) (*equality, error) {
	snapshot := s.snapshot(id)
	if snapshot == nil {
		return nil, nil
	}
	schema := s.Schema
	if snapshot.Schema != nil {
		schema = *snapshot.Schema
	}
	return e.equalityOf(t, s, *snapshot, schema)
}

// snapshotAt is the snapshot that an AT stands for; nil where there is none, of which DuckDB says what is to be said.
func (e *execution) snapshotAt(s *shape, at *travel) (*int64, error) {
	all := tokens(at.clause)
	if len(all) < 7 || !all[3].is("=") || !all[4].is(">") { // AT ( VERSION = > value )
		return nil, refuse(-1, "AT is not understood here: write AT (VERSION => 123), or AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00').")
	}
	value := at.clause[all[4].end:all[len(all)-1].pos]
	what := "CAST((" + value + "\n) AS BIGINT)"
	if all[2].word("timestamp") {
		what = "epoch_us(CAST((" + value + "\n) AS TIMESTAMPTZ))"
	}
	found, err := e.conn.strings("SELECT " + what)
	if err != nil || len(found) != 1 {
		return nil, err
	}
	n, err := strconv.ParseInt(found[0], 10, 64)
	if err != nil {
		return nil, refuse(-1, "AT has no version or time: %s.", cut(fmt.Sprint(at.clause), 100))
	}
	if !all[2].word("timestamp") {
		return &n, nil
	}
	var last *shapeSnapshot
	for i, o := range s.Snapshots {
		if o.Time*1000 <= n && (last == nil || o.Time >= last.Time) {
			last = &s.Snapshots[i]
		}
	}
	if last == nil {
		return nil, nil
	}
	return &last.ID, nil
}
