package duckdb

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/millpond/millpond/agent/engine/extensions"
)

// unpacked is the directory of the extensions. They are unpacked once for all tests.
var unpacked string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "millpond-duckdb-")
	if err == nil {
		unpacked, err = extensions.Unpack(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}
