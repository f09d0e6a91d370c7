package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/result"
	"github.com/millpond/millpond/agent/engine/spawned"
	"github.com/millpond/millpond/agent/engine/sqltext"
)

// MaintainCommand is the program's argument that runs maintain.Main.
const MaintainCommand = "engine-maintain"

// maintaining returns the options of a process that maintains a table.
func (o Options) maintaining() Options {
	o.Command = append(slices.Clone(o.Command[:len(o.Command)-1]), MaintainCommand)
	return o
}

// runMaintenance maintains a table in a separate process and returns how the statement ended.
func (e *Engine) runMaintenance(r *run, s *agent.Statement, chosen routed, to *reader) *agent.StatementEnd {
	m, err := sqltext.ParseMaintenance(s, chosen.class)
	if err != nil {
		return &agent.StatementEnd{Error: result.Failure(err, s.Query)}
	}
	p, err := e.pool.lend(r.ctx)
	if err != nil {
		if r.ctx.Err() != nil {
			return &agent.StatementEnd{Error: stoppedBefore(context.Cause(r.ctx))}
		}
		e.log.Error("cannot start a process that maintains a table", "error", err)
		return &agent.StatementEnd{Error: &agent.StatementFailure{Fault: agent.FaultEngine, Message: fmt.Sprintf("The process that maintains tables cannot start: %v.", err)}}
	}
	defer e.pool.reclaim(p)
	if s.Timeout > 0 {
		timer := time.AfterFunc(time.Duration(s.Timeout), func() { r.stop(errTimeout) })
		defer timer.Stop()
	}
	defer watch(r, p, to)()
	to.json(agent.FrameHead, agent.StatementHead{Kind: chosen.class.Kind, Write: chosen.class.Write, Engine: duckdb.Name, RoutingReason: chosen.reason})
	return e.maintain(r, s, m, p, to)
}

func (e *Engine) maintain(r *run, s *agent.Statement, m spawned.Maintenance, p *process, to *reader) *agent.StatementEnd {
	var metrics []spawned.Metric
	end, err := p.run(m, func(kind agent.FrameKind, payload []byte) {
		if kind == spawned.FrameMetrics {
			_ = json.Unmarshal(payload, &metrics) // written by this program
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
		end.Error = result.Failure(err, s.Query)
	}
	return end
}

var metricsSchema = arrow.NewSchema([]arrow.Field{
	{Name: "metric_name", Type: arrow.BinaryTypes.String}, {Name: "metric_value", Type: arrow.PrimitiveTypes.Int64},
}, nil)

// sendMetrics sends the metrics as rows.
func sendMetrics(metrics []spawned.Metric, s *agent.Statement, end *agent.StatementEnd, to *reader) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, metricsSchema)
	defer b.Release()
	for _, m := range metrics {
		b.Field(0).(*array.StringBuilder).Append(m.Name)
		b.Field(1).(*array.Int64Builder).Append(m.Value)
	}
	out := &result.Sender{Out: toReader{to}, Schema: metricsSchema, MaxRows: s.MaxRows, MaxBytes: s.MaxBytes}
	defer out.Drop()
	if err := out.SendSchema(); err != nil {
		return err
	}
	if err := out.Hold(b.NewRecordBatch()); err != nil {
		return err
	}
	err := out.Flush()
	end.Rows, end.Bytes, end.Truncated = out.Rows, out.Bytes, out.Truncated
	return err
}

// toReader sends frames to a reader. It hides that the reader has disconnected, so the sender does
// not fail.
type toReader struct{ to *reader }

// Frame implements result.Frames.
func (t toReader) Frame(kind agent.FrameKind, payload ...[]byte) error {
	t.to.frame(kind, payload...)
	return nil
}
