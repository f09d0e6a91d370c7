// Command millpond is the whole platform in one binary: the control plane, the agent and the
// operator's tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	_ "github.com/millpond/millpond/agent/children" // before all else
	"github.com/millpond/millpond/agent/engine/maintain"
	"github.com/millpond/millpond/domain"
)

// version of the binary; a release sets it with -ldflags "-X main.version=v1.2.3".
var version = "dev"

// commands is the command line.
type commands struct {
	Serve     serveCommand     `cmd:"" default:"withargs" help:"Run the platform. Without options, everything it needs is embedded."`
	Agent     agentCommand     `cmd:"" help:"Run an agent: the process that runs tasks, here or in your cloud."`
	Migrate   migrateCommand   `cmd:"" help:"Migrate a database's schema to this version."`
	Workspace workspaceCommand `cmd:"" help:"Create and list workspaces."`
	Engine    engineCommand    `cmd:"" help:"Install and list SQL engines for warehouses."`
	SQL       sqlCommand       `cmd:"" name:"sql" help:"Run a SQL statement on a warehouse."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
	Maintain  maintainCommand  `cmd:"" name:"engine-maintain" hidden:"" help:"Maintain a table, for a warehouse's engine. Not for use by hand."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var c commands
	parser := kong.Must(&c, kong.Name("millpond"), kong.Description("A data platform for a team, in one binary."), kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.DefaultEnvars("MILLPOND"))
	command, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)
	if err := command.Run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "millpond:", operatorMessage(err))
		os.Exit(1)
	}
}

// operatorMessage is the error message for the operator: the problem and its fix. The cause is left
// out unless the message is generic.
func operatorMessage(err error) string {
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Code != domain.CodeInternal && e.Code != domain.CodeUnavailable {
		return e.Message
	}
	return err.Error()
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run() error {
	_, err := fmt.Println("millpond", version)
	return err
}

// maintainCommand is the process in which a warehouse's engine maintains a table. It is started
// through main and not by agent/children, because it needs iceberg-go.
type maintainCommand struct{}

// Run runs the maintenance and ends the process.
func (maintainCommand) Run() error {
	os.Exit(maintain.Main())
	return nil
}
