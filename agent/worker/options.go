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
	Dir     string       // data directory of this agent; made if it is not there
	Slots   int          // attempts it offers to run at once; 0 means four for each core
	SQL     http.Handler // answers agent.StatementsPath and what is below it; nil where no SQL runs
	Version string       // of the binary, for people
	Log     *slog.Logger // nil means none

	// Engines are those that run SQL here, as they stand when it is called; nil means none.
	Engines func() []agent.Engine
	// Changed is sent to when Engines have changed, which is told the control plane at once; nil means at the next heartbeat. It is never closed.
	Changed <-chan struct{}
	// Configure is told the warehouse's settings with each answer of the control plane that has them, also where they are as before. It must not block; nil
	// where this is no warehouse.
	Configure func(agent.WarehouseSettings)

	// Token is the agent's. TokenFile holds it instead, and is read again for each connection.
	Token, TokenFile string
	// BootstrapFile holds a token of a machine that has none of its own yet. Where it is there and not empty, what it holds is exchanged for the agent's
	// own token, which goes into TokenFile in place of an older one; then the file is removed.
	BootstrapFile string

	// SpoolLimit is how many bytes of log that were not yet sent an attempt may have on disk before its process is held
	// back; 0 means 64 MiB.
	SpoolLimit int64
	// LogLimit is how many bytes of log an attempt may write; what follows is thrown away, which a line at the end of its log says.
	// 0 means no limit.
	LogLimit int64
	// Users are the users that tasks run as when the agent is root. OneUser runs them as the agent's own user even so.
	Users   Users
	OneUser bool
	// Metrics says whether metrics are sent, and of what.
	Metrics MetricsOf
	// Cores and Memory (in bytes) are those of the machine, as metrics of MetricsOwn give them; 0 means the host's.
	Cores  float64
	Memory int64
	// Alone is for how long the agent looks for a control plane that does not answer before it ends; 0 means for ever.
	Alone time.Duration
	// Shim is the command that runs ShimMain; empty means this program with the argument "shim".
	Shim []string

	metricsEvery time.Duration // 0 means agent.MetricsEvery
}

// MetricsOf is what metrics are of.
type MetricsOf string

// What metrics are of. The empty one is MetricsNone.
const (
	MetricsNone MetricsOf = "none" // none are sent
	MetricsOwn  MetricsOf = "own"  // the agent and all that it runs: it shares its host with others
	MetricsHost MetricsOf = "host" // the whole host, which is the machine
)

const defaultSpool = 64 << 20

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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Shim) == 0 {
		// The running image, also after an upgrade has replaced the file.
		o.Shim = []string{"/proc/self/exe", "shim"}
	}
	return o, nil
}

// logLimit is the smaller limit of the agent's and an attempt's own.
func (o Options) logLimit(own int64) int64 {
	if own == 0 || o.LogLimit > 0 && o.LogLimit < own {
		return o.LogLimit
	}
	return own
}
