package spawned

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Bound bounds what the process may take: half as much again as its statement may have, and what the program needs itself.
func Bound(memory int64) error {
	most := uint64(memory + memory/2 + 512<<20)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("bounding the memory of the engine's process: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
