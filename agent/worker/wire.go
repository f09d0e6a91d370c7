package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// An agent and a shim speak JSON lines over a Unix socket. Both ignore fields they do not know, since an agent that was
// upgraded adopts the shims of the one before.

// order is one line from the agent to a shim.
type order struct {
	Start  *startOrder  `json:"start,omitempty"` // with descriptors, see fileListener
	Room   bool         `json:"room,omitempty"`  // the spool takes more again
	Cancel *cancelOrder `json:"cancel,omitempty"`
	Kill   bool         `json:"kill,omitempty"`    // at once; nothing of the attempt is wanted
	KillAt int64        `json:"kill_at,omitempty"` // CLOCK_BOOTTIME ns at which the lease counts as lost
}

// startOrder tells an idle shim which attempt is its own.
type startOrder struct {
	Dir    string `json:"dir"`
	KillAt int64  `json:"kill_at,omitempty"`
}

// The descriptors that go with a startOrder. The last one is there when the attempt has a user of its own; it is held
// until the attempt's end and not looked at.
const (
	fileListener = iota
	fileStdoutRead
	fileStdoutWrite
	fileStderrRead
	fileStderrWrite
	fileShared
	fileUserLock
	maxFiles
)

// The descriptors that go with the first report to an agent that connected: the read ends, the memory, the user's lock.
const (
	adoptedStdout = iota
	adoptedStderr
	adoptedShared
	adoptedUserLock
	minAdopted = adoptedUserLock
)

type cancelOrder struct {
	Grace time.Duration `json:"grace"`
}

// report is one line from a shim to the agent.
type report struct {
	Adopted bool          `json:"adopted,omitempty"` // the first line to an agent that connected; with descriptors, see adoptedStdout
	Started *started      `json:"started,omitempty"`
	Log     bool          `json:"log,omitempty"`  // there is more log; said once when shared.asked is set
	Held    *string       `json:"held,omitempty"` // why the process is held back, "" once it is not
	Exited  *agent.Status `json:"exited,omitempty"`
}

// started is the process of an attempt. The shim writes it to the attempt's directory before there is a process, with
// Pid 0, so that an attempt without it never ran.
type started struct {
	Pid int       `json:"pid"`
	At  time.Time `json:"at"`
}

// spec is what an attempt's directory keeps of it.
type spec struct {
	agent.Attempt          // without Files, which are in the working directory, and Env, which is in Environ
	Environ       []string `json:"environ"`          // the process's whole environment
	User          uint32   `json:"user,omitempty"`   // the uid and gid of its processes; 0 means the agent's own
	Groups        []uint32 `json:"groups,omitempty"` // all that its processes have beside the gid, where they have a user of their own
	SpoolLimit    int64    `json:"spool_limit"`
	Cgroup        string   `json:"cgroup,omitempty"`       // directory of its control group, where there is one
	PrivateDirs   []string `json:"private_dirs,omitempty"` // where its processes do not see what others do
}

// The files of an attempt's directory.
const (
	specFile    = "spec.json"
	startedFile = "started.json"
	exitFile    = "exit.json"
	logFile     = "log"
	marksFile   = "marks"
	socketFile  = "sock"
	workDir     = "work"
	tempDir     = ".tmp" // in workDir
)

// maxLine bounds one line of either direction.
const maxLine = 64 << 10

// lineReader cuts what arrives on a socket into lines and collects the descriptors that come along.
type lineReader struct {
	recv  func(p, oob []byte) (n, oobn int, err error)
	fd    int // the shim's, whose loop never blocks in a read
	buf   []byte
	files []int

	chunk, oob []byte
}

// read takes what there is; io.EOF when the peer is gone.
func (r *lineReader) read() error {
	r.room()
	n, oobn, err := r.recv(r.chunk, r.oob)
	if err != nil {
		return err
	}
	files, err := parseRights(r.oob[:oobn])
	if err != nil {
		return err
	}
	r.files = append(r.files, files...)
	if n == 0 {
		return io.EOF
	}
	return r.add(r.chunk[:n])
}

func (r *lineReader) room() {
	if r.chunk == nil {
		r.chunk, r.oob = make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxFiles))
	}
}

func (r *lineReader) add(p []byte) error {
	if r.buf = append(r.buf, p...); len(r.buf) > maxLine {
		return errors.New("a line on the control socket is too long")
	}
	return nil
}

// next decodes the next complete line into v.
func (r *lineReader) next(v any) (bool, error) {
	i := bytes.IndexByte(r.buf, '\n')
	if i < 0 {
		return false, nil
	}
	err := json.Unmarshal(r.buf[:i], v)
	r.buf = append(r.buf[:0], r.buf[i+1:]...)
	if err != nil {
		return false, fmt.Errorf("a line on the control socket: %w", err)
	}
	return true, nil
}

func parseRights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []int
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		files = append(files, fds...)
	}
	return files, nil
}

func encodeLine(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // every message is plain data
	}
	return append(b, '\n')
}

// bootNow is CLOCK_BOOTTIME in nanoseconds: it goes on while the machine sleeps and nobody can set it.
func bootNow() int64 {
	var ts unix.Timespec
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0) // every Linux since 2.6.39 has it
	return ts.Nano()
}
