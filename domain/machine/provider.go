package machine

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/millpond/millpond/domain"
)

// ProviderKind is the kind of a source of machines.
type ProviderKind string

// The kinds of providers.
const (
	ProviderLocal ProviderKind = "local" // processes on the server's own machine
	ProviderEC2   ProviderKind = "ec2"   // not available yet; refused by name
)

// Flavor is a size of machine that a provider offers.
type Flavor struct {
	Name      string // such as cpu.2
	Cores     int
	Memory    int64  // bytes
	GPUs      int    // 0 if none
	GPU       string // model; empty if none
	Available bool   // whether there is room for one more now
	Price     Price
	Limits    string // empty if cores and memory are enforced; else a sentence that says why not
}

// Price is the price of a flavor for an hour.
type Price struct {
	Hourly   decimal.Decimal
	Currency string // ISO 4217
}

// Ref names a machine to its provider.
type Ref struct {
	Workspace   domain.WorkspaceID
	Machine     domain.MachineID
	Incarnation int // counts the machine's starts, including restarts, from 1
}

// Spec describes the machine to create.
type Spec struct {
	Ref
	Provider    ProviderSettings
	Flavor      Flavor
	ImageRef    string // result of Resolve
	Slots       int    // 0 stands for the agent's own default
	WriteEngine string // warehouses only; else empty
	Server      string // address that the machine's agent connects to
	Bootstrap   string // single-use token that the agent exchanges for its own
}

// Provider creates and ends the machines of one kind. Every method must be safe to repeat after a
// crash, and safe for concurrent use. Calls about one machine are sequential.
type Provider interface {
	// Check tests whether the settings work, by using them. CodeInvalid says what is wrong with
	// them.
	Check(ctx context.Context, p ProviderSettings) error
	// Flavors returns the sizes on offer, smallest first, without prices.
	Flavors(ctx context.Context, p ProviderSettings) ([]Flavor, error)
	// CheckWriteEngine checks whether a warehouse of the flavor can write with the engine.
	// CodeInvalid says why not, and what to do. Every flavor supports duckdb.
	CheckWriteEngine(ctx context.Context, p ProviderSettings, f Flavor, engine string) error
	// Resolve returns the immutable reference of an image's name; the empty name stands for the
	// default. For an unknown name it returns CodeInvalid with the known ones.
	Resolve(ctx context.Context, p ProviderSettings, image string) (ref string, err error)
	// Ensure creates this incarnation of the machine unless it exists, and removes other
	// incarnations. Its agent begins with the bootstrap token. CodeInvalid says that the machine
	// can never be created. CodeConflict says, with the reason, that there is no room now. The
	// caller retries all errors except CodeInvalid.
	Ensure(ctx context.Context, m Spec) error
	// Alive reports whether the incarnation is alive; if not, detail says what is known of its end.
	Alive(ctx context.Context, m Ref) (alive bool, detail string, err error)
	// Release ends every incarnation of the machine with all its processes, and returns once they
	// are gone. A missing machine is no error.
	Release(ctx context.Context, m Ref) error
	// Remove is Release that also deletes the machine's data, including the log of its agent.
	Remove(ctx context.Context, m Ref) error
	// Machines returns all machines with any remains, running or not.
	Machines(ctx context.Context) ([]Ref, error)
	// Log returns the last bytes of the agent's log, at most limit; also after Release.
	Log(ctx context.Context, m Ref, limit int) ([]byte, error)
}

// ProviderSettings is a workspace's own provider. It never holds keys.
type ProviderSettings struct {
	Kind       ProviderKind
	Region     string
	Role       string // role to assume; empty for local
	ExternalID string // for the role; empty for local
	UpdatedAt  *time.Time
}

// DefaultProvider is the provider of a workspace without an own one.
var DefaultProvider = ProviderSettings{Kind: ProviderLocal, Region: "local"}

// StorageSettings is a workspace's own storage. It never holds keys.
type StorageSettings struct {
	URL        string // empty for the server's own
	Role       string // role to assume; empty for files
	ExternalID string // for the role
	UpdatedAt  *time.Time
}

// providerTx reads and writes a workspace's own provider and storage.
type providerTx interface {
	// Provider returns DefaultProvider if the workspace has no own provider.
	Provider(ctx context.Context) (ProviderSettings, error)
	SaveProvider(ctx context.Context, p ProviderSettings) error
	// Storage returns the zero value if the workspace has no own storage.
	Storage(ctx context.Context) (StorageSettings, error)
	SaveStorage(ctx context.Context, p StorageSettings) error
}
