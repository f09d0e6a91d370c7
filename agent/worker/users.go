package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Users is the range of user ids, both ends included, of which each attempt gets one of its own (with the group of the
// same number) when the agent runs as root. The zero value is 61184 to 65519, the range of systemd's dynamic users.
type Users struct{ First, Last uint32 }

var dynamicUsers = Users{First: 61184, Last: 65519}

// userLocks is where agents of one machine agree who uses which id.
const userLocks = "/run/millpond/users"

// users hands out ids. Each is used for one attempt at a time, on the whole machine, and after the last one all others
// come first, so that what a task leaves in a shared place does not soon belong to another.
type users struct {
	Users
	mu   sync.Mutex
	next uint32
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
	return &users{Users: r, next: r.First}, nil
}

func (u *users) take() (*user, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for range u.Last - u.First + 1 {
		id := u.next
		if u.next++; u.next > u.Last {
			u.next = u.First
		}
		if found, err := lockUser(id); err != nil || found != nil {
			return found, err
		}
	}
	return nil, fmt.Errorf("all task users from %d to %d are in use", u.First, u.Last)
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

// metadata are the addresses at which clouds hand a machine's credentials to whoever asks.
var metadata = []struct{ family, address string }{{"-4", "169.254.169.254/32"}, {"-6", "fd00:ec2::254/128"}}

// closeMetadata closes them to the task users by a routing rule. The rules stay, as tasks may outlive the agent.
func closeMetadata(ctx context.Context, r Users) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var failed []error
	for _, m := range metadata {
		args := []string{m.family, "rule", "add", "uidrange", fmt.Sprintf("%d-%d", r.First, r.Last), "to", m.address, "prohibit"}
		cmd := exec.CommandContext(ctx, "ip", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "LC_ALL=C"}
		if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "File exists") {
			failed = append(failed, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(failed...)
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
