package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// Start implements job.Fleet: it sends the attempt to its agent. Sending it twice is harmless.
// domain.CodeInvalid means that the agent will never accept it.
func (s *Sessions) Start(ctx context.Context, id domain.AgentID, d job.Delivery) error {
	return s.send(ctx, id, http.MethodPut, fmt.Sprintf(agent.AttemptPath, d.Attempt.ID), wireAttempt(d))
}

// Cancel implements job.Fleet: it asks the agent to end the attempt.
func (s *Sessions) Cancel(ctx context.Context, id domain.AgentID, attempt domain.AttemptID) error {
	return s.send(ctx, id, http.MethodPost, fmt.Sprintf(agent.CancelPath, attempt), nil)
}

func (s *Sessions) send(ctx context.Context, id domain.AgentID, method, path string, body any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", path) // lets the client retry when a reused stream turns out to be dead
	res, err := s.client(id).Do(req)
	if err != nil {
		return fmt.Errorf("agent %s: %w", id, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusMultipleChoices {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		var refused agent.Error
		if json.Unmarshal(said, &refused) == nil && (res.StatusCode == http.StatusBadRequest || res.StatusCode == http.StatusRequestEntityTooLarge) {
			return domain.Errorf(domain.CodeInvalid, "%s", refused.Error)
		}
		return fmt.Errorf("agent %s answered %s to %s %s: %s", id, res.Status, method, path, said)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func wireAttempt(d job.Delivery) agent.Attempt {
	files := make([]agent.File, len(d.Files))
	for i, f := range d.Files {
		files[i] = agent.File{Path: f.Path, Mode: 0o644, Data: f.Content}
		if f.Executable {
			files[i].Mode = 0o755
		}
	}
	return agent.Attempt{
		ID: string(d.Attempt.ID), RunID: string(d.Attempt.RunID), TaskKey: d.Attempt.TaskKey, Number: d.Attempt.Number,
		Command: d.Command, Env: d.Environment, TimeoutSeconds: d.TimeoutSeconds, GraceSeconds: d.GraceSeconds, Files: files,
	}
}
