package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/millpond/millpond/agent/worker"
)

// agentCommand runs an agent by hand or by a service manager.
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
}

// Run runs the agent until it is told to stop. Tasks run on under their shims, for the next agent on the directory.
func (c *agentCommand) Run(ctx context.Context) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	dir := c.DataDir
	if dir == "" {
		if dir, err = dataDir("millpond-agent"); err != nil {
			return err
		}
	}
	return worker.Run(ctx, worker.Options{
		Server: c.Server, Token: token, Dir: dir, Slots: c.Slots, Version: version, Log: newLog(c.LogFormat), SpoolLimit: c.SpoolLimit, LogLimit: c.LogLimit, OneUser: c.OneUser,
	})
}

func (c *agentCommand) token() (string, error) {
	if c.TokenFile == "" && c.Token == "" {
		return "", fmt.Errorf("give the agent's token with --token-file or MILLPOND_AGENT_TOKEN; the workspace's page of agents makes one (MILLPOND_TOKEN holds an API key or a task's own token, with which no agent can connect)")
	}
	if c.TokenFile == "" {
		return c.Token, nil
	}
	b, err := os.ReadFile(c.TokenFile)
	return strings.TrimSpace(string(b)), err
}
