package worker

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is a page of memory that an agent and a shim have in common. In it the agent says how much of the log it needs
// no more, which costs neither of them a system call; the socket carries only what the other one sleeps for.
type shared struct {
	acked atomic.Int64  // bytes of log that the control plane has
	marks atomic.Int64  // marks that are needed no more
	asked atomic.Uint32 // 1: the agent wants a Log report when there is more log; the shim takes it back
	short atomic.Uint32 // 1: the shim wants a Room order when there is room in the spool; the agent takes it back
}

const sharedSize = 4096

// newShared makes a page; its descriptor is for the shim.
func newShared() (*shared, int, error) {
	fd, err := unix.MemfdCreate("millpond-attempt", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, fmt.Errorf("making shared memory: %w", err)
	}
	if err := unix.Ftruncate(fd, sharedSize); err != nil {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("making shared memory: %w", err)
	}
	s, err := mapShared(fd)
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return s, fd, nil
}

func mapShared(fd int) (*shared, error) {
	p, err := unix.MmapPtr(fd, 0, nil, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	return (*shared)(p), nil
}

func (s *shared) unmap() {
	if s != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(s), sharedSize)
	}
}
