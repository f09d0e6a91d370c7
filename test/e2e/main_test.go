// Package e2e tests the real binary through its APIs: jobs, logs, tables, statements and machines.
package e2e_test

import (
	"testing"

	"github.com/millpond/millpond/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
