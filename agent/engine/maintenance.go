package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/spawned"
)

// MaintainCommand is the argument with which the program runs maintain.Main.
const MaintainCommand = "engine-maintain"

// What maintenance takes where its statement does not say otherwise, as Trino does, and the least that it takes for the age of what goes: others may still read
// or write what is younger. Trino is configured to the same (trino's catalogs).
const (
	defaultThreshold = 100 << 20
	defaultRetention = 7 * day
	minRetention     = day
	maxRetention     = 36500 * day
	day              = 24 * time.Hour
)

// operations are those that there are, with the parameters that each takes.
var operations = []struct {
	operation  spawned.Operation
	parameters []string
}{
	{spawned.Optimize, []string{"file_size_threshold"}},
	{spawned.ExpireSnapshots, []string{"retention_threshold", "retain_last"}},
	{spawned.RemoveOrphanFiles, []string{"retention_threshold"}},
}

// executed is the procedure that ALTER TABLE … EXECUTE names, and the place of its name; nil where a statement is another one.
func executed(all []token) (procedure *token, at int) {
	if len(all) < 5 || !all[0].word("alter") || !all[1].word("table") || !all[2].name() {
		return nil, 0
	}
	_, i := path(all, 2)
	if i+1 >= len(all) || !all[i].word("execute") || !all[i+1].name() {
		return nil, 0
	}
	return &all[i+1], i + 1
}

// operation is what a procedure does; empty where it is none of those.
func (t *token) operation() spawned.Operation {
	if t != nil && spawned.Operation(lowerASCII(t.text)).Kind() != "" {
		return spawned.Operation(lowerASCII(t.text))
	}
	return ""
}

// executes reports whether a statement is for iceberg-go, or refused as one of its kind: DuckDB has no procedures of tables.
func (c class) executes() bool {
	procedure, _ := executed(c.tokens)
	return procedure != nil
}

// maintenance reads a statement.
func maintenance(s *agent.Statement, c class) (spawned.Maintenance, error) {
	m := spawned.Maintenance{Statement: s.ID, Catalog: s.Catalog, Storage: s.Storage, Threshold: defaultThreshold, Retention: defaultRetention}
	procedure, at := executed(c.tokens)
	if m.Operation = procedure.operation(); m.Operation == "" {
		return m, refuse(procedure.pos, "ALTER TABLE … EXECUTE %s is not run here; there are %s.", cut(procedure.text, 40), operationNames())
	}
	if len(s.Parameters) > 0 {
		return m, refuse(-1, "ALTER TABLE … EXECUTE takes no parameters from the request: write the values out.")
	}
	named, _ := path(c.tokens, 2)
	if err := checkMentions([]mention{named}, nil, nil, s.Catalog.Databases); err != nil {
		return m, err
	}
	m.Table = canonical([]mention{named}, s.Catalog.Databases)[0].resolve(s.Database, s.Schema)
	m.Table.Target = true
	if databaseNamed(s.Catalog.Databases, m.Table.Database) == "" {
		return m, refuse(named.pos, "There is no database %q here.", cut(m.Table.Database, 60))
	}
	return m, readArguments(&m, c.tokens[at+1:])
}

func operationNames() string {
	var all []string
	for _, o := range operations {
		all = append(all, string(o.operation))
	}
	return strings.Join(all, ", ")
}

// parameters are the names of what an operation takes.
func parameters(of spawned.Operation) []string {
	i := slices.IndexFunc(operations, func(o struct {
		operation  spawned.Operation
		parameters []string
	},
	) bool {
		return o.operation == of
	})
	return operations[i].parameters
}

// readArguments reads (name => value, …).
func readArguments(m *spawned.Maintenance, rest []token) error {
	if len(rest) == 0 {
		return nil
	}
	if rest[0].word("where") {
		return refuse(rest[0].pos, "EXECUTE … WHERE is not run here: the whole table is maintained, and what needs nothing is left alone.")
	}
	last := len(rest) - 1
	if !rest[0].is("(") || !rest[last].is(")") {
		return refuse(rest[0].pos, "After EXECUTE %s come its parameters, as in (name => value), and nothing else.", m.Operation)
	}
	given := map[string]bool{}
	for i := 1; i < last; i += 5 {
		if last-i < 4 || !rest[i].name() || !rest[i+1].is("=") || !rest[i+2].is(">") || rest[i+1].end != rest[i+2].pos || i+4 < last && !rest[i+4].is(",") {
			return refuse(rest[i].pos, "Write the parameters of %s as name => value, with commas between them; it takes %s.", m.Operation, strings.Join(parameters(m.Operation), ", "))
		}
		name := lowerASCII(rest[i].text)
		if !slices.Contains(parameters(m.Operation), name) {
			return refuse(rest[i].pos, "%s takes no parameter %s; it takes %s.", m.Operation, cut(name, 40), strings.Join(parameters(m.Operation), ", "))
		}
		if given[name] {
			return refuse(rest[i].pos, "The parameter %s is given twice.", name)
		}
		given[name] = true
		if err := setArgument(m, name, rest[i+3]); err != nil {
			return err
		}
		if i+4 == last-1 { // a comma before the end
			return refuse(rest[i+4].pos, "A parameter follows a comma.")
		}
	}
	return nil
}

func setArgument(m *spawned.Maintenance, name string, value token) (err error) {
	switch name {
	case "file_size_threshold":
		m.Threshold, err = dataSize(value)
	case "retention_threshold":
		m.Retention, err = retention(value)
	case "retain_last":
		m.RetainLast, err = strconv.Atoi(value.text)
		if err != nil || value.kind != tokenNumber || m.RetainLast < 1 || m.RetainLast > math.MaxInt32 {
			return refuse(value.pos, "retain_last is a number of snapshots, 1 or more.")
		}
	}
	return err
}

var measured = regexp.MustCompile(`^\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([a-zA-Z]+)\s*$`)

// measure reads a number with its unit, which Trino writes in this case alone; false where it is none.
func measure[T int64 | time.Duration](value token, units map[string]T) (float64, bool) {
	parts := measured.FindStringSubmatch(value.text)
	if value.kind != tokenString || parts == nil || units[parts[2]] == 0 {
		return 0, false
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	return n * float64(units[parts[2]]), err == nil
}

var sizeUnits = map[string]int64{"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "PB": 1 << 50}

func dataSize(value token) (int64, error) {
	n, ok := measure(value, sizeUnits)
	if !ok || n < 1 || n > 1<<50 {
		return 0, refuse(value.pos, "file_size_threshold is a size such as '128MB', in B, kB, MB, GB or TB.")
	}
	return int64(n), nil
}

var timeUnits = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": day}

func retention(value token) (time.Duration, error) {
	n, ok := measure(value, timeUnits)
	switch {
	case !ok || n > float64(maxRetention):
		return 0, refuse(value.pos, "retention_threshold is a time such as '7d', in s, m, h or d.")
	case n < float64(minRetention):
		return 0, refuse(value.pos, "The retention of %s is shorter than the least, which is 1d: others may still read or write what is younger.", cut(value.text, 40))
	}
	return time.Duration(n), nil
}

// maintaining are the options of a process that maintains a table.
func (o Options) maintaining() Options {
	o.Command = append(slices.Clone(o.Command[:len(o.Command)-1]), MaintainCommand)
	return o
}

// runMaintenance maintains a table in a process of its own, and answers how that ended.
func (e *Engine) runMaintenance(r *run, s *agent.Statement, c class, reason string, to *reader) *agent.StatementEnd {
	if name := databaseNamed(s.Catalog.Databases, s.Database); name != "" {
		s.Database = name
	}
	m, err := maintenance(s, c)
	if err == nil && !s.Write {
		err = &refusal{agent.FaultForbidden, c.kind + " writes, and whoever sent this statement may only read: that takes an editor, or an editor's key.", -1}
	}
	if err != nil {
		return &agent.StatementEnd{Error: failureOf(err, plainSpace(s.Query))}
	}
	p, err := e.pool.lend(r.ctx)
	if err != nil {
		if r.ctx.Err() != nil {
			return &agent.StatementEnd{Error: stoppedBefore(context.Cause(r.ctx))}
		}
		e.log.Error("no process can be had that maintains a table", "error", err)
		return &agent.StatementEnd{Error: &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("What maintains tables cannot start: %v.", err)}}
	}
	defer e.pool.reclaim(p)
	if s.Timeout > 0 {
		timer := time.AfterFunc(time.Duration(s.Timeout), func() { r.stop(errTimeout) })
		defer timer.Stop()
	}
	defer watch(r, p, to)()
	to.json(agent.FrameHead, agent.StatementHead{Kind: c.kind, Write: c.write, Engine: Name, RoutingReason: reason})
	return e.maintain(r, s, m, p, to)
}

func (e *Engine) maintain(r *run, s *agent.Statement, m spawned.Maintenance, p *process, to *reader) *agent.StatementEnd {
	var metrics []spawned.Metric
	end, err := p.run(m, func(kind agent.FrameKind, payload []byte) {
		if kind == spawned.FrameMetrics {
			_ = json.Unmarshal(payload, &metrics) // of the program's own
			return
		}
		to.frame(kind, payload)
	})
	if err != nil {
		end = &agent.StatementEnd{Error: e.died(s, p)}
		if end.Error.Fault == agent.FaultResources {
			end.Error.Message = "Maintaining the table took more memory than a statement may have, and its process was ended. What was committed by then stays. Use a larger warehouse."
		}
	}
	end.Tables = []agent.StatementTable{m.Table}
	if end.Error != nil {
		explain(end.Error, r.ctx, s, err != nil)
		return end
	}
	if err := sendMetrics(metrics, s, end, to); err != nil {
		end.Error = failureOf(err, s.Query)
	}
	return end
}

var metricsSchema = arrow.NewSchema([]arrow.Field{
	{Name: "metric_name", Type: arrow.BinaryTypes.String}, {Name: "metric_value", Type: arrow.PrimitiveTypes.Int64},
}, nil)

// sendMetrics sends what was done as rows.
func sendMetrics(metrics []spawned.Metric, s *agent.Statement, end *agent.StatementEnd, to *reader) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, metricsSchema)
	defer b.Release()
	for _, m := range metrics {
		b.Field(0).(*array.StringBuilder).Append(m.Name)
		b.Field(1).(*array.Int64Builder).Append(m.Value)
	}
	out := &result{out: toReader{to}, schema: metricsSchema, maxRows: s.MaxRows, maxBytes: s.MaxBytes}
	defer out.drop()
	if err := out.sendSchema(); err != nil {
		return err
	}
	if err := out.hold(b.NewRecordBatch()); err != nil {
		return err
	}
	err := out.flush()
	end.Rows, end.Bytes, end.Truncated = out.rows, out.bytes, out.truncated
	return err
}

// toReader sends frames to a reader. That it has gone is no failure of what writes.
type toReader struct{ to *reader }

// Frame implements frames.
func (t toReader) Frame(kind agent.FrameKind, payload ...[]byte) error {
	t.to.frame(kind, payload...)
	return nil
}
