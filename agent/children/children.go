// Package children runs the processes that an agent starts from its own binary: the shim beside each task, and those in which DuckDB runs. It does so in its
// initialisation, before that of packages which only the server needs and which take longer than such a process may take to begin (iceberg-go's substrait alone
// takes 0.2 s). Go initialises packages by their import paths as soon as what they import is; a test of the binary holds that this one comes early.
package children

import (
	"os"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/worker"
)

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "shim":
		os.Exit(worker.ShimMain())
	case "engine-child":
		os.Exit(engine.ChildMain())
	case engine.GuardCommand:
		os.Exit(trino.GuardMain())
	}
}
