// Package spec checks the REST specification row by row on the real binary.
package spec_test

import (
	"testing"

	"github.com/millpond/millpond/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
