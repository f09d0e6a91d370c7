package worker

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// adopt takes the connection of an agent. A later agent takes the place of an earlier one.
func (s *shim) adopt() {
	fd, _, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return
	}
	s.unlink()
	if err := s.poll(fd, unix.EPOLLIN); err != nil {
		unix.Close(fd)
		return
	}
	s.link, s.origin = rawReader(fd), false
	rights := unix.UnixRights(s.pipes[0].fd, s.pipes[1].fd)
	if s.userLock >= 0 {
		rights = unix.UnixRights(s.pipes[0].fd, s.pipes[1].fd, s.userLock)
	}
	hello := report{Adopted: true, Started: &s.proc}
	if s.held != "" {
		hello.Held = &s.held
	}
	line := encodeLine(hello)
	if n, err := unix.SendmsgN(fd, line, rights, nil, unix.MSG_NOSIGNAL); err != nil || n != len(line) {
		s.unlink()
		return
	}
	s.tellLog()
}

// unlink forgets the agent's connection: the attempt goes on, and an agent may connect again.
func (s *shim) unlink() {
	if s.link == nil {
		return
	}
	_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, s.link.fd, nil)
	unix.Close(s.link.fd)
	s.link, s.origin, s.out, s.told, s.heldTold = nil, false, nil, false, false
}

func (s *shim) handleLink(events uint32) {
	if events&unix.EPOLLOUT != 0 {
		s.flush()
	}
	if s.link == nil || events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return
	}
	err := s.link.read()
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		s.unlink()
		return
	}
	for s.link != nil {
		var o order
		found, err := s.link.next(&o)
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

func (s *shim) obey(o order) {
	if o.Ack != nil {
		s.acknowledge(*o.Ack)
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

func (s *shim) acknowledge(a ackOrder) {
	s.ackedLog, s.ackedMarks = a.Log, a.Marks
	s.told = false
	if s.spool.end > a.Log {
		s.tellLog()
	}
	if s.blocked && s.retryAt == 0 && s.room() > 0 {
		s.blocked = false
	}
}

// tellLog wakes the agent once; the next wake waits for its ack, so a fast writer does not flood it.
func (s *shim) tellLog() {
	if s.told || s.link == nil || s.spool.end == s.ackedLog {
		return
	}
	s.told = true
	s.tell(report{Log: true})
}

func (s *shim) tell(r report) {
	if s.link == nil {
		return
	}
	s.out = append(s.out, encodeLine(r)...)
	s.flush()
}

// flush writes without blocking: an agent that is stopped must not stop its attempts.
func (s *shim) flush() {
	for s.link != nil && len(s.out) > 0 {
		n, err := unix.SendmsgN(s.link.fd, s.out, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
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
	if s.link == nil {
		return
	}
	events := uint32(unix.EPOLLIN)
	if len(s.out) > 0 {
		events |= unix.EPOLLOUT
	}
	_ = unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, s.link.fd, &unix.EpollEvent{Events: events, Fd: int32(s.link.fd)})
}

// flushLast gives a slow agent a moment to take the last line; the exit file has it anyhow.
func (s *shim) flushLast() {
	for until := time.Now().Add(time.Second); s.link != nil && len(s.out) > 0 && time.Now().Before(until); s.flush() {
		ready := []unix.PollFd{{Fd: int32(s.link.fd), Events: unix.POLLOUT}}
		_, _ = unix.Poll(ready, 100)
	}
	if len(s.out) > 0 {
		s.unlink()
	}
}
