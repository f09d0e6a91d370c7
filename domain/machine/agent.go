package machine

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

// AgentStatus is an agent's status, derived from its connection and its lease.
type AgentStatus string

// The statuses of an agent.
const (
	AgentNew          AgentStatus = "new"          // it never connected
	AgentConnected    AgentStatus = "connected"    // a replica holds its session
	AgentDisconnected AgentStatus = "disconnected" // disconnected, and its lease still runs
	AgentLost         AgentStatus = "lost"         // its lease has expired: its attempts were declared lost
)

// Agent is a process in the customer's cloud that runs tasks, connected by one outbound WebSocket.
type Agent struct {
	ID        domain.AgentID
	Name      string
	Version   string
	Hostname  string
	OS, Arch  string
	Slots     int
	MachineID domain.MachineID // the agent's machine; empty for the workspace's own agent
	Instance  string           // identifies the data directory of its last start
	TokenHash []byte           // SHA-256 of the token that authenticates its connection
	Busy      int              // number of attempts on it now
	// Session identifies the current connection; empty while disconnected. It fences: an older
	// connection can write nothing.
	Session        string
	Replica        string // the replica that holds the connection
	CreatedAt      time.Time
	ConnectedAt    *time.Time
	LastSeenAt     *time.Time
	LeaseExpiresAt *time.Time
	Changed        domain.Change // of its row, without Busy; set when read
}

// Status derives the agent's status at the time given.
func (a Agent) Status(now time.Time) AgentStatus {
	switch {
	case a.LastSeenAt == nil:
		return AgentNew
	case a.Session != "":
		return AgentConnected
	case a.LeaseExpiresAt != nil && a.LeaseExpiresAt.After(now):
		return AgentDisconnected
	}
	return AgentLost
}

// Noun names the agent in messages about its slots.
func (a Agent) Noun() string {
	if a.MachineID != "" {
		return KindCompute.Noun()
	}
	return "agent"
}

// agentTx reads and writes agents.
type agentTx interface {
	Agent(ctx context.Context, id domain.AgentID) (Agent, error)
	// Agents returns the agents without a machine, oldest first.
	Agents(ctx context.Context, after domain.AgentID, limit int) ([]Agent, error)
	AgentsByID(ctx context.Context, ids []domain.AgentID) ([]Agent, error)
	// LockAgent returns the agent, locked until the end of the transaction.
	LockAgent(ctx context.Context, id domain.AgentID) (Agent, error)
	// LockSession is LockAgent for changes of the agent's session: it also waits for logs that are
	// being stored under it (FenceSession).
	LockSession(ctx context.Context, id domain.AgentID) (Agent, error)
	// LockWorkspaceAgent locks the agent that runs the workspace's tasks by default.
	LockWorkspaceAgent(ctx context.Context) (Agent, error)
	InsertAgent(ctx context.Context, a Agent, tokenHash []byte) error
	UpdateAgent(ctx context.Context, a Agent) error
	UpdateAgentToken(ctx context.Context, id domain.AgentID, tokenHash []byte) error
}

// MaxSlots bounds the tasks that an agent runs at once.
const MaxSlots = 4096

// Lease is how long the server considers a silent agent alive.
type Lease struct {
	Length    time.Duration // from the moment a heartbeat was sent
	Heartbeat time.Duration // interval between heartbeats
}

// DefaultLease outlasts a restart of the server and most network failures, and detects a dead
// machine within two minutes.
var DefaultLease = Lease{Length: 2 * time.Minute, Heartbeat: 10 * time.Second}

// NewAgentToken generates an agent's token. Only its HashSecret is stored.
func NewAgentToken() string { return domain.AgentTokenPrefix + domain.NewSecret() }

// NewBootstrapToken generates a single-use token. Only its HashSecret is stored.
func NewBootstrapToken() string { return domain.BootstrapTokenPrefix + domain.NewSecret() }

// NewAgent returns the agent of a new workspace.
func NewAgent(name string, now time.Time) Agent {
	return Agent{ID: domain.NewID[domain.AgentID](domain.PrefixAgent), Name: name, CreatedAt: now}
}
