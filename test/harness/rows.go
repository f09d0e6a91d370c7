package harness

import "time"

// Page is a page of a list.
type Page[T any] struct {
	Data []T `json:"data"`
}

// AgentRow is an agent in the list.
type AgentRow struct {
	ID, Status string
	Busy       int
}

// RunRow is a run.
type RunRow struct {
	ID              string
	Status          string
	Message         string
	Trigger         string
	CancelRequested *time.Time `json:"cancel_requested_at"`
	CreatedAt       time.Time  `json:"created_at"`
	StartedAt       *time.Time `json:"started_at"`
	FinishedAt      *time.Time `json:"finished_at"`
}

// Over reports whether the run has ended.
func (r RunRow) Over() bool {
	return r.Status == "success" || r.Status == "failed" || r.Status == "cancelled"
}

// TaskRow is a task of a run.
type TaskRow struct {
	Key, Status, Message string
	RetryCount           int `json:"retry_count"`
	Attempts             int
	StartedAt            *time.Time `json:"started_at"`
	FinishedAt           *time.Time `json:"finished_at"`
}

// AttemptRow is an attempt of a task.
type AttemptRow struct {
	ID, Status, Message, Signal string
	TaskKey                     string `json:"task_key"`
	Number                      int
	ExitCode                    *int       `json:"exit_code"`
	StartedAt                   *time.Time `json:"started_at"`
	FinishedAt                  *time.Time `json:"finished_at"`
}

// MachineRow is a compute instance, with Flavor and Status, or a warehouse, with Size and State.
type MachineRow struct {
	ID, Name, Flavor, Size, Status, State, Message string

	ImageRef   string  `json:"image_ref"`
	AutoStopAt *string `json:"auto_stop_at"`
}

// Result is the answer to a statement.
type Result struct {
	Status       int    `json:"-"` // of HTTP
	Raw          []byte `json:"-"`
	Columns      []string
	Rows         [][]any
	Engine       string
	RowsAffected *int64 `json:"rows_affected"`
	Lineage      struct{ Read, Written []string }
	StatementID  string `json:"statement_id"`
	State        string
	Truncated    bool
	NextChunk    *int `json:"next_chunk"`
	Error        string
}

// StatementRow is a statement in the list.
type StatementRow struct {
	StatementID string `json:"statement_id"`
	Query       string
	State       string
	Message     string
	Error       *struct {
		Message, Fault string
		Line, Column   int
	}
	Write    bool
	RowCount *int64 `json:"row_count"`
	Columns  []struct{ Name, Type string }
	Chunks   []struct{ Rows, Bytes int64 }
}
