package worker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
	"github.com/millpond/millpond/agent/worker/shim"
)

// startingRetries is how often an attempt gets another shim if its shim died before starting the
// process.
const startingRetries = 3

// attempt is one attempt of this agent, from its acceptance until the control plane forgets it.
type attempt struct {
	id   string
	dir  string
	spec shim.Spec
	user *user // nil when its processes run as the agent's own user

	log, marks *os.File
	mu         sync.Mutex
	// The read ends of its pipes. The shim reads them. They are also open here, so that their bytes
	// outlive the shim.
	pipes     [2]int
	shared    *shim.Shared // memory shared with the shim; nil without a shim
	link      *link        // to its shim; nil when the shim has ended
	retries   int
	proc      shim.Started
	running   bool // its process exists or existed
	held      string
	final     *agent.Status // set when it has ended
	forgotten bool          // the control plane wants nothing of it any more
	leased    int64         // the lease that its shim was started with

	acked        int64 // log bytes the control plane has
	punched      int64 // log bytes freed
	marksPunched int64
	hint         int64 // a mark at or before acked
	tailAt       int64 // an incomplete rune at the end of the log begins here …
	tailSince    time.Time

	version, reported int  // of its status: as it is, and as the control plane knows it
	reporting         bool // a report is under way
}

func newAttempt(dir string, s shim.Spec) *attempt {
	return &attempt{id: s.ID, dir: dir, spec: s, pipes: [2]int{-1, -1}, version: 1}
}

// openLog opens the shim's log and marks, to read them and to free the parts that were sent.
func (a *attempt) openLog() (err error) {
	if a.log, err = os.OpenFile(filepath.Join(a.dir, shim.LogFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	a.marks, err = os.OpenFile(filepath.Join(a.dir, shim.MarksFile), os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// closePipes is called with mu held.
func (a *attempt) closePipes() {
	for i, fd := range a.pipes {
		if fd >= 0 {
			unix.Close(fd)
			a.pipes[i] = -1
		}
	}
}

func (a *attempt) closeFiles() {
	for _, f := range []*os.File{a.log, a.marks} {
		if f != nil {
			f.Close()
		}
	}
}

// logEnd is the length of the log in bytes.
func (a *attempt) logEnd() int64 {
	if a.log == nil {
		return 0
	}
	info, err := a.log.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (a *attempt) setLink(l *link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link = l
}

// adoptFiles receives the descriptors that a shim sends to an agent that connected.
func (a *attempt) adoptFiles(files []int) {
	if len(files) < shim.MinAdopted {
		return
	}
	a.closePipes()
	a.pipes = [2]int{files[shim.AdoptedStdout], files[shim.AdoptedStderr]}
	memory, err := shim.MapShared(files[shim.AdoptedShared])
	unix.Close(files[shim.AdoptedShared])
	if err == nil {
		a.share(memory)
	}
	for _, fd := range files[shim.MinAdopted:] {
		if a.user == nil && a.spec.User != 0 {
			a.user = &user{id: a.spec.User, lock: os.NewFile(uintptr(fd), "user")}
			continue
		}
		unix.Close(fd)
	}
}

// share sets the memory that the attempt shares with its shim.
func (a *attempt) share(memory *shim.Shared) {
	a.shared.Unmap()
	if a.shared = memory; memory != nil {
		memory.Asked.Store(1)
		a.makeRoom()
	}
}

// makeRoom reports to the shim which bytes and marks are no longer needed. It is called with mu
// held.
func (a *attempt) makeRoom() {
	a.shared.Acked.Store(a.acked)
	a.shared.Marks.Store(a.hint)
	if a.shared.Short.CompareAndSwap(1, 0) && a.link != nil {
		_ = a.link.send(shim.Order{Room: true})
	}
}

// ask asks the shim to report when the log grows beyond end. It returns false if it already has.
func (a *attempt) ask(end int64) bool {
	if a.shared != nil {
		a.shared.Asked.Store(1)
	}
	return a.logEnd() <= end
}

// order sends the shim an order, if the shim is connected.
func (a *attempt) order(o shim.Order) {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	if l != nil {
		_ = l.send(o)
	}
}

// status is the status to report to the control plane. The end is reported once the control plane
// has the whole log.
func (a *attempt) status() agent.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.final != nil && a.acked >= a.final.LogEnd {
		return *a.final
	}
	s := agent.Status{State: agent.Starting, Held: a.held, LogEnd: a.logEnd()}
	if a.running {
		s.State = agent.Running
		s.StartedAt = new(a.proc.At)
	}
	return s
}

// due returns the version of the status to report, and marks the report as running. It returns
// false if there is nothing to report.
func (a *attempt) due() (version int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reporting || a.forgotten || a.version == a.reported {
		return 0, false
	}
	if a.final != nil && a.acked < a.final.LogEnd || a.final == nil && !a.running {
		return 0, false // the log comes first; the control plane knows that it was accepted
	}
	a.reporting = true
	return a.version, true
}

// reportDone ends a report. It reports whether another one is due.
func (a *attempt) reportDone(version int, ok bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reporting = false
	if ok {
		a.reported = max(a.reported, version)
	}
	return a.version != a.reported
}

// known records that Hello reported this version.
func (a *attempt) known(version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.final == nil {
		a.reported = max(a.reported, version)
	}
}

// current returns the version of its status, and whether the attempt is still wanted.
func (a *attempt) current() (version int, wanted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.version, !a.forgotten
}

// exited reports whether nothing of the attempt runs any more.
func (a *attempt) exited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.final != nil
}

func (a *attempt) setHint(hint int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hint = hint
}

// setAcked records which bytes the control plane has, and frees them on disk.
func (a *attempt) setAcked(next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if next < a.acked {
		a.hint = 0
	}
	a.acked = next
	a.findHint()
	if a.final != nil && next > a.final.LogEnd {
		// The machine crashed and lost the end of a log that it had already sent.
		a.final.LogEnd = next
	}
	a.free()
	if a.shared != nil {
		a.makeRoom()
	}
}

// findHint finds the mark of the first unsent byte if it is unknown. An agent that adopted the
// attempt must free the earlier marks even if it has nothing to send.
func (a *attempt) findHint() {
	if a.hint > 0 || a.acked == 0 || a.final != nil || a.marks == nil {
		return
	}
	if info, err := a.marks.Stat(); err != nil || info.Size() <= shim.MarkSize {
		return
	}
	marks := markReader{file: a.marks}
	if marks.search(a.acked) == nil {
		a.hint = marks.hint
	}
}

// free releases the disk space of sent bytes, in coarse steps. The last byte stays, because the
// line about a cut log depends on it.
func (a *attempt) free() {
	if a.log == nil || a.final != nil {
		return // soon to be removed as a whole
	}
	if to := (a.acked - 1) &^ (freeStep - 1); to >= a.punched+freeStep {
		if shim.Punch(int(a.log.Fd()), a.punched, to) == nil {
			a.punched = to
		}
	}
	if to := (a.hint * shim.MarkSize) &^ (freeMarks - 1); to >= a.marksPunched+freeMarks {
		if shim.Punch(int(a.marks.Fd()), a.marksPunched, to) == nil {
			a.marksPunched = to
		}
	}
}

const (
	freeStep  = 1 << 20
	freeMarks = 64 << 10
)

// findPunched finds the bytes that a previous agent freed.
func (a *attempt) findPunched() {
	at, err := unix.Seek(int(a.log.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		at, err = a.logEnd(), nil
	}
	if err == nil {
		a.punched = at &^ (freeStep - 1)
	}
}
