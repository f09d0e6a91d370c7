package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/store"
)

// serveCommand is the configuration of the server. Every flag is also an environment variable: --data-dir is MILLPOND_DATA_DIR.
type serveCommand struct {
	Listen         string        `help:"Address to listen on." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	DataDir        string        `help:"Directory of everything embedded. Default: /var/lib/millpond for root, else millpond in the user's data directory." placeholder:"PATH"`
	EnginesDir     string        `help:"Directory of installed engines, such as Trino. Default: engines in the data directory." placeholder:"PATH"`
	Database       string        `help:"Address of a PostgreSQL 15 or newer; without one a private PostgreSQL runs in the data directory." placeholder:"URL"`
	Storage        string        `help:"Where logs are archived. Default: files in the data directory." placeholder:"URL"`
	Tables         string        `help:"Where tables lie, as --storage. Default: lake beside the files of --storage, or below it in a bucket." placeholder:"URL"`
	PublicURL      string        `help:"Address that people, agents and tasks reach this server at. Default: what it listens on." placeholder:"URL"`
	AdvertiseURL   string        `help:"Address that other replicas reach this one at. Default: what it listens on." placeholder:"URL"`
	TLSCert        string        `help:"Certificate chain, PEM." name:"tls-cert" placeholder:"PATH"`
	TLSKey         string        `help:"Key of the certificate, PEM." name:"tls-key" placeholder:"PATH"`
	TrustedProxies []string      `help:"Networks of the proxies whose X-Forwarded-For and -Proto are believed, such as 10.0.0.0/8." placeholder:"CIDR"`
	Workspace      string        `help:"Name of the workspace made at the first start." default:"default"`
	Samples        bool          `help:"Put a sample job into a new workspace and run it." default:"true" negatable:""`
	LocalAgent     *bool         `help:"Run an agent beside the server, or none. Default: one with the embedded database, none with --database." negatable:""`
	AgentSlots     int           `help:"Tasks the agent beside the server runs at once. Default: four for each core."`
	AgentLogLimit  int64         `help:"Bytes of log that a task of the agent beside the server may write; the rest is thrown away. Default: no limit." placeholder:"BYTES"`
	LocalMachines  *bool         `help:"Run compute instances and warehouses as processes on this machine, or do not. Default: with the embedded database only." negatable:""`
	MachineStart   time.Duration `help:"How long a machine may take from its start to a connected agent." default:"5m"`
	MachineStop    time.Duration `help:"How long a machine may take to be gone after its stop." default:"2m"`
	Lease          time.Duration `help:"How long an agent may be silent before its tasks are declared lost." default:"2m"`
	OpenLineageURL string        `help:"Address of a receiver of OpenLineage that is told of runs and statements, with /api/v1/lineage where it has no path." name:"openlineage-url" placeholder:"URL"`
	OpenLineageKey string        `help:"Bearer token for the receiver of OpenLineage." name:"openlineage-token" placeholder:"TOKEN"`
	LogFormat      string        `help:"text or json." enum:"text,json" default:"text"`

	lineage domain.LineageReceiver // nil where nobody is told
}

func (c *serveCommand) complete() (err error) {
	if c.DataDir == "" {
		if c.DataDir, err = dataDir("millpond"); err != nil {
			return err
		}
	}
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return err
	}
	if c.EnginesDir, err = enginesDir(c.EnginesDir, c.DataDir); err != nil {
		return err
	}
	if c.Storage == "" {
		c.Storage = "file://" + filepath.Join(c.DataDir, objectsDir)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fmt.Errorf("--tls-cert and --tls-key go together")
	}
	if c.Lease < time.Second {
		return fmt.Errorf("--lease is %s; a lease shorter than a second is lost by any pause", c.Lease)
	}
	if c.lineage, err = newLineageReceiver(c.OpenLineageURL, c.OpenLineageKey); err != nil {
		return err
	}
	if c.MachineStart < time.Second || c.MachineStop < time.Second {
		return fmt.Errorf("--machine-start is %s and --machine-stop %s; give each a second at least", c.MachineStart, c.MachineStop)
	}
	return nil
}

// lease derives how often an agent is heard from how long it may be silent: six times in a lease, every ten seconds at the most.
func (c *serveCommand) lease() domain.Lease {
	return domain.Lease{Length: c.Lease, Heartbeat: min(10*time.Second, c.Lease/6)}
}

// dataDir is where the user's programs keep their data: /var/lib for root, else $XDG_DATA_HOME or ~/.local/share.
func dataDir(name string) (string, error) {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib", name), nil
	}
	if base := os.Getenv("XDG_DATA_HOME"); base != "" {
		return filepath.Join(base, name), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no data directory: give one with --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "share", name), nil
}

// enginesDir is the absolute directory of engines: the one that is given, else engines in the data directory, given or the default.
func enginesDir(given, data string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	if data == "" {
		var err error
		if data, err = dataDir("millpond"); err != nil {
			return "", err
		}
	}
	return filepath.Abs(filepath.Join(data, "engines"))
}

func newLog(format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}

// migrateCommand migrates a database of one's own before the servers are upgraded.
type migrateCommand struct {
	Database string `help:"Address of the PostgreSQL." required:"" placeholder:"URL"`
}

// Run migrates.
func (c *migrateCommand) Run(ctx context.Context) error { return store.Migrate(ctx, c.Database) }

// workspaceCommand manages workspaces.
type workspaceCommand struct {
	Create workspaceCreateCommand `cmd:"" help:"Make a workspace; prints its agent's token and a one-time link, once."`
	List   workspaceListCommand   `cmd:"" help:"List workspaces."`
	Invite workspaceInviteCommand `cmd:"" help:"Make another one-time link for an administrator."`
}

// databaseFlags find the database of a running server: the embedded one's through the data directory.
type databaseFlags struct {
	Database string `help:"Address of the PostgreSQL; without one that of the server that runs on the data directory." placeholder:"URL"`
	DataDir  string `help:"Data directory of the server." placeholder:"PATH"`
	URL      string `help:"Address of the server, for links." default:"http://127.0.0.1:8080"`
}

func (f *databaseFlags) instance(ctx context.Context) (*domain.Instance, func(), error) {
	dsn, err := f.dsn()
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, dsn, store.Options{MaxConns: 2})
	if err != nil {
		return nil, nil, err
	}
	return &domain.Instance{Store: s.System(), Clock: domain.SystemClock{}}, func() { _ = s.Close() }, nil
}

func (f *databaseFlags) dsn() (string, error) {
	if f.Database != "" {
		return f.Database, nil
	}
	dir := f.DataDir
	if dir == "" {
		var err error
		if dir, err = dataDir("millpond"); err != nil {
			return "", err
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, databaseFile))
	if err != nil {
		return "", fmt.Errorf("no server has run on %s; start it, or give --database: %w", dir, err)
	}
	return string(b), nil
}

type workspaceCreateCommand struct {
	databaseFlags
	Name string `arg:"" help:"Name of the workspace."`
}

// Run makes the workspace.
func (c *workspaceCreateCommand) Run(ctx context.Context) error {
	instance, done, err := c.instance(ctx)
	if err != nil {
		return err
	}
	defer done()
	ws, agent, credentials, err := instance.CreateWorkspace(ctx, c.Name)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("Workspace   %s (%s)\nAgent       %s\nAgent token %s\nFirst admin %s\n", ws.Name, ws.ID, agent.ID, credentials.AgentToken, setUpURL(c.URL, credentials.SetUpToken))
	return err
}

type workspaceListCommand struct{ databaseFlags }

// Run lists the workspaces.
func (c *workspaceListCommand) Run(ctx context.Context) error {
	instance, done, err := c.instance(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := instance.Workspaces(ctx)
	for _, ws := range all {
		fmt.Printf("%s  %s  %s\n", ws.ID, ws.CreatedAt.Format(time.RFC3339), ws.Name)
	}
	return err
}

type workspaceInviteCommand struct {
	databaseFlags
	Workspace string `arg:"" help:"Id or name of the workspace."`
}

// Run makes the link.
func (c *workspaceInviteCommand) Run(ctx context.Context) error {
	instance, done, err := c.instance(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := instance.Workspaces(ctx)
	if err != nil {
		return err
	}
	for _, ws := range all {
		if string(ws.ID) == c.Workspace || ws.Name == c.Workspace {
			token, err := instance.InviteAdmin(ctx, ws.ID)
			if err == nil {
				fmt.Println(setUpURL(c.URL, token))
			}
			return err
		}
	}
	return fmt.Errorf("there is no workspace %q; `millpond workspace list` shows them", c.Workspace)
}

func setUpURL(base, token string) string { return base + "/setup?token=" + token }
