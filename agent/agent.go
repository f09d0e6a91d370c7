// Package agent has the paths, the bodies and the rules of the protocol between agents and the
// control plane.
//
// An agent dials GET ConnectPath on the control plane with its token. The WebSocket carries a yamux
// session (package tunnel), and each end serves plain HTTP on the streams that the other end opens.
// Commands are desired state in the control plane's database; messages are hints. Hello reconciles
// after every connect. Every message may be sent again, so every handler is idempotent.
package agent

import "time"

// ProtocolVersion is the version of the channel. It changes when an older peer could misread a
// newer one.
const ProtocolVersion = 1

// Paths of the protocol. Those under /v1/attempts take the attempt's id as {id}.
const (
	ConnectPath   = "/agent/v1/connect"      // on the control plane's public listener: GET, WebSocket
	EnrollPath    = "/agent/v1/enroll"       // on the control plane's public listener: POST with a bootstrap token as bearer, answers Enrollment
	HelloPath     = "/v1/hello"              // agent → control plane: POST Hello, answers Welcome
	HeartbeatPath = "/v1/heartbeat"          // agent → control plane: POST Heartbeat, answers HeartbeatReply
	MetricsPath   = "/v1/metrics"            // agent → control plane: POST Metrics, answers 204; machines only
	LogsPath      = "/v1/logs"               // agent → control plane: POST a log batch (see AppendChunk), answers LogReply
	StatusPath    = "/v1/attempts/%s/status" // agent → control plane: PUT Status, answers 204
	AttemptPath   = "/v1/attempts/%s"        // control plane → agent: PUT Attempt, answers 204
	CancelPath    = "/v1/attempts/%s/cancel" // control plane → agent: POST, answers 204; also for an unknown attempt
)

// State is the stage of an attempt on the agent.
type State string

// The states an agent reports. Exited is final; the agent sends it once every log byte is
// acknowledged.
const (
	Starting State = "starting" // accepted, its process does not exist yet
	Running  State = "running"  // its process exists
	Exited   State = "exited"   // the process and all its descendants are gone, the log is complete
)

// Reason says why an exited attempt ended other than by its own exit.
type Reason string

// The reasons of an end. The empty reason means that the process ended by itself.
const (
	ReasonTimeout    Reason = "timeout"    // it ran longer than its time-out
	ReasonCancelled  Reason = "cancelled"  // the control plane requested it
	ReasonLease      Reason = "lease"      // the agent could not renew its lease, so the process was killed
	ReasonStart      Reason = "start"      // the process could not be started; Message says why
	ReasonSupervisor Reason = "supervisor" // its shim was killed, so the process was killed and its exit code is unknown
)

// Attempt is everything an agent needs to run one attempt of one task.
type Attempt struct {
	ID             string            `json:"id"`
	RunID          string            `json:"run_id"`
	TaskKey        string            `json:"task_key"`                  // empty for the single command of a job
	Number         int               `json:"number"`                    // 1 for the first attempt
	Command        string            `json:"command"`                   // run by sh -c
	Env            map[string]string `json:"env"`                       // the complete environment but PATH, HOME, TMPDIR, USER, LANG, which the worker sets
	TimeoutSeconds int               `json:"timeout_seconds,omitempty"` // 0 means none
	GraceSeconds   int               `json:"grace_seconds"`             // between SIGTERM and SIGKILL
	LogLimit       int64             `json:"log_limit,omitempty"`       // bytes; a longer log is cut, and a line says so; 0 means no limit
	Files          []File            `json:"files,omitempty"`           // written to the working directory before the start
}

// File is one file of an attempt's source, at most some megabytes.
type File struct {
	Path string `json:"path"` // relative, slash-separated, inside the working directory
	Mode uint32 `json:"mode"` // permission bits
	Data []byte `json:"data"`
}

// Status is an attempt's state as the agent knows it. Times are UTC, by the agent's clock.
type Status struct {
	State      State      `json:"state"`
	Reason     Reason     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`   // a sentence for a person; may be empty
	Held       string     `json:"held,omitempty"`      // why the process is blocked ("the disk is full"); empty while it is not
	ExitCode   *int       `json:"exit_code,omitempty"` // set when the process ended by exit
	Signal     string     `json:"signal,omitempty"`    // set when a signal ended the process, e.g. "SIGKILL"
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	LogEnd     int64      `json:"log_end"` // bytes of log the attempt has written so far; final once exited
}

// Hello is an agent's first message on every connection.
type Hello struct {
	Protocol int            `json:"protocol"`
	Version  string         `json:"version"` // of the binary
	Hostname string         `json:"hostname"`
	Instance string         `json:"instance"` // random id of the data directory; tells apart two agents with the same token
	OS       string         `json:"os"`
	Arch     string         `json:"arch"`
	Slots    int            `json:"slots"` // attempts that the agent runs at once
	Idle     Duration       `json:"idle"`  // how long nothing has run, by a clock that cannot be set; 0 while something runs
	Engines  []Engine       `json:"engines,omitempty"`
	Attempts []HelloAttempt `json:"attempts"`
}

// Engine is a SQL engine on the agent's machine.
type Engine struct {
	Name    string `json:"name"` // such as duckdb
	Version string `json:"version"`
	State   string `json:"state,omitempty"`   // EngineStopped and so on; empty for an engine that is always available
	Message string `json:"message,omitempty"` // a sentence for a person: why the engine failed, or what it does
	Nodes   int    `json:"nodes,omitempty"`   // nodes that the engine runs on
}

// The states of an engine that starts and stops by itself.
const (
	EngineStopped  = "stopped"
	EngineStarting = "starting"
	EngineRunning  = "running"
	EngineFailed   = "failed" // Message says why
)

// WarehouseSettings are the settings of a warehouse that its agent needs. They may change while the
// warehouse runs.
type WarehouseSettings struct {
	Nodes      int    `json:"nodes"`       // nodes of Trino: its coordinator and its workers
	TrinoStart string `json:"trino_start"` // StartFirstWrite or StartWithWarehouse
	Storage    string `json:"storage"`     // URI below which the workspace's tables lie, with a slash at its end
}

// The moments at which a warehouse that writes with Trino starts Trino.
const (
	StartFirstWrite    = "first_write"
	StartWithWarehouse = "with_warehouse"
)

// HelloAttempt is one attempt that the agent still has: running, or exited and not yet forgotten.
type HelloAttempt struct {
	ID string `json:"id"`
	Status
}

// Welcome answers Hello with the desired state.
type Welcome struct {
	AgentID        string           `json:"agent_id"`
	Lease          Duration         `json:"lease"`     // counts from the sending of Hello or a Heartbeat; when it expires, no process may run
	HeartbeatEvery Duration         `json:"heartbeat"` // how often to send Heartbeat
	Attempts       []DesiredAttempt `json:"attempts"`  // one for each attempt of Hello; others arrive by AttemptPath
	Group          uint32           `json:"group"`     // group that may open the workspace's tables when they are files on this host; 0 for none

	Warehouse *WarehouseSettings `json:"warehouse,omitempty"` // nil for an agent that does not serve a warehouse
}

// The range of Welcome's groups, both ends included. An agent refuses any other group, because it
// may belong to the host.
const (
	FirstGroup = 0x70000000
	LastGroup  = 0x7ffdffff
)

// Desire is the state that the control plane wants an attempt to be in.
type Desire string

// The desires. The agent kills and forgets an attempt that Welcome does not name.
const (
	DesireRun    Desire = "run"    // let it run
	DesireCancel Desire = "cancel" // end it with SIGTERM, grace, SIGKILL, and report; if it has not arrived, never start it and report it as cancelled
	DesireForget Desire = "forget" // kill it at once if it runs, and delete its spool
)

// DesiredAttempt is one attempt's desired state.
type DesiredAttempt struct {
	ID      string `json:"id"`
	Desire  Desire `json:"desire"`
	LogNext int64  `json:"log_next"` // the first log byte the control plane does not have
}

// Heartbeat extends the agent's lease, and with it that of every attempt on it.
type Heartbeat struct {
	Attempts []string `json:"attempts"` // ids of attempts that have not exited
	Idle     Duration `json:"idle"`     // as in Hello
	Engines  []Engine `json:"engines,omitempty"`
}

// HeartbeatReply lists, as Welcome does, the attempts whose state differs from their desired state.
type HeartbeatReply struct {
	Attempts  []DesiredAttempt   `json:"attempts,omitempty"`  // attempts to cancel or to forget
	Warehouse *WarehouseSettings `json:"warehouse,omitempty"` // as in Welcome
}

// Metrics are the resources of its machine that an agent and everything it runs use at one moment.
type Metrics struct {
	CPU         float64      `json:"cpu"`          // cores in use, averaged since the previous metrics
	Cores       float64      `json:"cores"`        // cores available
	Memory      int64        `json:"memory"`       // bytes in use
	MemoryTotal int64        `json:"memory_total"` // bytes available
	Disk        int64        `json:"disk"`         // bytes in use on the file system of the data directory
	DiskTotal   int64        `json:"disk_total"`
	GPUs        []GPUMetrics `json:"gpus,omitempty"`
}

// GPUMetrics are the usage of one GPU.
type GPUMetrics struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load"` // from 0 to 1
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

// MetricsEvery is how often a machine's agent sends its metrics.
const MetricsEvery = 5 * time.Second

// Enrollment answers an agent that presented a bootstrap token. A bootstrap token works once.
type Enrollment struct {
	AgentID string `json:"agent_id"`
	Token   string `json:"token"` // the agent's own token
}

// LogReply answers a log batch. If an attempt's offset differs from the batch's end, the agent
// continues from that offset.
type LogReply struct {
	Next   map[string]int64 `json:"next"`             // attempt id → the next offset that the control plane expects
	Forget []string         `json:"forget,omitempty"` // attempts whose log is no longer wanted
}

// Error is the body of every answer whose status is not 2xx.
type Error struct {
	Error string `json:"error"`
}

// Duration is a time.Duration whose JSON form is a string such as "30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
