package worker

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

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// agentSocket is the descriptor on which a shim finds the agent that started it.
const agentSocket = 3

// ShimMain is the body of the shim: the process between an agent and the process of one attempt. It owns the attempt's
// pipes, log and exit file, and outlives its agent. It waits on descriptor 3 for its attempt, and for another one after
// that while the agent that started it is there. The result is the exit code.
func ShimMain() int {
	runtime.GOMAXPROCS(1) // there is one loop; more would only wake each other
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
		fmt.Fprintln(os.Stderr, "millpond shim: is started by millpond agent, never by hand.")
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

// keepFilesIn sees to it that no process inherits a file that this one inherited by somebody's carelessness.
func keepFilesIn() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// wakes carries signals into the loop: a descriptor to poll, and whether the shim was asked to end.
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
	// Caught rather than ignored: an ignored signal would stay ignored in the process of the attempt.
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

// awaitStart waits for an attempt; an error means that the agent is gone.
func awaitStart(r *lineReader) (*startOrder, error) {
	for {
		var o order
		found, err := r.next(&o)
		if err != nil {
			return nil, err
		}
		if o.Start != nil && len(r.files) >= fileUserLock {
			return o.Start, nil
		}
		if found {
			continue // about an attempt that ended in the meantime
		}
		ready := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if err := r.read(); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}

// pipe is the read end of one of the process's outputs.
type pipe struct {
	fd     int
	stream agent.Stream
	open   bool // not yet at its end
	polled bool // in the epoll set
}

// shim runs one attempt. Everything happens in one loop on one thread.
type shim struct {
	dir      string
	spec     spec
	spool    *spool
	wakes    *wakes
	poller   *poller
	timer    int // timerfd, CLOCK_BOOTTIME
	listener int
	userLock int // -1 without a user of its own
	memory   int // the descriptor of shared
	shared   *shared
	pipes    [2]pipe

	link   *lineReader // to the agent; nil while there is none
	origin bool        // link is the agent that started this shim
	out    []byte      // what the socket did not take yet

	outPolled bool // the epoll set tells when the socket takes more

	proc   started
	status agent.Status
	exited bool // the process
	alone  bool // no descendant is left

	held       string // why the process is held back
	heldTold   bool
	blocked    bool // the spool does not take bytes at present
	killing    bool
	forceDrain bool // the process is gone: what is in the pipes is kept whatever the limit

	// Moments of CLOCK_BOOTTIME in ns; 0 means never.
	killAt, timeoutAt, graceAt, retryAt, heldAt, sweepAt, restAt int64
	timerAt                                                      int64
	toldAt                                                       int64 // when the agent was last told of more log
}

func newShim(o *startOrder, link *lineReader, w *wakes) (*shim, error) {
	s := &shim{dir: o.Dir, killAt: o.KillAt, toldAt: bootNow(), link: link, origin: true, wakes: w, timer: -1, userLock: -1}
	files := link.files
	link.files = nil
	s.listener = files[fileListener]
	s.pipes = [2]pipe{
		{fd: files[fileStdoutRead], stream: agent.Stdout, open: true},
		{fd: files[fileStderrRead], stream: agent.Stderr, open: true},
	}
	if len(files) > fileUserLock {
		s.userLock = files[fileUserLock]
	}
	s.memory = files[fileShared]
	outputs := [2]int{files[fileStdoutWrite], files[fileStderrWrite]}
	defer unix.Close(outputs[0])
	defer unix.Close(outputs[1])

	b, err := os.ReadFile(filepath.Join(s.dir, specFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &s.spec); err != nil {
		return nil, fmt.Errorf("reading %s: %w", specFile, err)
	}
	if s.shared, err = mapShared(s.memory); err != nil {
		return nil, err
	}
	if s.spool, err = openSpool(s.dir, s.spec.LogLimit); err != nil {
		return nil, err
	}
	if err := s.watch(); err != nil {
		return nil, err
	}
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
	s.shared.unmap()
}
