package shim

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

// An agent and a shim exchange JSON lines over a Unix socket. Both ignore unknown fields, because
// an upgraded agent adopts the shims of the previous one.

// Order is one line from the agent to a shim.
type Order struct {
	Start  *StartOrder  `json:"start,omitempty"` // with descriptors, see FileListener
	Room   bool         `json:"room,omitempty"`  // the spool has room again
	Cancel *CancelOrder `json:"cancel,omitempty"`
	Kill   bool         `json:"kill,omitempty"`    // kill at once; the attempt is no longer wanted
	KillAt int64        `json:"kill_at,omitempty"` // CLOCK_BOOTTIME ns at which the lease counts as lost
}

// StartOrder assigns an attempt to an idle shim.
type StartOrder struct {
	Dir    string `json:"dir"`               // the attempt's directory
	KillAt int64  `json:"kill_at,omitempty"` // as in Order
}

// The descriptors that go with a StartOrder. The last one is present if the attempt has its own
// user. The shim only keeps it open until the attempt's end.
const (
	FileListener    = iota // the socket on which a later agent connects
	FileStdoutRead         // the pipe of the process's output: its read end …
	FileStdoutWrite        // … and its write end
	FileStderrRead
	FileStderrWrite
	FileShared   // the memory of Shared
	FileUserLock // locks the attempt's user
	MaxFiles     // how many there are at most
)

// The descriptors that go with the first report to an agent that connected: the read ends, the
// memory, the user's lock.
const (
	AdoptedStdout = iota
	AdoptedStderr
	AdoptedShared
	adoptedUserLock
	MinAdopted = adoptedUserLock // how many there are at least
)

// CancelOrder asks the process to end.
type CancelOrder struct {
	Grace time.Duration `json:"grace"` // between SIGTERM and SIGKILL
}

// Report is one line from a shim to the agent.
type Report struct {
	Adopted bool          `json:"adopted,omitempty"` // the first line to an agent that connected; with descriptors, see AdoptedStdout
	Started *Started      `json:"started,omitempty"`
	Log     bool          `json:"log,omitempty"`  // there is more log; sent once when Shared.Asked is set
	Held    *string       `json:"held,omitempty"` // why the process is blocked, "" once it is not
	Exited  *agent.Status `json:"exited,omitempty"`
}

// Started is the process of an attempt. The shim writes it with Pid 0 to the attempt's directory
// before it starts the process, so that an attempt without it never ran.
type Started struct {
	Pid int       `json:"pid"`
	At  time.Time `json:"at"`
}

// Spec is the stored description of an attempt, in the attempt's directory.
type Spec struct {
	agent.Attempt          // without Files, which are in the working directory, and Env, which is in Environ
	Directory     string   `json:"directory"`              // id of the agent's directory that it was created in; empty if an earlier version created it
	Environ       []string `json:"environ"`                // the process's whole environment
	User          uint32   `json:"user,omitempty"`         // the uid and gid of its processes; 0 means the agent's own
	Groups        []uint32 `json:"groups,omitempty"`       // supplementary groups of its processes, if they have their own user
	SpoolLimit    int64    `json:"spool_limit"`            // bytes of unsent log before the process is blocked; 0 means no limit
	Cgroup        string   `json:"cgroup,omitempty"`       // directory of its control group, if any
	PrivateDirs   []string `json:"private_dirs,omitempty"` // directories that are private to its processes
}

// The files and directories of an attempt's directory.
const (
	SpecFile    = "spec.json"    // Spec; the agent writes it
	StartedFile = "started.json" // Started
	ExitFile    = "exit.json"    // agent.Status, once nothing of the attempt runs
	LogFile     = "log"          // what the process has written, up to its limit
	MarksFile   = "marks"        // records of Mark, in the order of the log
	SocketFile  = "sock"         // on which a later agent connects to the shim
	WorkDir     = "work"         // the process's working directory
	TempDir     = ".tmp"         // in WorkDir; for temporary files
)

// maxLine bounds one line of either direction.
const maxLine = 64 << 10

// LineReader splits a socket's input into lines and collects the descriptors that come with them.
type LineReader struct {
	recv  func(p, oob []byte) (n, oobn int, err error)
	fd    int // set in the shim only, whose loop never blocks in a read
	buf   []byte
	files []int

	chunk, oob []byte
}

// NewLineReader returns a reader of a socket. recv receives bytes and control messages into p and
// oob, and returns the number of bytes of each; 0 bytes mean that the peer has closed.
func NewLineReader(recv func(p, oob []byte) (n, oobn int, err error)) *LineReader {
	return &LineReader{recv: recv}
}

// Read reads available bytes. It returns io.EOF if the peer has closed, and otherwise the error of
// the socket.
func (r *LineReader) Read() error {
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

func (r *LineReader) room() {
	if r.chunk == nil {
		r.chunk, r.oob = make([]byte, 4096), make([]byte, unix.CmsgSpace(4*MaxFiles))
	}
}

func (r *LineReader) add(p []byte) error {
	if r.buf = append(r.buf, p...); len(r.buf) > maxLine {
		return errors.New("a line on the control socket is too long")
	}
	return nil
}

// Next decodes the next complete line into v. It returns false if there is none, and an error if
// the line is not the JSON of v.
func (r *LineReader) Next(v any) (bool, error) {
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

// TakeFiles returns the descriptors that were received since its last call. The caller closes them.
func (r *LineReader) TakeFiles() []int {
	files := r.files
	r.files = nil
	return files
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

// EncodeLine returns the line of an Order or a Report.
func EncodeLine(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // every message is plain data
	}
	return append(b, '\n')
}

// BootNow is CLOCK_BOOTTIME in nanoseconds. It advances while the machine sleeps, and cannot be
// set.
func BootNow() int64 {
	var ts unix.Timespec
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0) // every Linux since 2.6.39 has it
	return ts.Nano()
}
