package worker

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/millpond/millpond/agent"
)

// instanceFile is the file in which earlier versions store the id of the directory.
const instanceFile = "instance"

var instanceID = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// findDirectory identifies the agent's directory. By its id the control plane distinguishes two
// agents with one token.
func findDirectory(dir string) (d, was agent.Directory, err error) {
	id, err := os.ReadFile(filepath.Join(dir, instanceFile))
	if err != nil || !instanceID.Match(id) {
		id = nil
	}
	return agent.FindDirectory(dir, string(id))
}

// lookEvery is the interval of checking that the directory still exists.
const lookEvery = 2 * time.Second

// watchDirectory ends the agent when its directory is removed: it could start no attempt, and
// nothing could stop it.
func (w *worker) watchDirectory(ctx context.Context, end context.CancelCauseFunc) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if w.directory.Gone() {
			end(final("The agent's directory %s was removed while it ran, or another one is in its place. Start the agent again.", w.options.Dir))
			return
		}
	}
}
