package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// machineLocks are locks by machine. A lock exists only while it is in use.
type machineLocks struct {
	mu   sync.Mutex
	byID map[domain.MachineID]*machineLock
}

type machineLock struct {
	held  chan struct{}
	users int
}

// lock waits for the machine's lock, or for the end of ctx.
func (k *machineLocks) lock(ctx context.Context, id domain.MachineID) (unlock func(), err error) {
	k.mu.Lock()
	if k.byID == nil {
		k.byID = map[domain.MachineID]*machineLock{}
	}
	t := k.byID[id]
	if t == nil {
		t = &machineLock{held: make(chan struct{}, 1)}
		k.byID[id] = t
	}
	t.users++
	k.mu.Unlock()
	select {
	case t.held <- struct{}{}:
		return func() {
			<-t.held
			k.leave(id, t)
		}, nil
	case <-ctx.Done():
		k.leave(id, t)
		return nil, ctx.Err()
	}
}

func (k *machineLocks) leave(id domain.MachineID, t *machineLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(k.byID, id)
	}
}

// lockHost locks the allocation of the host's resources, also against other servers on the
// directory.
func (p *Provider) lockHost() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
