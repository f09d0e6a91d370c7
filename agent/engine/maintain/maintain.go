// Package maintain maintains Iceberg tables: it compacts small files and removes unneeded ones.
// Each statement runs in its own process. iceberg-go takes 0.2 s to initialize, which is too long
// for the processes that hold DuckDB.
package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	iceberg "github.com/apache/iceberg-go/catalog"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/catalog"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// Main is the hidden command of the process. It reads one statement from standard input, runs it,
// and returns the exit code.
func Main() int {
	return spawned.Serve(func(o spawned.Options, out *spawned.Output) (ready string, work func(context.Context, spawned.Maintenance) bool, err error) {
		debug.SetMemoryLimit(o.Memory)
		runtime.GOMAXPROCS(max(1, o.Threads))
		return "", func(ctx context.Context, m spawned.Maintenance) bool {
			j := &job{ctx: ctx, Maintenance: m, memory: o.Memory, commitTime: o.CommitTime, metrics: array.NewRecordBuilder(memory.DefaultAllocator, metricsSchema)}
			_ = out.JSON(agent.FrameEnd, j.serve(out)) // the engine sees that the process ends
			return false
		}, nil
	})
}

// job is one maintenance statement.
type job struct {
	spawned.Maintenance
	ctx        context.Context // ends when the statement is cancelled
	memory     int64
	commitTime time.Duration
	lake       *lake
	files      *files
	metrics    *array.RecordBuilder
	scanned    int64
	done       atomic.Int64 // out of all, in the same unit
	all        atomic.Int64
	kept       int // number of permanent commits

	targets map[string]map[string]bool // targets of position delete files that were read, by path
}

func (j *job) serve(out *spawned.Output) agent.StatementEnd {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // discard iceberg-go's per-file messages
	stop := out.Report(j.progress)
	err := j.perform()
	stop()
	end := agent.StatementEnd{Scanned: j.scanned}
	if err == nil {
		err = j.sendMetrics(out, &end)
	}
	if err != nil {
		end.Error = j.failure(err)
	}
	return end
}

func (j *job) perform() (err error) {
	if j.files, err = openFiles(j.ctx, j.Storage, j.memory); err != nil {
		return err
	}
	defer j.files.close()
	if j.lake, err = openLake(j); err != nil {
		return err
	}
	defer j.lake.close()
	switch j.Operation {
	case spawned.Optimize:
		return j.optimize()
	case spawned.ExpireSnapshots:
		return j.expire()
	case spawned.RemoveOrphanFiles:
		return j.removeOrphans()
	}
	return sqltext.Fail(agent.FaultQuery, "There is no operation %q.", j.Operation)
}

// progress returns the part of the job that is done, or -1 if it is unknown.
func (j *job) progress() float64 {
	all := j.all.Load()
	if all == 0 {
		return -1
	}
	return min(1, float64(j.done.Load())/float64(all))
}

// metricsSchema is the schema of a job's result.
var metricsSchema = arrow.NewSchema([]arrow.Field{
	{Name: "metric_name", Type: arrow.BinaryTypes.String}, {Name: "metric_value", Type: arrow.PrimitiveTypes.Int64},
}, nil)

func (j *job) metric(name string, value int64) {
	j.metrics.Field(0).(*array.StringBuilder).Append(name)
	j.metrics.Field(1).(*array.Int64Builder).Append(value)
}

// sendMetrics sends the metrics as rows.
func (j *job) sendMetrics(out *spawned.Output, end *agent.StatementEnd) error {
	to := &result.Sender{Out: out, Schema: metricsSchema, MaxRows: j.MaxRows, MaxBytes: j.MaxBytes}
	defer to.Drop()
	if err := to.SendSchema(); err != nil {
		return err
	}
	err := to.Hold(j.metrics.NewRecordBatch())
	if err == nil {
		err = to.Flush()
	}
	end.Rows, end.Bytes, end.Truncated = to.Rows, to.Bytes, to.Truncated
	return err
}

// failure describes what failed.
func (j *job) failure(err error) *agent.StatementFailure {
	f := j.failed(err)
	if j.kept > 0 && !f.Unsure {
		f.Message += fmt.Sprintf(" Commits made before that stay: %s.", commits(j.kept))
	}
	return f
}

func commits(n int) string {
	if n == 1 {
		return "one commit"
	}
	return fmt.Sprintf("%d commits", n)
}

func (j *job) failed(err error) *agent.StatementFailure {
	if unsure, ok := errors.AsType[*catalog.UnsureError](err); ok {
		return unsure.Failure()
	}
	if r, ok := errors.AsType[*sqltext.Refusal](err); ok {
		return &agent.StatementFailure{Fault: r.Fault, Message: r.Message}
	}
	if j.ctx.Err() != nil {
		return &agent.StatementFailure{Fault: agent.FaultCancelled, Message: "The statement was cancelled."}
	}
	if c, ok := errors.AsType[*catalog.AnsweredError](err); ok {
		return &agent.StatementFailure{Fault: c.Fault(), Message: "The catalog refused it: " + c.Message}
	}
	if errors.Is(err, iceberg.ErrNoSuchTable) {
		return &agent.StatementFailure{Fault: agent.FaultQuery, Message: fmt.Sprintf("There is no table %s.%s in the database %s.", j.Table.Schema, j.Table.Table, j.Table.Database)}
	}
	return &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("The table cannot be maintained: %v.", catalog.WithoutAddress(err))}
}
