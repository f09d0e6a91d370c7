package duckdb

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// guard protects a statement from what DuckDB reads inexactly in its tables. Views over the tables
// prevent wrong skipping by statistics and partitions. Other cases that would give a wrong answer
// are refused.
func (e *execution) guard() error {
	if e.s.Catalog.URL == "" || !e.class.Query && !e.class.Write && !e.class.Explain {
		return nil
	}
	if err := e.preload(); err != nil {
		return err
	}
	needed, blind := false, false
	for _, m := range e.named {
		t := m.Resolve(e.s.Database, e.s.Schema)
		if !slices.Contains(e.attached, t.Database) {
			continue
		}
		if m.Target {
			if err := e.guardTarget(t); err != nil {
				return err
			}
			continue
		}
		travel := sqltext.TravelOf(e.query, e.class.Tokens, m)
		needed = needed || travel != nil
		hazards, err := e.examine(t, travel != nil)
		if err != nil {
			return err
		}
		needed = needed || len(hazards) > 0
		blind = blind || travel != nil || slices.ContainsFunc(hazards, func(h hazard) bool { return !h.numbers })
	}
	if !needed {
		return nil
	}
	if !blind {
		if err := e.tryAsWritten(); err != nil {
			return err
		}
	}
	text, err := e.withViews(e.query, nil)
	if err != nil {
		return err
	}
	e.query = text
	return nil
}

// preload loads all tables from the catalog concurrently, so that a statement does not wait for
// them one by one. It ignores failures: the next request for the table reports them.
func (e *execution) preload() error {
	var all []agent.StatementTable
	for _, m := range e.named {
		t := m.Resolve(e.s.Database, e.s.Schema)
		if slices.Contains(e.attached, t.Database) && (!m.Target || e.class.ChangesRows()) && !slices.ContainsFunc(all, func(o agent.StatementTable) bool { return sqltext.SameTable(o, t) }) {
			all = append(all, t)
		}
	}
	if len(all) < 2 {
		return nil
	}
	var group sync.WaitGroup
	defer group.Wait()
	slots := make(chan struct{}, preloadsAtOnce)
	for _, t := range all {
		path, err := e.catalog.tablePath(t)
		if err != nil {
			return err
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			_ = e.catalog.call(http.MethodGet, path, nil, nil)
		})
	}
	return nil
}

// preloadsAtOnce bounds the number of concurrent table loads.
const preloadsAtOnce = 4

// tryAsWritten lets DuckDB report an error at its position in the original text.
func (e *execution) tryAsWritten() error {
	statement, err := e.prepare(e.query)
	if err == nil {
		duckdb.DestroyPrepare(&statement)
		return nil
	}
	if d, ok := errors.AsType[*exception](err); ok && d.Type == "Catalog" && strings.Contains(d.Message, "does not exist") { // it may be a view
		return nil
	}
	return err
}

// examine returns the hazards of a table, or nil if the name is no table. travelled checks the
// deletes of tables that are read only with AT.
func (e *execution) examine(t agent.StatementTable, travels bool) ([]hazard, error) {
	key := fmt.Sprint(viewKey(t), travels)
	if known, ok := e.examined[key]; ok {
		return known, nil
	}
	s, err := e.catalog.shape(t)
	if err != nil || s == nil {
		return nil, err
	}
	e.loaded[viewKey(t)] = 0
	if s.Snapshot != nil {
		e.loaded[viewKey(t)] = max(0, *s.Snapshot)
	}
	var found []hazard
	if current := s.current(); current != nil && !travels {
		q, err := e.equalityOf(t, s, *current, s.Schema)
		if err != nil {
			return nil, err
		}
		if q != nil {
			found = append(found, hazard{equality: q, numbers: q.why == ""})
		}
	}
	if e.class.ComparesDistinct() || e.viewsDistinct {
		for _, f := range s.fields() {
			found = append(found, hazard{column: f.Name})
		}
		return found, nil
	}
	columns, err := s.hazards(func() (bool, error) { return e.negativePartitions(s) })
	if err != nil {
		return nil, err
	}
	found = append(found, columns...)
	if e.examined == nil {
		e.examined = map[string][]hazard{}
	}
	e.examined[key] = found
	return found, nil
}

// guardPartitions refuses to change rows while a snapshot lists manifests of a former partition
// spec. DuckDB would write its deletes with the partition fields of all specs, and no engine would
// find them. It reads the manifest list only if the table has more than one spec.
func (e *execution) guardPartitions(t agent.StatementTable) error {
	s, err := e.catalog.shape(t)
	if err != nil || s == nil || len(s.Specs) < 2 || s.current() == nil || s.current().Manifests == "" {
		return err
	}
	former := false
	err = e.avroFiles([]string{s.current().Manifests}, func(_ int, f *avroFile) {
		former = slices.ContainsFunc(manifestsOf(f), func(m *manifest) bool { return m.spec != int64(s.Spec) })
	})
	if err != nil || !former {
		return err
	}
	return sqltext.Refuse(-1, "The table %s.%s has files of a former partitioning, and DuckDB cannot delete rows exactly then. Change it in Trino, with \"engine\": \"trino\", or create a new table: CREATE TABLE … AS SELECT.", t.Schema, t.Table)
}

// guardTarget refuses to change rows that DuckDB would not find.
func (e *execution) guardTarget(t agent.StatementTable) error {
	if !e.class.ChangesRows() {
		return nil
	}
	if s, err := e.catalog.shape(t); err != nil {
		return err
	} else if s != nil && s.Version < 2 {
		return sqltext.Refuse(-1, "The table %s.%s is of Iceberg's format version 1, which DuckDB reads and does not write: others could not read what it wrote. Upgrade the table to version 2.", t.Schema, t.Table)
	}
	if e.class.Kind == "INSERT" {
		return nil
	}
	if e.class.ComparesDistinct() {
		return sqltext.Refuse(-1, "IS DISTINCT FROM is not run in %s: DuckDB would not find all rows to change. Write a = b and IS NULL out.", e.class.Kind)
	}
	if err := e.guardPartitions(t); err != nil {
		return err
	}
	hazards, err := e.examine(t, false)
	if err != nil {
		return err
	}
	for _, h := range hazards {
		if h.equality != nil {
			if h.equality.why == "" {
				continue
			}
			return h.equality.refusal()
		}
		if !slices.ContainsFunc(e.class.Tokens, func(w sqltext.Token) bool { return w.IsName() && strings.EqualFold(w.Text, h.column) }) {
			continue
		}
		if h.numbers {
			found, err := e.conn.strings("SELECT 1 FROM " + fullName(t) + " WHERE " + sqltext.Quote(h.column) + "::VARCHAR LIKE '%nan%' LIMIT 1")
			if err != nil {
				return err
			}
			if len(found) == 0 {
				continue
			}
			return sqltext.Refuse(-1, "The column %q of %s holds NaN, by which DuckDB would not find all rows to change. Choose the rows by other columns, and name this one nowhere in the statement.", h.column, t.Table)
		}
		return sqltext.Refuse(-1, "The column %q of %s has been of another type, or the table is partitioned by it in a way by which DuckDB would not find all rows to change. Choose the rows by other columns, and name this one nowhere in the statement.", h.column, t.Table)
	}
	return nil
}

func fullName(t agent.StatementTable) string {
	return sqltext.Quote(t.Database) + "." + sqltext.Quote(t.Schema) + "." + sqltext.Quote(t.Table)
}

// guarded makes a view that replaces a table, so that DuckDB skips nothing wrongly. It returns
// false if the table needs no view.
func (v *viewMaker) guarded(t agent.StatementTable) (bool, error) {
	hazards, err := v.examine(t, false)
	if err != nil || len(hazards) == 0 {
		return false, err
	}
	source := fullName(t)
	var opaque []string
	for _, h := range hazards {
		if h.equality == nil {
			opaque = append(opaque, fmt.Sprintf("CASE WHEN %[1]s IS NULL THEN NULL ELSE %[1]s END AS %[1]s", sqltext.Quote(h.column)))
		} else if source, err = v.withoutDeleted(h.equality); err != nil {
			return false, err
		}
	}
	columns := "*"
	if len(opaque) > 0 {
		columns = "* REPLACE (" + strings.Join(opaque, ", ") + ")"
	}
	return true, v.create(t, "SELECT "+columns+" FROM "+source)
}

// travelled returns the SQL for a table with AT, and its snapshot id if known. A branch or tag name
// becomes its snapshot. Filters do not skip files by the statistics of that time.
func (v *viewMaker) travelled(t agent.StatementTable, at *sqltext.Travel) (text string, snapshot *int64, err error) {
	clause, alias := at.Clause, at.Alias
	if alias == "" {
		alias = sqltext.Quote(t.Table)
	}
	s, err := v.catalog.shape(t)
	if err != nil {
		return "", nil, err
	}
	if s == nil {
		return "", nil, sqltext.Refuse(-1, "AT reads a table as it was; %s.%s is none.", t.Schema, t.Table)
	}
	if at.Values > 1 && !at.Timed {
		return "", nil, sqltext.Refuse(-1, "AT takes one value: AT (VERSION => 123), AT (VERSION => 'tag'), or AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00').")
	}
	if at.Named && at.Ref != "" {
		link, ok := s.Refs[at.Ref]
		if !ok {
			return "", nil, sqltext.Refuse(-1, "The table %s.%s has no branch or tag %q.", t.Schema, t.Table, sqltext.Cut(at.Ref, 60))
		}
		if link.Type == "branch" && slices.ContainsFunc(s.Snapshots, func(o shapeSnapshot) bool { return o.ID == link.Snapshot && o.Schema != nil && *o.Schema != s.Schema }) {
			return "", nil, sqltext.Refuse(-1, "The branch %q was written before the schema of %s.%s changed, and DuckDB would read it with the old one. Read it by its snapshot: AT (VERSION => %d).", at.Ref, t.Schema, t.Table, link.Snapshot)
		}
		snapshot = &link.Snapshot
	} else if !at.Bound || s.deletesByEquality() {
		if snapshot, err = v.snapshotAt(s, at); err != nil {
			return "", nil, err
		}
		if at.Timed && snapshot == nil {
			return "", nil, sqltext.Refuse(-1, "The table %s.%s has no version of that time: it is older than the first, or that has expired.", t.Schema, t.Table)
		}
	}
	source := fullName(t)
	if snapshot != nil {
		clause = fmt.Sprintf("AT (VERSION => %d)", *snapshot)
		q, err := v.equalityAt(t, s, *snapshot)
		if err != nil {
			return "", nil, err
		}
		if q != nil {
			clause = ""
			if source, err = v.withoutDeleted(q); err != nil {
				return "", nil, err
			}
		}
	}
	return fmt.Sprintf("(SELECT * FROM %s %s LIMIT 9223372036854775807) AS %s", source, clause, alias), snapshot, nil
}

// negativePartitions reports whether a partition of the current snapshot has a negative value, such
// as a time before 1970.
func (e *execution) negativePartitions(s *shape) (bool, error) {
	for _, snapshot := range s.Snapshots {
		if s.Snapshot == nil || *s.Snapshot != snapshot.ID {
			continue
		}
		found, err := e.conn.strings("SELECT 1 FROM (SELECT unnest(partitions) AS p FROM read_avro(" + sqltext.Literal(snapshot.Manifests) + ")) WHERE octet_length(p.lower_bound) IN (4, 8) AND hex(p.lower_bound)[-2:] >= '80' LIMIT 1")
		return len(found) > 0, err
	}
	return false, nil
}
