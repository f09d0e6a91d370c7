package shim

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// adopt accepts the connection of an agent. A later agent replaces an earlier one.
func (s *shim) adopt() {
	fd, _, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return
	}
	s.unlink()
	if err := s.poller.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN); err != nil {
		unix.Close(fd)
		return
	}
	s.link, s.origin, s.reportedAt = rawReader(fd), false, BootNow()
	files := []int{s.pipes[0].fd, s.pipes[1].fd, s.memory}
	if s.userLock >= 0 {
		files = append(files, s.userLock)
	}
	rights := unix.UnixRights(files...)
	hello := Report{Adopted: true, Started: &s.proc}
	if s.held != "" {
		hello.Held = &s.held
	}
	line := EncodeLine(hello)
	if n, err := unix.SendmsgN(fd, line, rights, nil, unix.MSG_NOSIGNAL); err != nil || n != len(line) {
		s.unlink()
	}
}

// unlink closes the agent's connection. The attempt continues, and an agent may connect again.
func (s *shim) unlink() {
	if s.link == nil {
		return
	}
	_ = s.poller.control(unix.EPOLL_CTL_DEL, s.link.fd, 0)
	unix.Close(s.link.fd)
	s.link, s.origin, s.out, s.outPolled, s.heldReported = nil, false, nil, false, false
}

func (s *shim) handleLink(events uint32) {
	if events&unix.EPOLLOUT != 0 {
		s.flush()
	}
	if s.link == nil || events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	err := s.link.readPlain()
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		s.unlink()
		return
	}
	for s.link != nil {
		var o Order
		found, err := s.link.Next(&o)
		if err != nil {
			s.unlink()
			return
		}
		if !found {
			return
		}
		s.obey(o)
	}
}

func (s *shim) obey(o Order) {
	if o.Room && s.blocked && s.retryAt == 0 {
		s.blocked = false
	}
	if o.KillAt != 0 {
		s.killAt = o.KillAt
	}
	if o.Cancel != nil {
		s.terminate(cancelled, o.Cancel.Grace)
	}
	if o.Kill {
		s.killFor(cancelled, "")
	}
}

// reportLog reports more log if the agent asked for it, so that a fast writer does not flood the
// agent.
func (s *shim) reportLog() {
	if s.link == nil {
		return
	}
	if s.shared.Asked.CompareAndSwap(1, 0) {
		s.out = append(s.out, logLine...)
		s.reportedAt = BootNow()
		s.flush()
		return
	}
	s.rest()
}

// rest pauses reading the pipes if the agent has not asked for log for longAway. The pause is as
// long as the agent was away. On a busy machine, a shim that wakes for every line takes the CPU
// time that the agent needs.
func (s *shim) rest() {
	now := BootNow()
	if away := now - s.reportedAt; away > int64(longAway) {
		s.restAt = now + min(away, int64(longestRest))
	}
}

const (
	longAway    = 20 * time.Millisecond
	longestRest = 100 * time.Millisecond
)

const logLine = `{"log":true}` + "\n"

func (s *shim) sendReport(r Report) {
	if s.link == nil {
		return
	}
	s.out = append(s.out, EncodeLine(r)...)
	s.flush()
}

// flush writes without blocking: a stopped agent must not block its attempts.
func (s *shim) flush() {
	for s.link != nil && len(s.out) > 0 {
		n, err := rawSend(s.link.fd, s.out)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			s.unlink()
			return
		}
		s.out = s.out[n:]
	}
	if waits := len(s.out) > 0; s.link != nil && waits != s.outPolled {
		s.pollOut(waits)
	}
}

func (s *shim) pollOut(on bool) {
	s.outPolled = on
	events := uint32(unix.EPOLLIN)
	if on {
		events |= unix.EPOLLOUT
	}
	_ = s.poller.control(unix.EPOLL_CTL_MOD, s.link.fd, events)
}

// flushLast waits up to a second for a slow agent to read the last line. The exit file has it in
// any case.
func (s *shim) flushLast() {
	for until := time.Now().Add(time.Second); s.link != nil && len(s.out) > 0 && time.Now().Before(until); s.flush() {
		ready := []unix.PollFd{{Fd: int32(s.link.fd), Events: unix.POLLOUT}}
		_, _ = unix.Poll(ready, 100)
	}
	if len(s.out) > 0 {
		s.unlink()
	}
}
