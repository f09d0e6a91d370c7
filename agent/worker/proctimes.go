package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	ticksPerSecond = 100 // in /proc, on every Linux that Go knows
	nsPerTick      = 1e9 / ticksPerSecond
)

// processID tells a process from a later one with its pid.
type processID struct {
	pid   int
	start int64 // ticks since the machine's start
}

// times is the processor time of a process, in ticks.
type times struct {
	parent   int
	own      int64
	children int64 // of those that have ended and were waited for, with their own children's
	zombie   bool
}

type processTime struct {
	id processID
	times
}

// procReader reads files of /proc in half the time that os.ReadFile takes, which counts where there are hundreds.
type procReader struct {
	dir *os.File
	buf []byte
}

func openProc() (*procReader, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	return &procReader{dir: dir, buf: make([]byte, 4096)}, nil
}

func (r *procReader) close() { r.dir.Close() }

// read answers what is good until the next call; nothing of a process that has ended.
func (r *procReader) read(pid int, file string) []byte {
	fd, err := unix.Openat(int(r.dir.Fd()), strconv.Itoa(pid)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, err := unix.Read(fd, r.buf)
	unix.Close(fd)
	if err != nil || n <= 0 {
		return nil
	}
	return r.buf[:n]
}

// times lists all processes of the machine.
func (r *procReader) times() []processTime {
	names, _ := r.dir.Readdirnames(-1)
	found := make([]processTime, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := parseTimes(pid, r.read(pid, "stat")); ok {
			found = append(found, p)
		}
	}
	return found
}

// parseTimes reads fields 3, 4, 14 to 17 and 22 of proc(5).
func parseTimes(pid int, stat []byte) (p processTime, ok bool) {
	fields := statFields(stat)
	if len(fields) < 20 {
		return p, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i-3]), 10, 64)
		return n
	}
	return processTime{
		id:    processID{pid: pid, start: number(22)},
		times: times{parent: int(number(4)), own: number(14) + number(15), children: number(16) + number(17), zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'},
	}, true
}

// members are the processes of an agent: its descendants, and the shims that it has adopted, with theirs. A shim is the parent of its task's first process.
func members(all []processTime, self int, tasks []int) map[processID]times {
	index := make(map[int]int, len(all)) // pid → where it is
	children := make(map[int][]int, len(all))
	for i, p := range all {
		index[p.id.pid] = i
		children[p.parent] = append(children[p.parent], i)
	}
	above := map[int]bool{1: true, 0: true}
	for pid := self; !above[pid]; {
		above[pid] = true
		i, ok := index[pid]
		if !ok {
			break
		}
		pid = all[i].parent
	}
	next := []int{self}
	for _, pid := range tasks {
		i, ok := index[pid]
		switch {
		case !ok:
		case above[all[i].parent]:
			next = append(next, pid) // its shim is dead
		default:
			next = append(next, all[i].parent)
		}
	}
	found := map[processID]times{}
	for len(next) > 0 {
		pid := next[0]
		next = next[1:]
		i, ok := index[pid]
		if !ok {
			continue
		}
		if _, seen := found[all[i].id]; seen {
			continue
		}
		found[all[i].id] = all[i].times
		for _, c := range children[pid] {
			next = append(next, all[c].id.pid)
		}
	}
	return found
}

// ticksBetween is the processor time between two looks at the processes; since is the moment of the first one, in ticks. That of a process which has
// ended is in its parent's once that has waited for it, all of its life, so what was counted before is taken off again.
func ticksBetween(before, now map[processID]times, since int64) int64 {
	var own, waited int64
	for id, p := range now {
		b, seen := before[id]
		if !seen && id.start < since {
			continue // it belonged to somebody else until now
		}
		own += p.own - b.own
		waited += p.children - b.children
	}
	byPID := make(map[int]processID, len(before))
	for id := range before {
		byPID[id.pid] = id
	}
	for id, b := range before {
		if _, lives := now[id]; !lives && inherited(id, before, now, byPID) {
			waited -= b.own + b.children
		}
	}
	return own + max(0, waited)
}

// inherited reports whether a process that has ended has an ancestor that lives and now has its time.
func inherited(id processID, before, now map[processID]times, byPID map[int]processID) bool {
	for range len(before) {
		parent, ok := byPID[before[id].parent]
		if !ok {
			return false
		}
		if _, lives := now[parent]; lives {
			return true
		}
		id = parent
	}
	return false
}
