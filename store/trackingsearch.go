package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/tracking"
)

// search builds the statement of a search of experiments or runs. Values are always arguments.
type search struct {
	alias string // of the table that is searched
	args  []any
	joins []string
	where []string
	order []column
}

// column is an expression that a search compares or orders by.
type column struct {
	sql  string
	kind string // its SQL type, for the cursor
	null bool   // it may be null, and nulls come last
	nan  bool   // it may be NaN, which comes last but for null
	id   bool   // it is a short text that an index has
	desc bool
}

func newSearch(ws domain.WorkspaceID, alias string) *search {
	return &search{alias: alias, args: []any{ws}, where: []string{alias + ".workspace_id = $1"}}
}

// arg adds an argument and returns its placeholder.
func (s *search) arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

func (s *search) and(format string, args ...any) {
	s.where = append(s.where, fmt.Sprintf(format, args...))
}

// view selects by the times of deletion. The planner knows how many rows each condition leaves.
func (s *search) view(v tracking.View, deleted ...string) {
	switch v {
	case tracking.ViewActive:
		s.and("%s IS NULL", strings.Join(deleted, " IS NULL AND "))
	case tracking.ViewDeleted:
		s.and("(%s IS NOT NULL)", strings.Join(deleted, " IS NOT NULL OR "))
	}
}

// longestKey bounds the texts that a search orders by, in characters: cursors carry them.
const longestKey = 1000

// orderBy adds columns to the order: where the value may be missing, its rank comes first.
func (s *search) orderBy(c column, desc bool) {
	c.desc = desc
	switch {
	case c.nan:
		s.order = append(s.order, column{sql: fmt.Sprintf("CASE WHEN %[1]s IS NULL THEN 2 WHEN %[1]s = 'NaN' THEN 1 ELSE 0 END", c.sql), kind: "int"})
		c.sql = fmt.Sprintf("COALESCE(NULLIF(%s, 'NaN'), 0)", c.sql)
	case c.null:
		s.order = append(s.order, column{sql: fmt.Sprintf("(%s IS NULL)::int", c.sql), kind: "int"})
		none := "''"
		if c.kind == "timestamptz" {
			none = "'epoch'"
		}
		c.sql = fmt.Sprintf("COALESCE(%s, %s)", c.sql, none)
	}
	if c.kind == "text" && !c.id {
		c.sql = fmt.Sprintf(`left(%s, %d) COLLATE "C"`, c.sql, longestKey)
	}
	s.order = append(s.order, c)
}

// query returns the statement: the columns and the keys of each row, in the order, after the keys
// of the query. It reads one row more than the limit. What is sorted has only the keys: the columns
// of the other rows are not read.
func (s *search) query(columns, table string, q tracking.Query) string {
	if len(q.After) == len(s.order) {
		s.after(q.After)
	}
	sorted, keys, order := s.alias+".number", make([]string, len(s.order)), make([]string, len(s.order))
	for i, c := range s.order {
		key := fmt.Sprintf("k%d", i)
		sorted += ", " + c.sql + " AS " + key
		if keys[i], order[i] = "found."+key+"::text", key; c.desc {
			order[i] += " DESC"
		}
	}
	by := strings.Join(order, ", ")
	return `SELECT ` + columns + `, ARRAY[` + strings.Join(keys, ", ") + `] AS keys FROM (SELECT ` + sorted + ` FROM ` + table + ` ` + strings.Join(s.joins, " ") +
		` WHERE ` + strings.Join(s.where, " AND ") + ` ORDER BY ` + by + ` LIMIT ` + s.arg(q.Limit+1) + `) found JOIN ` + table +
		` ON ` + s.alias + `.number = found.number WHERE ` + s.alias + `.workspace_id = $1 ORDER BY ` + by
}

// after selects the rows that come after the keys in the order: for each column, those that are
// equal in the columns before it, and later in it. The bound of the first column alone lets an
// index find them.
func (s *search) after(keys tracking.Keys) {
	var cases, equal []string
	for i, c := range s.order {
		later, value := ">", s.arg(keys[i])+"::text::"+c.kind
		if c.desc {
			later = "<"
		}
		cases = append(cases, "("+strings.Join(append(equal[:len(equal):len(equal)], c.sql+" "+later+" "+value), " AND ")+")")
		equal = append(equal, c.sql+" = "+value)
		if i == 0 {
			s.and("%s %s= %s", c.sql, later, value)
		}
	}
	s.and("(%s)", strings.Join(cases, " OR "))
}

// compare returns the condition on the expression.
func (s *search) compare(expr string, c tracking.Condition, value any) string {
	switch c.Op {
	case "IN":
		return fmt.Sprintf("%s = ANY(%s)", expr, s.arg(pq.Array(c.List)))
	case "NOT IN":
		return fmt.Sprintf("%s <> ALL(%s)", expr, s.arg(pq.Array(c.List)))
	case "!=":
		return fmt.Sprintf("%s <> %s", expr, s.arg(value))
	case "IS NULL", "IS NOT NULL":
		return fmt.Sprintf("%s %s", expr, c.Op)
	}
	return fmt.Sprintf("%s %s %s", expr, c.Op, s.arg(value))
}

// comparePair adds the condition on a parameter or a tag. A missing one meets no condition but IS
// NULL.
func (s *search) comparePair(table, owner, number string, c tracking.Condition) {
	exists, rest := "EXISTS", ""
	switch c.Op {
	case "IS NULL":
		exists = "NOT EXISTS"
	case "IS NOT NULL":
	default:
		rest = " AND " + s.compare("p.value", c, c.Text)
	}
	s.and("%s (SELECT FROM %s p WHERE p.workspace_id = $1 AND p.%s = %s AND p.key = %s%s)", exists, table, owner, number, s.arg(c.Key), rest)
}

// compareColumn adds the condition on an attribute.
func (s *search) compareColumn(col column, c tracking.Condition) {
	if col.kind == "timestamptz" {
		s.and("%s", s.compare(col.sql, c, millis(c.Int)))
		return
	}
	s.and("%s", s.compare(col.sql, c, c.Text))
}

// lastTime is the first millisecond after all times that are stored.
const lastTime = 253_402_300_800_000

// millis returns the time of the milliseconds since 1970, within what the database stores.
func millis(ms int64) time.Time { return time.UnixMilli(min(max(ms, -1), lastTime)).UTC() }

func experimentAttribute(key string) column {
	switch key {
	case "creation_time":
		return column{sql: "x.created_at", kind: "timestamptz"}
	case "last_update_time":
		return column{sql: "x.updated_at", kind: "timestamptz"}
	case "experiment_id":
		return column{sql: "x.number", kind: "bigint"}
	}
	return column{sql: "x.name", kind: "text"}
}

func (s *search) experimentCondition(c tracking.Condition) {
	switch {
	case c.Entity == tracking.TagEntity:
		s.comparePair("experiment_tags", "experiment", "x.number", c)
	case c.Key == "experiment_id":
		s.compareColumn(column{sql: "x.number::text", kind: "text"}, c)
	default:
		s.compareColumn(experimentAttribute(c.Key), c)
	}
}

// artifactURI is tracking.Run.ArtifactURI.
const artifactURI = `rtrim(COALESCE(NULLIF(x.artifact_location, ''), 'mlflow-artifacts:/' || x.number), '/') || '/' || r.id || '/artifacts'`

func runAttribute(key string) column {
	switch key {
	case "run_id":
		return column{sql: "r.id", kind: "text", id: true}
	case "run_name":
		return column{sql: "r.name", kind: "text"}
	case "user_id":
		return column{sql: "r.user_name", kind: "text"}
	case "start_time":
		return column{sql: "r.started_at", kind: "timestamptz"}
	case "end_time":
		return column{sql: "r.finished_at", kind: "timestamptz", null: true}
	case "artifact_uri":
		return column{sql: artifactURI, kind: "text"}
	case "experiment_id":
		return column{sql: "r.experiment::text", kind: "text"}
	}
	return column{sql: "upper(r.state)", kind: "text"} // status
}

// runCondition adds a condition on runs. keys has the numbers of metrics' names.
func (s *search) runCondition(c tracking.Condition, keys map[string]int64) {
	switch c.Entity {
	case tracking.MetricEntity:
		number := ""
		if c.Op != "!=" {
			number = " AND m.value <> 'NaN'"
		}
		s.and("EXISTS (SELECT FROM tracking_metrics m WHERE m.workspace_id = $1 AND m.run = r.number AND m.key = %s AND %s%s)",
			s.arg(keys[c.Key]), s.compare("m.value", c, c.Number), number)
	case tracking.ParamEntity:
		s.comparePair("tracking_parameters", "run", "r.number", c)
	case tracking.TagEntity:
		s.comparePair("tracking_tags", "run", "r.number", c)
	case tracking.DatasetEntity:
		expr := "d." + c.Key
		if c.Key == "context" {
			expr = "i.tags ->> 'mlflow.data.context'"
		}
		s.and(`EXISTS (SELECT FROM tracking_inputs i JOIN tracking_datasets d ON d.workspace_id = i.workspace_id AND d.number = i.dataset
			WHERE i.workspace_id = $1 AND i.run = r.number AND (%s))`, s.compare(expr, c, c.Text))
	default:
		s.compareColumn(runAttribute(c.Key), c)
	}
}

// runOrder adds an item of the order of runs.
func (s *search) runOrder(o tracking.Order, keys map[string]int64) {
	join := func(table, key string) string {
		alias := fmt.Sprintf("o%d", len(s.joins))
		s.joins = append(s.joins, fmt.Sprintf("LEFT JOIN %[1]s %[2]s ON %[2]s.workspace_id = $1 AND %[2]s.run = r.number AND %[2]s.key = %[3]s", table, alias, key))
		return alias + ".value"
	}
	switch o.Entity {
	case tracking.MetricEntity:
		s.orderBy(column{sql: join("tracking_metrics", s.arg(keys[o.Key])), kind: "float8", nan: true}, o.Descending)
	case tracking.ParamEntity:
		s.orderBy(column{sql: join("tracking_parameters", s.arg(o.Key)), kind: "text", null: true}, o.Descending)
	case tracking.TagEntity:
		s.orderBy(column{sql: join("tracking_tags", s.arg(o.Key)), kind: "text", null: true}, o.Descending)
	default:
		s.orderBy(runAttribute(o.Key), o.Descending)
	}
}
