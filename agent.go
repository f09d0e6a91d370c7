package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/install"
	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/worker"
)

// agentCommand runs an agent by hand, by a service manager or by the provider of a machine.
type agentCommand struct {
	Server     string `help:"Address of the platform." default:"http://127.0.0.1:8080" placeholder:"URL"`
	Token      string `help:"The agent's token. Better in a file or the environment, where other users do not see it." env:"MILLPOND_AGENT_TOKEN"`
	TokenFile  string `help:"File that holds the agent's token. It goes before --token." env:"MILLPOND_AGENT_TOKEN_FILE" placeholder:"PATH"`
	DataDir    string `help:"Directory of this agent's own: what runs, and logs on their way. Default: millpond-agent in the user's data directory." placeholder:"PATH"`
	Slots      int    `help:"Tasks to run at once. Default: four for each core."`
	SpoolLimit int64  `help:"Bytes of a task's log to keep here before the task is held back." default:"67108864"`
	LogLimit   int64  `help:"Bytes of log that a task may write; the rest is thrown away, which a line at the end of its log says. Default: no limit." placeholder:"BYTES"`
	OneUser    bool   `help:"Run tasks as this user even when it is root: this machine is then one trust domain."`
	LogFormat  string `help:"text or json." enum:"text,json" default:"text"`
	Clear      bool   `help:"Run no agent: end everything that an agent which was killed has left running in --data-dir, and delete it. It is not reported." env:"-"`

	// What the provider of a machine says of it.
	BootstrapFile string        `help:"File with a bootstrap token, which is exchanged once for the token that goes into --token-file." env:"MILLPOND_AGENT_BOOTSTRAP_FILE" placeholder:"PATH" hidden:""`
	Metrics       string        `help:"Send metrics of nothing (none), of the agent and what it runs (own), or of the whole host (host)." enum:"none,own,host" default:"none" env:"MILLPOND_AGENT_METRICS" hidden:""`
	Cores         float64       `help:"Cores of the machine, for --metrics=own. Default: the host's." env:"MILLPOND_AGENT_CORES" hidden:""`
	Alone         time.Duration `help:"End when the platform has not answered for so long. Default: never." env:"MILLPOND_AGENT_ALONE" hidden:""`
	Warehouse     bool          `help:"Run SQL, as the machine is a warehouse." env:"MILLPOND_AGENT_WAREHOUSE" hidden:""`
	Group         uint32        `help:"Group that opens the workspace's tables where they are files, for the engine of a warehouse." env:"MILLPOND_AGENT_GROUP" hidden:""`
	WriteEngine   string        `help:"Engine that the warehouse writes with." enum:"duckdb,trino" default:"duckdb" env:"MILLPOND_AGENT_WRITE_ENGINE" hidden:""`
	EnginesDir    string        `help:"Directory of installed engines." env:"MILLPOND_AGENT_ENGINES_DIR" placeholder:"PATH" hidden:""`
	Memory        int64         `help:"Bytes of memory of the machine, for --metrics=own. Default: the host's." env:"MILLPOND_AGENT_MEMORY" placeholder:"BYTES" hidden:""`
}

// clearTime is how long --clear looks for an end of what is left.
const clearTime = time.Minute

// Run runs the agent until it is told to stop. Tasks run on under their shims, for the next agent on the directory.
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

// sql gives the agent of a warehouse its engine. Where the agent is root, the engine's processes run as a user of their own with the workspace's group, as tasks do.
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
			options.Log.Warn("the engine does not get the workspace's group: where its tables are files that are closed to others, it cannot open them", "error", err)
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

// trino divides what the engines of a warehouse may take of its memory evenly between the two.
func (c *agentCommand) trino() *trino.Options {
	find := func() (install.Trino, error) { return install.FindTrino(c.EnginesDir) }
	return &trino.Options{Find: find, Memory: c.Memory * 3 / 8, Cores: int(c.Cores)}
}

func clearAgent(ctx context.Context, o worker.Options) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	err := worker.Clear(ctx, o)
	if errors.Is(err, context.Canceled) {
		return errors.New(err.Error()) // something is left, also when this is what the operator chose
	}
	return err
}

// options are the worker's.
func (c *agentCommand) options() (worker.Options, error) {
	o := worker.Options{
		Server: c.Server, Token: c.Token, TokenFile: c.TokenFile, BootstrapFile: c.BootstrapFile, Dir: c.DataDir, Slots: c.Slots, Version: version,
		Log: newLog(c.LogFormat), SpoolLimit: c.SpoolLimit, LogLimit: c.LogLimit, OneUser: c.OneUser,
		Metrics: worker.MetricsOf(c.Metrics), Cores: c.Cores, Memory: c.Memory, Alone: c.Alone,
	}
	if o.Token == "" && o.TokenFile == "" && !c.Clear {
		return o, fmt.Errorf("give the agent's token with --token-file or MILLPOND_AGENT_TOKEN; the workspace's page of agents makes one (MILLPOND_TOKEN holds an API key or a task's own token, with which no agent can connect)")
	}
	if o.Dir != "" {
		return o, nil
	}
	if c.Clear {
		return o, errors.New("give the directory that is to be cleared with --data-dir")
	}
	var err error
	o.Dir, err = dataDir("millpond-agent")
	return o, err
}
