package domain

import (
	"context"
	"time"

	"github.com/shopspring/decimal"
)

// ProviderKind names where machines come from.
type ProviderKind string

// The kinds of providers.
const (
	ProviderLocal ProviderKind = "local" // processes on the server's own machine
	ProviderEC2   ProviderKind = "ec2"   // not to be had yet; refused by name
)

// Flavor is a size of machine that a provider can make.
type Flavor struct {
	Name      string // such as cpu.2
	Cores     int
	Memory    int64  // bytes
	GPUs      int    // 0 for a flavor without
	GPU       string // model; empty without
	Available bool   // whether one more would fit now
	Price     Price
	Limits    string // empty where cores and memory are held to; else a sentence why not
}

// Price is what an hour of a flavor costs.
type Price struct {
	Hourly   decimal.Decimal
	Currency string // ISO 4217
}

// MachineRef names a machine to its provider.
type MachineRef struct {
	Workspace   WorkspaceID
	Machine     MachineID
	Incarnation int // counts what was made for the machine; from 1
}

// MachineSpec is what a provider makes a machine from.
type MachineSpec struct {
	MachineRef
	Provider    ProviderSettings
	Flavor      Flavor
	ImageRef    string // as Resolve answered
	Slots       int    // 0 stands for the agent's own default
	WriteEngine string // of a warehouse; empty of any other machine
	Server      string // address that the machine's agent connects to
	Bootstrap   string // single-use token with which the agent gets its own
}

// Provider makes the machines of one kind, and nobody else knows how. Every method may be called again after a crash in the midst of it, and by any number
// of goroutines; calls about one machine come one at a time.
type Provider interface {
	// Check really tries whether the settings work. An error of CodeInvalid says what is wrong with them.
	Check(ctx context.Context, p ProviderSettings) error
	// Flavors are the sizes that can be made, smallest first, without prices.
	Flavors(ctx context.Context, p ProviderSettings) ([]Flavor, error)
	// CheckWriteEngine says whether a warehouse of the flavor can write with the engine: an error of CodeInvalid says why not, and what to do. Every flavor
	// can with duckdb.
	CheckWriteEngine(ctx context.Context, p ProviderSettings, f Flavor, engine string) error
	// Resolve makes an image's name an immutable reference; the empty name stands for the default. An unknown name is CodeInvalid with those that are known.
	Resolve(ctx context.Context, p ProviderSettings, image string) (ref string, err error)
	// Ensure makes the machine, unless this incarnation of it is there, and leaves no other incarnation. The agent in it begins with the bootstrap token.
	// CodeInvalid says that it can never be made, and CodeConflict, with the reason, that there is no room now; any error but the first is tried again.
	Ensure(ctx context.Context, m MachineSpec) error
	// Alive says whether the incarnation is there, and what is known of its end when it is not.
	Alive(ctx context.Context, m MachineRef) (alive bool, detail string, err error)
	// Release ends the machine, whatever incarnation, with all that runs in it, and returns when that is surely gone. One that is not there is gone.
	Release(ctx context.Context, m MachineRef) error
	// Remove is Release that keeps nothing, the log of the machine's agent included.
	Remove(ctx context.Context, m MachineRef) error
	// Machines are all of which there is something left, running or not.
	Machines(ctx context.Context) ([]MachineRef, error)
	// Log is the end of what the machine's agent has logged, limit bytes at most; also after it is released.
	Log(ctx context.Context, m MachineRef, limit int) ([]byte, error)
}

// ProviderSettings are a workspace's own provider: never with keys.
type ProviderSettings struct {
	Kind       ProviderKind
	Region     string
	Role       string // to assume; empty for local
	ExternalID string // for the role; empty for local
	UpdatedAt  *time.Time
}

// DefaultProvider is that of a workspace which has registered none.
var DefaultProvider = ProviderSettings{Kind: ProviderLocal, Region: "local"}

// StorageSettings are a workspace's own storage: never with keys.
type StorageSettings struct {
	URL        string // empty for the server's own
	Role       string // to assume; empty for files
	ExternalID string // for the role
	UpdatedAt  *time.Time
}

// ProviderTx reads and writes what a workspace has registered.
type ProviderTx interface {
	// Provider is DefaultProvider where none is registered.
	Provider(ctx context.Context) (ProviderSettings, error)
	SaveProvider(ctx context.Context, p ProviderSettings) error
	// Storage is the zero value where none is registered.
	Storage(ctx context.Context) (StorageSettings, error)
	SaveStorage(ctx context.Context, p StorageSettings) error
}
