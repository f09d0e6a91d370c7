package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Users is a range of user ids, both ends included. If the agent runs as root, each attempt gets
// its own user from the range, with the group of the same number. The zero value means 61184 to
// 65519, the range of systemd's dynamic users.
type Users struct{ First, Last uint32 }

var dynamicUsers = Users{First: 61184, Last: 65519}

// Agents on one machine share userLocks and lastUserDir. userLocks has a lock for each used id.
// lastUserDir has the last id, and survives a restart of the machine.
const (
	userLocks   = "/run/millpond/users"
	lastUserDir = "/var/lib/millpond-users"
)

// users hands out ids. An id is used for one attempt at a time. It is reused after all others of
// the range, across all agents of the machine. So files that a task leaves in a shared directory do
// not soon belong to another task.
type users struct {
	Users
	mu       sync.Mutex // a file lock does not exclude goroutines of the same process
	lastFile *os.File   // holds the id that was handed out last
}

// reclaimWait bounds the wait for the end of a killed shim.
const reclaimWait = 2 * time.Second

// user is an id in use. The shim shares its lock, so that the lock outlives the agent.
type user struct {
	id   uint32
	lock *os.File
}

func newUsers(r Users) (*users, error) {
	if r == (Users{}) {
		r = dynamicUsers
	}
	if r.First == 0 || r.Last < r.First {
		return nil, fmt.Errorf("the users %d to %d are not a valid range of task users", r.First, r.Last)
	}
	if err := os.MkdirAll(userLocks, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of task users: %w", err)
	}
	// If /var/lib is not writable, the last id is lost at a restart of the machine.
	last, err := openLastUser(r, lastUserDir, userLocks)
	if err != nil {
		return nil, fmt.Errorf("opening the file of the last task user: %w", err)
	}
	return &users{Users: r, lastFile: last}, nil
}

// openLastUser opens the file with the last id of a range in the first writable directory.
func openLastUser(r Users, dirs ...string) (*os.File, error) {
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

// take hands out the next free id after the last one.
func (u *users) take() (*user, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := unix.Flock(int(u.lastFile.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking the file of the last task user: %w", err)
	}
	defer func() { _ = unix.Flock(int(u.lastFile.Fd()), unix.LOCK_UN) }()
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
		if err := writeAt(u.lastFile, fmt.Sprintf("%010d\n", id)); err != nil {
			found.release()
			return nil, fmt.Errorf("writing the last task user: %w", err)
		}
		return found, nil
	}
	return nil, fmt.Errorf("all task users from %d to %d are in use", u.First, u.Last)
}

// last is the id that was handed out last; 0 if unknown.
func (u *users) last() uint32 {
	b := make([]byte, 10)
	n, _ := u.lastFile.ReadAt(b, 0)
	id, err := strconv.ParseUint(strings.TrimSpace(string(b[:n])), 10, 32)
	if err != nil {
		return 0
	}
	return uint32(id)
}

// lockUser locks an id. It returns nil if the id is in use.
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

// reclaimUser locks the user of an attempt whose shim was killed. The killed shim holds the lock
// until the last of its threads has ended, so it is waited for. The result is nil if another
// agent's attempt uses the id now; its processes must not be touched.
func (w *worker) reclaimUser(id uint32) *user {
	ctx, cancel := context.WithTimeout(w.ctx, reclaimWait)
	defer cancel()
	pause := backoff{most: sweepWait}
	return lockFreedUser(id, func() bool { return pause.wait(ctx) })
}

// lockFreedUser tries to lock an id while it is in use, as long as pause reports true.
func lockFreedUser(id uint32, pause func() bool) *user {
	for {
		if u, err := lockUser(id); u != nil || err != nil || !pause() {
			return u
		}
	}
}

func (u *user) release() {
	if u != nil {
		u.lock.Close()
	}
}

// checkReachable checks that a task user can reach its working directory below dir.
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

// TakeUser hands out a task user's id for another process that runs on behalf of people. Nobody
// else gets the id until free is called. It returns an error if all ids are in use.
func TakeUser(r Users) (id uint32, free func(), err error) {
	all, err := newUsers(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = all.lastFile.Close() }()
	u, err := all.take()
	if err != nil {
		return 0, nil, err
	}
	return u.id, u.release, nil
}
