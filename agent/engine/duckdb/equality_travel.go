package duckdb

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// deletesByEquality reports whether a snapshot has equality deletes, or does not say.
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

// equalityAt is equalityOf for a snapshot read with its own schema.
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

// snapshotAt returns the snapshot id that an AT clause selects. It returns nil if there is no such
// snapshot; DuckDB reports the error then.
func (e *execution) snapshotAt(s *shape, at *sqltext.Travel) (*int64, error) {
	all := sqltext.Tokens(at.Clause)
	if len(all) < 7 || !all[3].Is("=") || !all[4].Is(">") { // AT ( VERSION = > value )
		return nil, sqltext.Refuse(-1, "AT is not understood here: write AT (VERSION => 123), or AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00').")
	}
	value := at.Clause[all[4].End:all[len(all)-1].Pos]
	what := "CAST((" + value + "\n) AS BIGINT)"
	if all[2].IsWord("timestamp") {
		what = "epoch_us(CAST((" + value + "\n) AS TIMESTAMPTZ))"
	}
	found, err := e.conn.strings("SELECT " + what)
	if err != nil || len(found) != 1 {
		return nil, err
	}
	n, err := strconv.ParseInt(found[0], 10, 64)
	if err != nil {
		return nil, sqltext.Refuse(-1, "AT has no version or time: %s.", sqltext.Cut(fmt.Sprint(at.Clause), 100))
	}
	if !all[2].IsWord("timestamp") {
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
