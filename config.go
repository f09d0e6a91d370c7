package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/lineage"
	"github.com/millpond/millpond/domain/machine"
	"github.com/millpond/millpond/domain/setup"
	"github.com/millpond/millpond/rest/openlineage"
	"github.com/millpond/millpond/store"
)

// serveCommand is the server's configuration. Every flag is also an environment variable:
// --data-dir is MILLPOND_DATA_DIR.
type serveCommand struct {
	Listen         string        `help:"Address to listen on." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	DataDir        string        `help:"Data directory of all embedded parts. Default: /var/lib/millpond for root, else millpond in the user's data directory." placeholder:"PATH"`
	EnginesDir     string        `help:"Directory of installed engines, such as Trino. Default: engines in the data directory." placeholder:"PATH"`
	TrinoUnfenced  bool          `help:"Run Trino on tables that are files even if the kernel has no Landlock. Everyone who may write tables can then make Trino read and delete every file of this host that its user can." name:"trino-may-open-host-files"`
	Database       string        `help:"Address of a PostgreSQL 15 or newer. Default: a private PostgreSQL in the data directory." placeholder:"URL"`
	Storage        string        `help:"Where logs are archived. Default: files in the data directory." placeholder:"URL"`
	Tables         string        `help:"Where tables are stored, as with --storage. Default: the directory lake beside the files of --storage, or below the prefix in a bucket." placeholder:"URL"`
	PublicURL      string        `help:"Address at which people, agents and tasks reach this server. Default: the listen address." placeholder:"URL"`
	AdvertiseURL   string        `help:"Address at which other replicas reach this one. Default: the listen address." placeholder:"URL"`
	TLSCert        string        `help:"Certificate chain, PEM." name:"tls-cert" placeholder:"PATH"`
	TLSKey         string        `help:"Key of the certificate, PEM." name:"tls-key" placeholder:"PATH"`
	TrustedProxies []string      `help:"Networks of trusted proxies, such as 10.0.0.0/8. Their X-Forwarded-For and -Proto are used." placeholder:"CIDR"`
	Workspace      string        `help:"Name of the workspace that the first start creates." default:"default"`
	Samples        bool          `help:"Create a sample job in a new workspace and run it." default:"true" negatable:""`
	LocalAgent     *bool         `help:"Run an agent beside the server. Default: only with the embedded database." negatable:""`
	AgentSlots     int           `help:"Maximum number of concurrent tasks of the agent beside the server. Default: four per core."`
	AgentLogLimit  int64         `help:"Bytes of log that a task of the agent beside the server may write. The rest is dropped. Default: no limit." placeholder:"BYTES"`
	LocalMachines  *bool         `help:"Run compute instances and warehouses as processes on this machine. Default: only with the embedded database." negatable:""`
	MachineStart   time.Duration `help:"How long a machine may take from its start to a connected agent." default:"5m"`
	MachineStop    time.Duration `help:"How long a machine may take to stop." default:"2m"`
	Lease          time.Duration `help:"How long an agent may be silent before its tasks are declared lost." default:"2m"`
	Drain          time.Duration `help:"How long a stopping server waits for running SQL statements before it ends them." default:"20s"`
	OpenLineageURL string        `help:"Address of an OpenLineage receiver for events of runs and statements. Without a path, /api/v1/lineage is used." name:"openlineage-url" placeholder:"URL"`
	OpenLineageKey string        `help:"Bearer token for the OpenLineage receiver." name:"openlineage-token" placeholder:"TOKEN"`
	LogFormat      string        `help:"text or json." enum:"text,json" default:"text"`

	lineage  lineage.Receiver // nil without a receiver
	bodyTime time.Duration    // time for a request body to arrive; 0 for the default
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
	if _, err := os.Stat(filepath.Join(c.DataDir, "go.mod")); err == nil {
		return fmt.Errorf("%s is the directory of a Go module; choose another data directory with --data-dir", c.DataDir)
	}
	if c.EnginesDir, err = enginesDir(c.EnginesDir, c.DataDir); err != nil {
		return err
	}
	if c.Storage == "" {
		c.Storage = "file://" + filepath.Join(c.DataDir, objectsDir)
	}
	embedded := c.Database == ""
	if c.LocalAgent == nil {
		c.LocalAgent = &embedded
	}
	if c.LocalMachines == nil {
		c.LocalMachines = &embedded
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fmt.Errorf("--tls-cert and --tls-key go together")
	}
	if c.Lease < time.Second {
		return fmt.Errorf("--lease is %s; give at least one second, or any short pause loses the lease", c.Lease)
	}
	if c.Drain < 0 {
		return fmt.Errorf("--drain is %s; give 0s to wait for no statement", c.Drain)
	}
	if c.lineage, err = openlineage.New(c.OpenLineageURL, c.OpenLineageKey); err != nil {
		return err
	}
	if c.MachineStart < time.Second || c.MachineStop < time.Second {
		return fmt.Errorf("--machine-start is %s and --machine-stop %s; give each at least one second", c.MachineStart, c.MachineStop)
	}
	return nil
}

// lease derives the heartbeat interval from the longest silence that is allowed: six in a lease, at
// most ten seconds apart.
func (c *serveCommand) lease() machine.Lease {
	return machine.Lease{Length: c.Lease, Heartbeat: min(10*time.Second, c.Lease/6)}
}

// Names in the data directory that the agent beside the server needs.
const (
	agentTokenFile = "agent.token"
	agentDir       = "agent"
)

// path returns the path of a name in the data directory.
func (c *serveCommand) path(name string) string { return filepath.Join(c.DataDir, name) }

// agentArgs is the command line of the agent beside the server.
func (c *serveCommand) agentArgs(server string) []string {
	args := []string{"agent", "--server", server, "--token-file", c.path(agentTokenFile), "--data-dir", c.path(agentDir), "--log-format", c.LogFormat}
	if c.AgentLogLimit > 0 {
		args = append(args, "--log-limit", fmt.Sprint(c.AgentLogLimit))
	}
	if c.AgentSlots > 0 {
		args = append(args, "--slots", fmt.Sprint(c.AgentSlots))
	}
	return args
}

// dataDir is the default data directory of a program: below /var/lib for root, else below
// $XDG_DATA_HOME or ~/.local/share.
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

// enginesDir returns the absolute directory of engines: the given one, else engines in the data
// directory. An empty data means the default data directory.
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

// migrateCommand migrates an external database before the servers are upgraded.
type migrateCommand struct {
	Database string `help:"Address of the PostgreSQL." required:"" placeholder:"URL"`
}

// Run migrates.
func (c *migrateCommand) Run(ctx context.Context) error { return store.Migrate(ctx, c.Database) }

// workspaceCommand manages workspaces.
type workspaceCommand struct {
	Create workspaceCreateCommand `cmd:"" help:"Create a workspace. Prints its agent's token and a one-time link once."`
	List   workspaceListCommand   `cmd:"" help:"List workspaces."`
	Invite workspaceInviteCommand `cmd:"" help:"Create another one-time link for an administrator."`
}

// databaseFlags find the database of a running server. The data directory holds the embedded one's
// address.
type databaseFlags struct {
	Database string `help:"Address of the PostgreSQL. Default: that of the server on the data directory." placeholder:"URL"`
	DataDir  string `help:"Data directory of the server." placeholder:"PATH"`
	URL      string `help:"Address of the server, for links." default:"http://127.0.0.1:8080"`
}

func (f *databaseFlags) instance(ctx context.Context) (*setup.Instance, func(), error) {
	dsn, err := f.dsn()
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(ctx, dsn, store.Options{MaxConns: 2})
	if err != nil {
		return nil, nil, err
	}
	return &setup.Instance{Store: s.System(), Clock: domain.SystemClock{}}, func() { _ = s.Close() }, nil
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

// Run creates the workspace.
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

// Run creates the link.
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
