// Command millpond is the whole platform in one binary: the control plane, the agent that does the work, and the tools of its operator.
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
	"github.com/millpond/millpond/domain"
)

// version of the binary; a release sets it with -ldflags "-X main.version=v1.2.3".
var version = "dev"

// commands are the command line.
type commands struct {
	Serve     serveCommand     `cmd:"" default:"withargs" help:"Run the platform. With no options at all everything it needs is embedded."`
	Agent     agentCommand     `cmd:"" help:"Run an agent: the process that does the work, here or in another cloud."`
	Migrate   migrateCommand   `cmd:"" help:"Bring a database's schema up to this version."`
	Workspace workspaceCommand `cmd:"" help:"Make and list workspaces."`
	Engine    engineCommand    `cmd:"" help:"Install and list what runs the SQL of warehouses."`
	SQL       sqlCommand       `cmd:"" name:"sql" help:"Run a SQL statement on a warehouse."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
	Maintain  maintainCommand  `cmd:"" name:"engine-maintain" hidden:"" help:"Maintain a table, for the engine of a warehouse; it is not run by hand."`
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
		fmt.Fprintln(os.Stderr, "millpond:", complaint(err))
		os.Exit(1)
	}
}

// complaint is what the operator is told: what is wrong and what to do, without the cause where that says it all.
func complaint(err error) string {
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
