// Package children runs the processes that an agent starts from its own binary: the shims of tasks,
// and the processes of engines. It runs them in its init, before the init of packages that only the
// server needs. Those are too slow for such a process (iceberg-go's substrait alone takes 0.2 s).
// Go initialises packages in the order of their import paths once their imports are initialised. A
// test of the binary checks that this package is early.
package children

import (
	"os"

	"github.com/millpond/millpond/agent/engine"
	"github.com/millpond/millpond/agent/engine/duckdb"
	"github.com/millpond/millpond/agent/engine/trino"
	"github.com/millpond/millpond/agent/worker/shim"
)

func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "shim":
		os.Exit(shim.Main())
	case "engine-child":
		os.Exit(duckdb.Main())
	case engine.GuardCommand:
		os.Exit(trino.GuardMain())
	}
}
