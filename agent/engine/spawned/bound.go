package spawned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bound limits the process's memory to 1.5 times its statement's, plus the program's own need.
func bound(memory int64) error {
	most := uint64(memory + memory/2 + 512<<20)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bounding the memory of the engine's process: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
