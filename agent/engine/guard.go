package engine

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	duckdb "github.com/duckdb/duckdb-go-bindings"
	"github.com/millpond/millpond/agent"
)

// guard keeps DuckDB from what it does not read exactly in the tables of a statement. What it skips wrongly by statistics and partitions it is kept from
// skipping, by views over the tables; what it would answer wrongly otherwise is refused.
func (e *execution) guard() error {
	if e.s.Catalog.URL == "" || !e.class.query && !e.class.write && !e.class.explain {
		return nil
	}
	if err := e.preload(); err != nil {
		return err
	}
	needed, blind := false, false
	for _, m := range e.named {
		t := m.resolve(e.s.Database, e.s.Schema)
		if !slices.Contains(e.attached, t.Database) {
			continue
		}
		if m.target {
			if err := e.guardTarget(t); err != nil {
				return err
			}
			continue
		}
		travel := travelOf(e.query, m)
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

// preload asks the catalog for all tables at once, so that a statement does not wait for one after another. What goes wrong with one tells whoever asks for it next.
func (e *execution) preload() error {
	var all []agent.StatementTable
	for _, m := range e.named {
		t := m.resolve(e.s.Database, e.s.Schema)
		if slices.Contains(e.attached, t.Database) && (!m.target || changesRows(e.class)) && !slices.ContainsFunc(all, func(o agent.StatementTable) bool { return sameTable(o, t) }) {
			all = append(all, t)
		}
	}
	if len(all) < 2 {
		return nil
	}
	var group sync.WaitGroup
	defer group.Wait()
	places := make(chan struct{}, preloadsAtOnce)
	for _, t := range all {
		path, err := e.client().tablePath(t)
		if err != nil {
			return err
		}
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			_ = e.client().call(http.MethodGet, path, nil, nil)
		})
	}
	return nil
}

// preloadsAtOnce are as many connections as are kept to the catalog.
const preloadsAtOnce = 4

// tryAsWritten has DuckDB say what is wrong with the statement where that is: in the text as it was given.
func (e *execution) tryAsWritten() error {
	statement, err := e.prepare(e.query)
	if err == nil {
		duckdb.DestroyPrepare(&statement)
		return nil
	}
	if d, ok := errors.AsType[*duckError](err); ok && d.Type == "Catalog" && strings.Contains(d.Message, "does not exist") { // it may be a view
		return nil
	}
	return err
}

// examine answers the hazards of a table, none where it is no table. Where it is only read as it was, its deletes are looked into by travelled.
func (e *execution) examine(t agent.StatementTable, travels bool) ([]hazard, error) {
	key := fmt.Sprint(viewKey(t), travels)
	if known, ok := e.examined[key]; ok {
		return known, nil
	}
	s, err := e.client().shape(t)
	if err != nil || s == nil {
		return nil, err
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
	if comparesDistinct(e.class.tokens) || e.viewsDistinct {
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

// guardPartitions refuses to change rows while a snapshot lists manifests of a former partitioning: DuckDB writes the partitions of its deletes by all of them at
// once, so that neither it nor others find what was deleted. It reads the list of a table that has been partitioned otherwise.
func (e *execution) guardPartitions(t agent.StatementTable) error {
	s, err := e.client().shape(t)
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
	return refuse(-1, "The table %s.%s has files of a former partitioning, beside which DuckDB deletes no rows exactly. Change it in Trino, with \"engine\": \"trino\", or make the table anew: CREATE TABLE … AS SELECT.", t.Schema, t.Table)
}

// guardTarget refuses to change rows that DuckDB would not find.
func (e *execution) guardTarget(t agent.StatementTable) error {
	if !changesRows(e.class) {
		return nil
	}
	if s, err := e.client().shape(t); err != nil {
		return err
	} else if s != nil && s.Version < 2 {
		return refuse(-1, "The table %s.%s is of Iceberg's format version 1, which DuckDB reads and does not write: others could not read what it wrote. Upgrade the table to version 2.", t.Schema, t.Table)
	}
	if e.class.kind == "INSERT" {
		return nil
	}
	if comparesDistinct(e.class.tokens) {
		return refuse(-1, "IS DISTINCT FROM is not run in %s: DuckDB would not find all rows to change. Write a = b and IS NULL out.", e.class.kind)
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
		if !slices.ContainsFunc(e.class.tokens, func(w token) bool { return w.name() && strings.EqualFold(w.text, h.column) }) {
			continue
		}
		if h.numbers {
			found, err := e.conn.strings("SELECT 1 FROM " + fullName(t) + " WHERE " + quote(h.column) + "::VARCHAR LIKE '%nan%' LIMIT 1")
			if err != nil {
				return err
			}
			if len(found) == 0 {
				continue
			}
			return refuse(-1, "The column %q of %s holds NaN, by which DuckDB would not find all rows to change. Choose the rows by other columns, and name this one nowhere in the statement.", h.column, t.Table)
		}
		return refuse(-1, "The column %q of %s has been of another type, or the table is partitioned by it in a way by which DuckDB would not find all rows to change. Choose the rows by other columns, and name this one nowhere in the statement.", h.column, t.Table)
	}
	return nil
}

func changesRows(c class) bool {
	return c.kind == "UPDATE" || c.kind == "DELETE" || c.kind == "MERGE" || c.kind == "INSERT"
}

// comparesDistinct reports whether IS DISTINCT FROM is in a statement. By one that is part of an OR, DuckDB skips files in which a column is NULL alone.
func comparesDistinct(all []token) bool {
	for i, t := range all {
		if i > 0 && i+1 < len(all) && t.word("distinct") && all[i+1].word("from") && all[i-1].word("is", "not") {
			return true
		}
	}
	return false
}

func fullName(t agent.StatementTable) string {
	return quote(t.Database) + "." + quote(t.Schema) + "." + quote(t.Table)
}

// guarded makes a view in a table's place by which DuckDB skips nothing wrongly; false where it needs none.
func (v *viewMaker) guarded(t agent.StatementTable) (bool, error) {
	hazards, err := v.examine(t, false)
	if err != nil || len(hazards) == 0 {
		return false, err
	}
	source := fullName(t)
	var opaque []string
	for _, h := range hazards {
		if h.equality == nil {
			opaque = append(opaque, fmt.Sprintf("CASE WHEN %[1]s IS NULL THEN NULL ELSE %[1]s END AS %[1]s", quote(h.column)))
		} else if source, err = v.withoutDeleted(h.equality); err != nil {
			return false, err
		}
	}
	columns := "*"
	if len(opaque) > 0 {
		columns = "* REPLACE (" + strings.Join(opaque, ", ") + ")"
	}
	in := quote(views) + "." + quote(t.Database+"."+t.Schema)
	if err := v.conn.exec("CREATE SCHEMA IF NOT EXISTS " + in); err != nil {
		return false, err
	}
	return true, v.conn.exec("CREATE VIEW " + in + "." + quote(t.Table) + " AS SELECT " + columns + " FROM " + source)
}

// travel is the AT of a table in a statement.
type travel struct {
	alias    string
	clause   string // AT (…)
	ref      string // the name of a branch or a tag, where there is one
	named    bool
	timed    bool // its value is a time that the text has
	values   int  // in the clause
	pos, end int  // of clause, in bytes
}

// travelOf reads the AT after a table's name; nil where there is none.
func travelOf(query string, m mention) *travel {
	all := tokens(query[m.end:])
	at := &travel{}
	if len(all) > 1 && all[0].word("as") {
		all = all[1:]
	}
	if n := aliasOf(all); n > 0 && n < len(all) && all[n].word("at") {
		at.alias, all = query[m.end+all[0].pos:m.end+all[n-1].end], all[n:]
	}
	if len(all) < 4 || !all[0].word("at") || !all[1].is("(") {
		return nil
	}
	at.named, at.timed = all[2].word("version"), all[2].word("timestamp")
	for i, depth := 1, 0; i < len(all); i++ {
		switch {
		case all[i].is("("):
			depth++
		case all[i].kind == tokenString:
			at.ref = all[i].text
			at.values++
		case all[i].kind == tokenNumber || all[i].kind == tokenParameter:
			at.named = false
			at.timed = at.timed && all[i].kind == tokenNumber
			at.values++
		case all[i].is(")"):
			if depth--; depth == 0 {
				at.pos, at.end = m.end+all[0].pos, m.end+all[i].end
				at.clause = query[at.pos:at.end]
				return at
			}
		}
	}
	return nil
}

// aliasOf is how many tokens a table's other name has, with names for its columns; 0 where there is none.
func aliasOf(all []token) int {
	if len(all) < 2 || !all[0].name() || all[0].word("at") && all[1].is("(") {
		return 0
	}
	if !all[1].is("(") {
		return 1
	}
	for i := 2; i < len(all); i++ {
		if all[i].is(")") {
			return i + 1
		}
	}
	return 0
}

// travelled is a table as it was: the name of a branch or a tag becomes its snapshot, and no filter is used to skip by what it was then.
func (v *viewMaker) travelled(t agent.StatementTable, at *travel) (string, error) {
	clause, alias := at.clause, at.alias
	if alias == "" {
		alias = quote(t.Table)
	}
	s, err := v.client().shape(t)
	if err != nil {
		return "", err
	}
	if s == nil {
		return "", refuse(-1, "AT reads a table as it was; %s.%s is none.", t.Schema, t.Table)
	}
	if at.values > 1 && !at.timed {
		return "", refuse(-1, "AT takes one value: AT (VERSION => 123), AT (VERSION => 'tag'), or AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00').")
	}
	var snapshot *int64 // where it is known
	if at.named && at.ref != "" {
		link, ok := s.Refs[at.ref]
		if !ok {
			return "", refuse(-1, "The table %s.%s has no branch or tag %q.", t.Schema, t.Table, cut(at.ref, 60))
		}
		if link.Type == "branch" && slices.ContainsFunc(s.Snapshots, func(o shapeSnapshot) bool { return o.ID == link.Snapshot && o.Schema != nil && *o.Schema != s.Schema }) {
			return "", refuse(-1, "The branch %q was written before the schema of %s.%s changed, and DuckDB would read it with the old one. Read it by its snapshot: AT (VERSION => %d).", at.ref, t.Schema, t.Table, link.Snapshot)
		}
		snapshot = &link.Snapshot
	} else if at.timed || s.deletesByEquality() {
		if snapshot, err = v.snapshotAt(s, at); err != nil {
			return "", err
		}
		if at.timed && snapshot == nil {
			return "", refuse(-1, "The table %s.%s has no version of that time: it is older than the first, or that has expired.", t.Schema, t.Table)
		}
	}
	source := fullName(t)
	if snapshot != nil {
		clause = fmt.Sprintf("AT (VERSION => %d)", *snapshot)
		q, err := v.equalityAt(t, s, *snapshot)
		if err != nil {
			return "", err
		}
		if q != nil {
			clause = ""
			if source, err = v.withoutDeleted(q); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("(SELECT * FROM %s %s LIMIT 9223372036854775807) AS %s", source, clause, alias), nil
}

// negativePartitions reports whether a partition of the current snapshot has a value below zero, as times before 1970 have.
func (e *execution) negativePartitions(s *shape) (bool, error) {
	for _, snapshot := range s.Snapshots {
		if s.Snapshot == nil || *s.Snapshot != snapshot.ID {
			continue
		}
		found, err := e.conn.strings("SELECT 1 FROM (SELECT unnest(partitions) AS p FROM read_avro(" + literal(snapshot.Manifests) + ")) WHERE octet_length(p.lower_bound) IN (4, 8) AND hex(p.lower_bound)[-2:] >= '80' LIMIT 1")
		return len(found) > 0, err
	}
	return false, nil
}
