package worker

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"github.com/millpond/millpond/agent"
)

// Options configure an agent.
type Options struct {
	Server  string       // the control plane's http or https URL
	TLS     *tls.Config  // nil means the system's roots
	Dir     string       // data directory of this agent; created if missing
	Slots   int          // attempts that it runs at once; 0 means four for each core
	SQL     http.Handler // serves agent.StatementsPath and the paths below it; nil without SQL
	Version string       // of the binary, for people
	Log     *slog.Logger // nil means none

	// Engines returns the current state of the SQL engines; nil means no engines.
	Engines func() []agent.Engine
	// Changed receives a value when Engines changed, and the agent then reports them at once. With
	// nil it reports them at the next heartbeat. Changed must not be closed.
	Changed <-chan struct{}
	// Configure is called with the warehouse's settings whenever the control plane sends them, even
	// if unchanged. It must not block; nil if this is not a warehouse.
	Configure func(agent.WarehouseSettings)

	// Token is the agent's token. TokenFile is a file with the token instead; it is read for each
	// connection.
	Token, TokenFile string
	// BootstrapFile is a file with a bootstrap token. If it exists and is not empty, the agent
	// exchanges the token for its own token, writes that to TokenFile, and removes BootstrapFile.
	BootstrapFile string

	// SpoolLimit is how many bytes of unsent log an attempt may have on disk before its process is
	// blocked; 0 means 64 MiB.
	SpoolLimit int64
	// LogLimit is how many bytes of log an attempt may write. The rest is discarded, and a line at
	// the end of the log says so. 0 means no limit.
	LogLimit int64
	// SharedLimit is how many bytes the tasks' shared directory may hold; 0 means 10 GiB.
	SharedLimit int64
	// Users are the users that tasks run as if the agent is root. With OneUser they run as the
	// agent's own user.
	Users   Users
	OneUser bool
	// Metrics selects which metrics are sent.
	Metrics MetricsOf
	// Cores and Memory (in bytes) are the machine's size in the metrics of MetricsOwn; 0 means the
	// host's.
	Cores  float64
	Memory int64
	// Alone is how long the agent retries an unreachable control plane before it ends; 0 means for
	// ever.
	Alone time.Duration
	// Shim is the command that runs shim.Main; empty means this program with the argument "shim".
	Shim []string

	metricsEvery time.Duration // 0 means agent.MetricsEvery
}

// MetricsOf is the scope of metrics.
type MetricsOf string

// The scopes of metrics. The empty scope means MetricsNone.
const (
	MetricsNone MetricsOf = "none" // no metrics are sent
	MetricsOwn  MetricsOf = "own"  // the agent and everything it runs: it shares its host with others
	MetricsHost MetricsOf = "host" // the whole host, which is the machine
)

const (
	defaultSpool  = 64 << 20
	defaultShared = 10 << 30
)

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("the agent needs a data directory")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	if o.LogLimit < 0 {
		return o, fmt.Errorf("the log limit is %d bytes; give a positive number, or 0 for none", o.LogLimit)
	}
	switch o.Metrics {
	case "":
		o.Metrics = MetricsNone
	case MetricsNone, MetricsOwn, MetricsHost:
	default:
		return o, fmt.Errorf("metrics are of %q; choose none, own or host", o.Metrics)
	}
	if o.Cores < 0 || o.Memory < 0 {
		return o, errors.New("the machine's cores or its memory are negative; give positive numbers, or 0 for the host's")
	}
	if o.metricsEvery <= 0 {
		o.metricsEvery = agent.MetricsEvery
	}
	if o.Slots <= 0 {
		o.Slots = 4 * runtime.NumCPU()
	}
	if o.SpoolLimit <= 0 {
		o.SpoolLimit = defaultSpool
	}
	if o.SharedLimit <= 0 {
		o.SharedLimit = defaultShared
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Shim) == 0 {
		// The running image, even after an upgrade has replaced the file.
		o.Shim = []string{"/proc/self/exe", "shim"}
	}
	return o, nil
}

// logLimit is the smaller of the agent's limit and an attempt's own.
func (o Options) logLimit(own int64) int64 {
	if own == 0 || o.LogLimit > 0 && o.LogLimit < own {
		return o.LogLimit
	}
	return own
}
