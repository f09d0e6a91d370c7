// Package agent holds what both ends of the agent channel share: the paths, the bodies and the rules of the protocol.
//
// An agent dials GET ConnectPath on the control plane with its token. The WebSocket carries a yamux session
// (package tunnel), and each end serves plain HTTP on the streams that the other end opens. Commands are desired
// state in the control plane's database and messages are hints: Hello reconciles after every connect, so every
// message may be sent again, and every handler is idempotent.
package agent

import "time"

// ProtocolVersion is the version of the channel. It changes when an older peer could misread a newer one.
const ProtocolVersion = 1

// Paths of the protocol. Those under /v1/attempts take the attempt's id as {id}.
const (
	ConnectPath   = "/agent/v1/connect"      // on the control plane's public listener: GET, WebSocket
	EnrollPath    = "/agent/v1/enroll"       // on the control plane's public listener: POST with a bootstrap token as bearer, answers Enrollment
	HelloPath     = "/v1/hello"              // agent → control plane: POST Hello, answers Welcome
	HeartbeatPath = "/v1/heartbeat"          // agent → control plane: POST Heartbeat, answers HeartbeatReply
	MetricsPath   = "/v1/metrics"            // agent → control plane: POST Metrics, answers 204; of machines only
	LogsPath      = "/v1/logs"               // agent → control plane: POST a log batch (see EncodeBatch), answers LogReply
	StatusPath    = "/v1/attempts/%s/status" // agent → control plane: PUT Status, answers 204
	AttemptPath   = "/v1/attempts/%s"        // control plane → agent: PUT Attempt, answers 204
	CancelPath    = "/v1/attempts/%s/cancel" // control plane → agent: POST, answers 204; also for an unknown attempt
)

// State is how far an attempt has come on the agent.
type State string

// The states an agent reports. Exited is final; it is sent once every log byte has been acknowledged.
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
	ReasonCancelled  Reason = "cancelled"  // the control plane asked
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
	LogLimit       int64             `json:"log_limit,omitempty"`       // bytes; past it a line says that the log was cut; 0 means no limit
	Files          []File            `json:"files,omitempty"`           // laid into the working directory before the start
}

// File is one file of an attempt's source, at most some megabytes.
type File struct {
	Path string `json:"path"` // relative, slash-separated, inside the working directory
	Mode uint32 `json:"mode"` // permission bits
	Data []byte `json:"data"`
}

// Status is an attempt's state as the agent knows it. Times are the agent's clock, UTC.
type Status struct {
	State      State      `json:"state"`
	Reason     Reason     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`   // a sentence for a person, when there is more to say
	Held       string     `json:"held,omitempty"`      // why the process is held back ("the disk is full"), while it is
	ExitCode   *int       `json:"exit_code,omitempty"` // of an exited process that ended by exit
	Signal     string     `json:"signal,omitempty"`    // of an exited process that ended by a signal, e.g. "SIGKILL"
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	LogEnd     int64      `json:"log_end"` // bytes of log the attempt has written so far; final once exited
}

// Hello is what an agent says first on every connection.
type Hello struct {
	Protocol int            `json:"protocol"`
	Version  string         `json:"version"` // of the binary
	Hostname string         `json:"hostname"`
	Instance string         `json:"instance"` // of the data directory, random: two that have one token are told apart by it
	OS       string         `json:"os"`
	Arch     string         `json:"arch"`
	Slots    int            `json:"slots"` // attempts it runs at once
	Idle     Duration       `json:"idle"`  // for how long nothing has run here, by a clock that nobody sets; 0 while something does
	Engines  []Engine       `json:"engines,omitempty"`
	Attempts []HelloAttempt `json:"attempts"`
}

// Engine is something on the agent's machine that runs SQL.
type Engine struct {
	Name    string `json:"name"` // such as duckdb
	Version string `json:"version"`
	State   string `json:"state,omitempty"`   // EngineStopped and so on; empty for one that is always there
	Message string `json:"message,omitempty"` // a sentence for a person: why it failed, or what it does
	Nodes   int    `json:"nodes,omitempty"`   // that it runs on
}

// The states of an engine that starts and stops by itself.
const (
	EngineStopped  = "stopped"
	EngineStarting = "starting"
	EngineRunning  = "running"
	EngineFailed   = "failed" // Message says why
)

// WarehouseSettings are what the agent of a warehouse has to know of it. They may change while it runs.
type WarehouseSettings struct {
	Nodes      int    `json:"nodes"`       // of Trino: its coordinator and its workers
	TrinoStart string `json:"trino_start"` // StartFirstWrite or StartWithWarehouse
}

// When a warehouse that writes with Trino starts it.
const (
	StartFirstWrite    = "first_write"
	StartWithWarehouse = "with_warehouse"
)

// HelloAttempt is one attempt the agent still holds: running, or exited and not yet forgotten.
type HelloAttempt struct {
	ID string `json:"id"`
	Status
}

// Welcome answers Hello with the desired state.
type Welcome struct {
	AgentID        string           `json:"agent_id"`
	Lease          Duration         `json:"lease"`     // from the moment Hello or a Heartbeat was sent; past it every process must be gone
	HeartbeatEvery Duration         `json:"heartbeat"` // how often to send Heartbeat
	Attempts       []DesiredAttempt `json:"attempts"`  // for each attempt of Hello; others come by AttemptPath
	Group          uint32           `json:"group"`     // that opens the workspace's tables where they are files of this host; 0 for none

	Warehouse *WarehouseSettings `json:"warehouse,omitempty"` // nil for an agent that is no warehouse's
}

// The range of Welcome's groups, both ends included. An agent takes no other one, as those of the host itself are.
const (
	FirstGroup = 0x70000000
	LastGroup  = 0x7ffdffff
)

// Desire is what the control plane wants of an attempt.
type Desire string

// The desires. An attempt that Welcome does not name is to be killed and forgotten.
const (
	DesireRun    Desire = "run"    // let it run
	DesireCancel Desire = "cancel" // end it with SIGTERM, grace, SIGKILL, and report
	DesireForget Desire = "forget" // kill it at once if it runs; nothing of it is wanted, drop its spool
)

// DesiredAttempt is one attempt's desired state.
type DesiredAttempt struct {
	ID      string `json:"id"`
	Desire  Desire `json:"desire"`
	LogNext int64  `json:"log_next"` // the first log byte the control plane does not have
}

// Heartbeat extends the agent's lease, and with it that of every attempt on it.
type Heartbeat struct {
	Attempts []string `json:"attempts"` // ids of those that have not exited
	Idle     Duration `json:"idle"`     // as in Hello
	Engines  []Engine `json:"engines,omitempty"`
}

// HeartbeatReply names the attempts whose desired state is not what the agent does, as Welcome would.
type HeartbeatReply struct {
	Attempts  []DesiredAttempt   `json:"attempts,omitempty"`  // those to cancel or to forget
	Warehouse *WarehouseSettings `json:"warehouse,omitempty"` // as in Welcome
}

// Metrics are how much of its machine an agent and all that it runs use, at one moment.
type Metrics struct {
	CPU         float64      `json:"cpu"`          // cores in use, on the average since the metrics before
	Cores       float64      `json:"cores"`        // that there are
	Memory      int64        `json:"memory"`       // bytes in use
	MemoryTotal int64        `json:"memory_total"` // bytes that there are
	Disk        int64        `json:"disk"`         // bytes in use on the file system of the data directory
	DiskTotal   int64        `json:"disk_total"`
	GPUs        []GPUMetrics `json:"gpus,omitempty"`
}

// GPUMetrics are how much of one GPU is used.
type GPUMetrics struct {
	Name        string  `json:"name"`
	Load        float64 `json:"load"` // from 0 to 1
	Memory      int64   `json:"memory"`
	MemoryTotal int64   `json:"memory_total"`
}

// MetricsEvery is how often a machine's agent sends its metrics.
const MetricsEvery = 5 * time.Second

// Enrollment answers an agent that came with a bootstrap token, which is good for no second time.
type Enrollment struct {
	AgentID string `json:"agent_id"`
	Token   string `json:"token"` // the agent's own
}

// LogReply answers a log batch. An attempt with another offset than the batch had did not fit: the agent goes on from there.
type LogReply struct {
	Next   map[string]int64 `json:"next"`             // attempt id → the next offset wanted
	Forget []string         `json:"forget,omitempty"` // attempts whose log is not wanted (any more)
}

// Error is the body of every answer that is not 2xx.
type Error struct {
	Error string `json:"error"`
}

// Duration is a time.Duration that reads and writes JSON as a string such as "30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
