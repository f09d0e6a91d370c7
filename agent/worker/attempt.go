package worker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// startingRetries is how often an attempt gets another shim when its shim died before there was a process.
const startingRetries = 3

// attempt is one attempt this agent holds, from its acceptance until the control plane forgets it.
type attempt struct {
	id   string
	dir  string
	spec spec
	user *user // nil when its processes run as the agent's own user

	log, marks *os.File
	mu         sync.Mutex
	// The read ends of its pipes. The shim empties them; they are held here so that what is in them outlives the shim.
	pipes     [2]int
	shared    *shared // with the shim; nil while there is none
	link      *link   // to its shim; nil when it has ended
	retries   int
	proc      started
	running   bool // its process exists, or existed
	held      string
	final     *agent.Status // set when it has ended
	forgotten bool          // nothing of it is wanted any more
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

func newAttempt(dir string, s spec) *attempt {
	return &attempt{id: s.ID, dir: dir, spec: s, pipes: [2]int{-1, -1}, version: 1}
}

// openLog opens what the shim writes, for reading and for freeing what was sent.
func (a *attempt) openLog() (err error) {
	if a.log, err = os.OpenFile(filepath.Join(a.dir, logFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	a.marks, err = os.OpenFile(filepath.Join(a.dir, marksFile), os.O_RDWR|os.O_CREATE, 0o600)
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

// logEnd is how many bytes of log there are.
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

// adoptFiles takes what a shim gives to an agent that connected.
func (a *attempt) adoptFiles(files []int) {
	if len(files) < minAdopted {
		return
	}
	a.closePipes()
	a.pipes = [2]int{files[adoptedStdout], files[adoptedStderr]}
	memory, err := mapShared(files[adoptedShared])
	unix.Close(files[adoptedShared])
	if err == nil {
		a.share(memory)
	}
	for _, fd := range files[minAdopted:] {
		if a.user == nil && a.spec.User != 0 {
			a.user = &user{id: a.spec.User, lock: os.NewFile(uintptr(fd), "user")}
			continue
		}
		unix.Close(fd)
	}
}

// share makes memory what the attempt has in common with its shim.
func (a *attempt) share(memory *shared) {
	a.shared.unmap()
	if a.shared = memory; memory != nil {
		memory.asked.Store(1)
		a.makeRoom()
	}
}

// makeRoom tells the shim what is needed no more. It is called with mu held.
func (a *attempt) makeRoom() {
	a.shared.acked.Store(a.acked)
	a.shared.marks.Store(a.hint)
	if a.shared.short.CompareAndSwap(1, 0) && a.link != nil {
		_ = a.link.send(order{Room: true})
	}
}

// ask asks the shim to say when the log goes beyond end; false when it has already done so.
func (a *attempt) ask(end int64) bool {
	if a.shared != nil {
		a.shared.asked.Store(1)
	}
	return a.logEnd() <= end
}

// order sends the shim an order, if there still is one.
func (a *attempt) order(o order) {
	a.mu.Lock()
	l := a.link
	a.mu.Unlock()
	if l != nil {
		_ = l.send(o)
	}
}

// status is what the control plane should know at present. An end is told when it has all of the log.
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

// due answers the status to be reported, if there is one, and takes the right to report it.
func (a *attempt) due() (version int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reporting || a.forgotten || a.version == a.reported {
		return 0, false
	}
	if a.final != nil && a.acked < a.final.LogEnd || a.final == nil && !a.running {
		return 0, false // the log comes first; that it was accepted is known
	}
	a.reporting = true
	return a.version, true
}

// told ends a report. It answers whether there is another one to make.
func (a *attempt) told(version int, ok bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reporting = false
	if ok {
		a.reported = max(a.reported, version)
	}
	return a.version != a.reported
}

// known notes that the control plane was told everything by Hello.
func (a *attempt) known(version int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.final == nil {
		a.reported = max(a.reported, version)
	}
}

// current answers the version of its status, and whether anything of it is still wanted.
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

// setAcked notes what the control plane has, and frees it on the disk.
func (a *attempt) setAcked(next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if next < a.acked {
		a.hint = 0
	}
	a.acked = next
	a.findHint()
	if a.final != nil && next > a.final.LogEnd {
		// A machine that went down took with it the end of a log that had been sent already.
		a.final.LogEnd = next
	}
	a.free()
	if a.shared != nil {
		a.makeRoom()
	}
}

// findHint finds the mark of the first byte that is still to be sent, where it is not known: an agent that has adopted the attempt must free the marks
// before it, also when it has nothing to send.
func (a *attempt) findHint() {
	if a.hint > 0 || a.acked == 0 || a.final != nil || a.marks == nil {
		return
	}
	if info, err := a.marks.Stat(); err != nil || info.Size() <= markSize {
		return
	}
	marks := markReader{file: a.marks}
	if marks.search(a.acked) == nil {
		a.hint = marks.hint
	}
}

// free gives back the disk under what was sent, in coarse steps. The last byte stays, since the line about a cut log
// depends on it.
func (a *attempt) free() {
	if a.log == nil || a.final != nil {
		return // soon to be removed as a whole
	}
	if to := (a.acked - 1) &^ (freeStep - 1); to >= a.punched+freeStep {
		if punch(int(a.log.Fd()), a.punched, to) == nil {
			a.punched = to
		}
	}
	if to := (a.hint * markSize) &^ (freeMarks - 1); to >= a.marksPunched+freeMarks {
		if punch(int(a.marks.Fd()), a.marksPunched, to) == nil {
			a.marksPunched = to
		}
	}
}

const (
	freeStep  = 1 << 20
	freeMarks = 64 << 10
)

// findPunched finds what an agent before this one freed.
func (a *attempt) findPunched() {
	at, err := unix.Seek(int(a.log.Fd()), 0, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		at, err = a.logEnd(), nil
	}
	if err == nil {
		a.punched = at &^ (freeStep - 1)
	}
}
