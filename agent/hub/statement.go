package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/statement"
)

// Execute implements statement.Engines. A statement that was sent but got no answer counts as
// begun.
func (s *Sessions) Execute(ctx context.Context, id domain.AgentID, st statement.EngineStatement) (statement.Stream, error) {
	payload, err := json.Marshal(wireStatement(st))
	if err != nil {
		return nil, err
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { sent.Store(false) }, // called again if nothing was written to the last connection
		WroteHeaders: func() { sent.Store(true) },
	})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, "http://agent"+agent.StatementsPath, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.fresh(id).Do(req)
	switch {
	case err != nil && sent.Load():
		return nil, domain.Errorf(domain.CodeConflict, "The connection to the warehouse was lost after the statement was sent; it may have begun.").Because(fmt.Errorf("agent %s: %w", id, err))
	case err != nil:
		return nil, fmt.Errorf("agent %s: %w", id, err)
	}
	if res.StatusCode != http.StatusOK {
		defer func() { _ = res.Body.Close() }()
		return nil, refusal(id, res)
	}
	return &statementStream{body: res.Body, frames: bufio.NewReaderSize(res.Body, 256<<10)}, nil
}

// fresh returns a client that reuses no connection. A request on a dead connection would leave it
// unknown whether the statement has begun.
func (s *Sessions) fresh(id domain.AgentID) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, id) },
		DisableKeepAlives: true,
	}}
}

// refusal is the error for a statement that an agent did not accept.
func refusal(id domain.AgentID, res *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	var refused agent.Error
	_ = json.Unmarshal(said, &refused) // else the message is empty
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return domain.Errorf(domain.CodeInvalid, "%s", refused.Error)
	case http.StatusConflict:
		return domain.Errorf(domain.CodeConflict, "%s", refused.Error)
	case http.StatusServiceUnavailable:
		return domain.Errorf(domain.CodeUnavailable, "%s", refused.Error)
	}
	return fmt.Errorf("agent %s answered %s to a statement: %s", id, res.Status, said)
}

// CancelStatement implements statement.Engines. It succeeds if the agent does not have the
// statement.
func (s *Sessions) CancelStatement(ctx context.Context, id domain.AgentID, st domain.StatementID) error {
	return s.send(ctx, id, http.MethodDelete, fmt.Sprintf(agent.StatementPath, st), nil)
}

func wireStatement(st statement.EngineStatement) agent.Statement {
	w := agent.Statement{
		ID: string(st.ID), Query: st.Query, Parameters: st.Parameters, Engine: st.Requested, Database: st.Database, Schema: st.Schema,
		Catalog: agent.Catalog{URL: st.CatalogURL, ReadToken: st.ReadToken, WriteToken: st.WriteToken, Databases: st.Databases}, Write: st.Role != domain.RoleViewer,
		Storage: agent.Storage{Prefix: st.Storage.Prefix}, Timeout: agent.Duration(st.Timeout), MaxRows: st.RowLimit, MaxBytes: st.ByteLimit,
	}
	if s3 := st.Storage.S3; s3 != nil {
		w.Storage.S3 = new(agent.S3Storage(*s3))
	}
	return w
}

// statementStream reads the frames of an agent's answer.
type statementStream struct {
	body   io.ReadCloser
	frames *bufio.Reader
}

// Close implements statement.Stream.
func (s *statementStream) Close() { _ = s.body.Close() }

// Next implements statement.Stream.
func (s *statementStream) Next() (e statement.Event, err error) {
	kind, payload, err := agent.ReadFrame(s.frames)
	if err != nil {
		return e, err
	}
	switch kind {
	case agent.FrameProgress:
		var p agent.StatementProgress
		err = json.Unmarshal(payload, &p)
		e.Progress = new(statement.Progress(p))
	case agent.FrameHead:
		var head agent.StatementHead
		err = json.Unmarshal(payload, &head)
		e.Head = new(statement.Head(head))
	case agent.FrameSchema:
		e.Schema = payload
	case agent.FrameBatch:
		if len(payload) < 8 {
			return e, fmt.Errorf("a batch of %d bytes", len(payload))
		}
		e.Batch = &statement.ResultBatch{
			Rows: int64(binary.LittleEndian.Uint32(payload)), JSON: int64(binary.LittleEndian.Uint32(payload[4:])), Data: payload[8:],
		}
	case agent.FrameEnd:
		var end agent.StatementEnd
		err = json.Unmarshal(payload, &end)
		e.End = domainEnd(end)
	default:
		err = fmt.Errorf("a frame of the unknown kind %q", kind)
	}
	return e, err
}

func domainEnd(end agent.StatementEnd) *statement.End {
	d := &statement.End{Rows: end.Rows, Bytes: end.Bytes, Scanned: end.Scanned, Truncated: end.Truncated, Unstarted: end.Unstarted}
	for _, t := range end.Tables {
		d.Tables = append(d.Tables, statement.Table(t))
	}
	for _, scan := range end.Scans {
		d.Scans = append(d.Scans, statement.Scan(scan))
	}
	if f := end.Error; f != nil {
		d.Failure = &statement.Failure{Fault: statement.Fault(f.Fault), Message: f.Message, Line: f.Line, Column: f.Column, Unsure: f.Unsure}
	}
	return d
}
