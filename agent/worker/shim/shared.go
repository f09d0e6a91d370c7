package shim

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shared is a page of memory that an agent and a shim share. In it the agent stores how much of the
// log it no longer needs, without a system call on either side. The socket carries only messages
// that must wake the other side.
type Shared struct {
	Acked atomic.Int64  // bytes of log that the control plane has
	Marks atomic.Int64  // marks that are no longer needed
	Asked atomic.Uint32 // 1: the agent wants a Log report when there is more log; the shim resets it
	Short atomic.Uint32 // 1: the shim wants a Room order when there is room in the spool; the agent resets it
}

const sharedSize = 4096

// NewShared creates a page and its descriptor, which is for the shim. The caller closes the
// descriptor and unmaps the page.
func NewShared() (*Shared, int, error) {
	fd, err := unix.MemfdCreate("millpond-attempt", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, -1, fmt.Errorf("making shared memory: %w", err)
	}
	if err := unix.Ftruncate(fd, sharedSize); err != nil {
		unix.Close(fd)
		return nil, -1, fmt.Errorf("making shared memory: %w", err)
	}
	s, err := MapShared(fd)
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	return s, fd, nil
}

// MapShared maps the page of a descriptor, which can be closed afterwards.
func MapShared(fd int) (*Shared, error) {
	p, err := unix.MmapPtr(fd, 0, nil, sharedSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	return (*Shared)(p), nil
}

// Unmap releases the page, which must not be used afterwards. It does nothing for nil.
func (s *Shared) Unmap() {
	if s != nil {
		_ = unix.MunmapPtr(unsafe.Pointer(s), sharedSize)
	}
}
