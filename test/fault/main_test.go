// Package fault kills, stops and cuts off the parts of a real platform. docs/faults.md lists the
// rows.
package fault_test

import (
	"testing"

	"github.com/millpond/millpond/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
