package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Users is the range of user ids, both ends included, of which each attempt gets one of its own (with the group of the
// same number) when the agent runs as root. The zero value is 61184 to 65519, the range of systemd's dynamic users.
type Users struct{ First, Last uint32 }

var dynamicUsers = Users{First: 61184, Last: 65519}

// Agents of one machine agree in userLocks who uses which id, and in userTurns whose turn is next, which is to outlast a
// restart of the machine.
const (
	userLocks = "/run/millpond/users"
	userTurns = "/var/lib/millpond-users"
)

// users hands out ids. Each is used for one attempt at a time, and after its end all others of the range come first, on
// the whole machine and whatever agent asks, so that what a task leaves in a shared place does not soon belong to another.
type users struct {
	Users
	mu   sync.Mutex // a file's lock does not keep the goroutines of one process apart
	turn *os.File   // holds the id that was handed out last
}

// user is an id in use. Its lock is shared with the shim, so that it outlives the agent.
type user struct {
	id   uint32
	lock *os.File
}

func newUsers(r Users) (*users, error) {
	if r == (Users{}) {
		r = dynamicUsers
	}
	if r.First == 0 || r.Last < r.First {
		return nil, fmt.Errorf("the users %d to %d are no range of task users", r.First, r.Last)
	}
	if err := os.MkdirAll(userLocks, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of task users: %w", err)
	}
	// A machine whose /var/lib cannot be written keeps nothing over a restart, the turn included.
	turn, err := openTurn(r, userTurns, userLocks)
	if err != nil {
		return nil, fmt.Errorf("opening the turn of task users: %w", err)
	}
	return &users{Users: r, turn: turn}, nil
}

// openTurn opens the turn of a range in the first directory that takes it.
func openTurn(r Users, dirs ...string) (*os.File, error) {
	var failed []error
	for _, dir := range dirs {
		err := os.MkdirAll(dir, 0o700)
		var f *os.File
		if err == nil {
			f, err = os.OpenFile(filepath.Join(dir, fmt.Sprintf("last-of-%d-%d", r.First, r.Last)), os.O_RDWR|os.O_CREATE, 0o600)
		}
		if err == nil {
			return f, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// take hands out the first free id whose turn it is.
func (u *users) take() (*user, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := unix.Flock(int(u.turn.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("waiting for the turn of task users: %w", err)
	}
	defer func() { _ = unix.Flock(int(u.turn.Fd()), unix.LOCK_UN) }()
	id := u.last()
	for range u.Last - u.First + 1 {
		if id++; id < u.First || id > u.Last {
			id = u.First
		}
		found, err := lockUser(id)
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		if err := writeAt(u.turn, fmt.Sprintf("%010d\n", id)); err != nil {
			found.release()
			return nil, fmt.Errorf("noting the turn of task users: %w", err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("all task users from %d to %d are in use", u.First, u.Last)
}

// last is the id that was handed out last; 0 where none is known.
func (u *users) last() uint32 {
	b := make([]byte, 10)
	n, _ := u.turn.ReadAt(b, 0)
	id, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(id)
}

// lockUser answers nil when somebody else uses the id.
func lockUser(id uint32) (*user, error) {
	f, err := os.OpenFile(filepath.Join(userLocks, strconv.FormatUint(uint64(id), 10)), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, err
	}
	return &user{id: id, lock: f}, nil
}

func (u *user) release() {
	if u != nil {
		u.lock.Close()
	}
}

// checkReachable makes sure that a task user can get to its working directory below dir.
func checkReachable(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("tasks run as users of their own and cannot reach %s, because %s has mode %#o: run chmod o+x %s, or choose another directory", dir, p, info.Mode().Perm(), p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// TakeUser hands out one of the ids that tasks run as, for what else runs on behalf of people here. Nobody else gets it until it is free again.
func TakeUser(r Users) (id uint32, free func(), err error) {
	all, err := newUsers(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = all.turn.Close() }()
	u, err := all.take()
	if err != nil {
		return 0, nil, err
	}
	return u.id, u.release, nil
}
