// Package shim is the process between an agent and the process of one attempt, and the protocol of
// the two. The shim starts the process, moves its output into the log, and reports to the agent. It
// outlives its agent, and the next agent on the same directory connects to it.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// agentSocket is the descriptor of a shim's connection to the agent that started it.
const agentSocket = 3

// Main is the main function of a shim. The shim owns its attempt's pipes, log and exit file. It
// waits on descriptor 3 for an attempt, and for the next one while the agent that started it is
// connected. Main returns the exit code.
func Main() int {
	runtime.GOMAXPROCS(1) // there is one loop; more threads would only wake each other
	stepBack(os.Getpid())
	keepFilesIn()
	wakes, err := watchSignals()
	if err != nil {
		fmt.Fprintln(os.Stderr, "millpond shim:", err)
		return 1
	}
	_ = os.Chdir("/")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "millpond shim: becoming a subreaper:", err)
		return 1
	}
	if err := unix.SetNonblock(agentSocket, true); err != nil {
		fmt.Fprintln(os.Stderr, "millpond shim: only millpond agent starts this command.")
		return 2
	}
	idle := rawReader(agentSocket)
	for {
		o, err := awaitStart(idle)
		if err != nil {
			return 0
		}
		s, err := newShim(o, idle, wakes)
		if err != nil {
			fmt.Fprintln(os.Stderr, "millpond shim:", err)
			return 1
		}
		again := s.run()
		s.close()
		if !again {
			return 0
		}
	}
}

// keepFilesIn sets close-on-exec on all inherited descriptors, so that the attempt's process does
// not get them.
func keepFilesIn() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// wakes passes signals to the loop: a descriptor to poll, and whether the shim got SIGTERM.
type wakes struct {
	event int
	term  chan os.Signal
}

func watchSignals() (*wakes, error) {
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("making an eventfd: %w", err)
	}
	w := &wakes{event: event, term: make(chan os.Signal, 1)}
	child, ignored := make(chan os.Signal, 1), make(chan os.Signal, 1)
	term := make(chan os.Signal, 1)
	// Caught rather than ignored: an ignored signal would stay ignored in the process of the
	// attempt.
	signal.Notify(ignored, syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	signal.Notify(child, syscall.SIGCHLD)
	signal.Notify(term, syscall.SIGTERM)
	go func() { // for the life of the process
		one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
		for {
			select {
			case <-ignored:
				continue
			case <-child:
			case s := <-term:
				w.term <- s
			}
			_, _ = unix.Write(event, one)
		}
	}()
	return w, nil
}

// awaitStart waits for an attempt. An error means that the agent has disconnected.
func awaitStart(r *LineReader) (*StartOrder, error) {
	for {
		var o Order
		found, err := r.Next(&o)
		if err != nil {
			return nil, err
		}
		if o.Start != nil && len(r.files) >= FileUserLock {
			return o.Start, nil
		}
		if found {
			continue // an order for an attempt that has ended
		}
		ready := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if err := r.Read(); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

// pipe is the read end of one of the process's outputs.
type pipe struct {
	fd     int
	stream agent.Stream
	open   bool // not at its end yet
	polled bool // in the epoll set
}

// shim runs one attempt. Everything runs in one loop on one thread.
type shim struct {
	dir      string
	spec     Spec
	agentDir agent.Directory // the agent's directory; the zero value if it is not watched
	gone     bool            // the agent's directory was removed or replaced
	spool    *spool
	wakes    *wakes
	poller   *poller
	timer    int // timerfd, CLOCK_BOOTTIME
	listener int
	userLock int // -1 without its own user
	memory   int // the descriptor of shared
	shared   *Shared
	pipes    [2]pipe

	link   *LineReader // to the agent; nil without an agent
	origin bool        // link is to the agent that started this shim
	out    []byte      // bytes that the socket has not accepted yet

	outPolled bool // the epoll set reports when the socket is writable

	proc   Started
	status agent.Status
	exited bool // the process
	alone  bool // no descendant is left

	held         string // why the process is blocked
	heldReported bool
	blocked      bool // the spool accepts no bytes at present
	killing      bool
	forceDrain   bool // the process has ended: the rest of the pipes is stored whatever the limit

	// Moments of CLOCK_BOOTTIME in ns; 0 means never.
	killAt, timeoutAt, graceAt, retryAt, heldAt, sweepAt, restAt, lookAt int64
	timerAt                                                              int64
	reportedAt                                                           int64 // when more log was last reported to the agent
}

func newShim(o *StartOrder, link *LineReader, w *wakes) (*shim, error) {
	s := &shim{dir: o.Dir, killAt: o.KillAt, reportedAt: BootNow(), link: link, origin: true, wakes: w, timer: -1, userLock: -1}
	files := link.TakeFiles()
	s.listener = files[FileListener]
	s.pipes = [2]pipe{
		{fd: files[FileStdoutRead], stream: agent.Stdout, open: true},
		{fd: files[FileStderrRead], stream: agent.Stderr, open: true},
	}
	if len(files) > FileUserLock {
		s.userLock = files[FileUserLock]
	}
	s.memory = files[FileShared]
	outputs := [2]int{files[FileStdoutWrite], files[FileStderrWrite]}
	defer unix.Close(outputs[0])
	defer unix.Close(outputs[1])

	b, err := os.ReadFile(filepath.Join(s.dir, SpecFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &s.spec); err != nil {
		return nil, fmt.Errorf("reading %s: %w", SpecFile, err)
	}
	if s.shared, err = MapShared(s.memory); err != nil {
		return nil, err
	}
	if s.spool, err = openSpool(s.dir, s.spec.LogLimit); err != nil {
		return nil, err
	}
	if err := s.watch(); err != nil {
		return nil, err
	}
	s.watchDirectory()
	s.launch(outputs)
	return s, nil
}

func (s *shim) watch() (err error) {
	if s.poller, err = newPoller(); err != nil {
		return err
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	for _, fd := range []int{s.timer, s.wakes.event, s.listener, s.link.fd} {
		if err := s.poller.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// lookEvery is the interval of checking that the agent's directory still exists.
const lookEvery = 2 * time.Second

// watchDirectory starts checking that the agent's directory exists.
func (s *shim) watchDirectory() {
	d, _, err := agent.FindDirectory(filepath.Dir(filepath.Dir(s.dir)), s.spec.Directory)
	if err != nil || s.spec.Directory == "" {
		return
	}
	d.ID = s.spec.Directory
	s.agentDir, s.lookAt = d, BootNow()+int64(lookEvery)
}

// agentDirExists reports whether the agent's directory exists.
func (s *shim) agentDirExists() bool { return s.agentDir.ID == "" || !s.gone && !s.agentDir.Gone() }

// look ends the attempt if the agent's directory was removed: nothing else could end it.
func (s *shim) look(now int64) {
	if s.gone = !s.agentDirExists(); !s.gone {
		s.lookAt = now + int64(lookEvery)
		return
	}
	s.killFor(agent.ReasonSupervisor, "The directory of its agent was removed or replaced, so its process was killed.")
}

func (s *shim) close() {
	s.poller.close()
	fds := []int{s.timer, s.listener, s.userLock, s.memory, s.pipes[0].fd, s.pipes[1].fd}
	if s.link != nil && !s.origin {
		fds = append(fds, s.link.fd)
	}
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	s.spool.close()
	s.shared.Unmap()
}
