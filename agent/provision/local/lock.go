package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/domain"
)

// keyed are locks by machine, of which there are only as many as are in use.
type keyed struct {
	mu   sync.Mutex
	held map[domain.MachineID]*turns
}

type turns struct {
	turn  chan struct{}
	users int
}

// lock waits for the machine's turn, or for the end of ctx.
func (k *keyed) lock(ctx context.Context, id domain.MachineID) (unlock func(), err error) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[domain.MachineID]*turns{}
	}
	t := k.held[id]
	if t == nil {
		t = &turns{turn: make(chan struct{}, 1)}
		k.held[id] = t
	}
	t.users++
	k.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
		return func() {
			<-t.turn
			k.leave(id, t)
		}, nil
	case <-ctx.Done():
		k.leave(id, t)
		return nil, ctx.Err()
	}
}

func (k *keyed) leave(id domain.MachineID, t *turns) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(k.held, id)
	}
}

// lockHost keeps everybody else, other servers on the directory included, from giving away what the host has.
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
