package main

import (
	"os"

	"github.com/millpond/millpond/agent/engine/maintain"
)

// maintainCommand is the process in which the engine of a warehouse maintains a table. It goes through main, and is none of agent/children: it needs iceberg-go.
type maintainCommand struct{}

// Run ends the process.
func (maintainCommand) Run() error {
	os.Exit(maintain.Main())
	return nil
}
