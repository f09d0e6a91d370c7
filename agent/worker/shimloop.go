package worker

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// run is the loop. It reports whether the shim may take another attempt.
func (s *shim) run() bool {
	events := make([]unix.EpollEvent, 8)
	for !s.finish() {
		s.pollPipes()
		s.setTimer()
		n, err := s.poller.wait(events)
		if err != nil {
			panic(err) // only a descriptor that is none can do this
		}
		for _, e := range events[:n] {
			s.handle(int(e.Fd), e.Events)
		}
	}
	return s.origin && s.link != nil
}

func (s *shim) handle(fd int, events uint32) {
	switch {
	case fd == s.pipes[0].fd:
		s.pump(&s.pipes[0])
	case fd == s.pipes[1].fd:
		s.pump(&s.pipes[1])
	case fd == s.wakes.event:
		s.handleSignals()
	case fd == s.listener:
		s.adopt()
	case s.link != nil && fd == s.link.fd:
		s.handleLink(events)
	case fd == s.timer:
		s.timerAt = 0
		drain(s.timer)
		s.checkTimes(bootNow())
	}
}

func drain(fd int) {
	var b [8]byte
	_, _ = rawRead(fd, b[:])
}

// pump moves what a pipe has, up to some megabytes so that the other one has its turn.
func (s *shim) pump(p *pipe) {
	moved := false
	for range 4 {
		room := s.room()
		if room <= 0 && !s.roomAfterAsking() {
			s.hold(fmt.Sprintf("more than %d bytes of its log wait to be sent", s.spec.SpoolLimit), 0)
			break
		}
		n, err := s.spool.move(p.fd, p.stream, max(room, 1))
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			s.hold(diskTrouble(err), retryDisk)
			break
		}
		if n == 0 {
			p.open = false
			break
		}
		moved = true
		if n < spliceMost/16 {
			break // most likely all there was; if not, the poll says so at once
		}
	}
	if moved {
		s.release()
		s.tellLog()
	}
}

const (
	retryDisk = 250 * time.Millisecond
	tellHeld  = time.Second // a process that is held for less is not worth a message
)

// room is how many bytes the spool may still take. Marks count, since they need disk as well.
func (s *shim) room() int64 {
	if s.forceDrain || s.spec.SpoolLimit <= 0 {
		return spliceMost
	}
	return s.spec.SpoolLimit - (s.spool.end - s.shared.acked.Load()) - markSize*(s.spool.count-s.shared.marks.Load())
}

// roomAfterAsking asks the agent to say when there is room, and looks again in case it was made in between.
func (s *shim) roomAfterAsking() bool {
	s.shared.short.Store(1)
	return s.room() > 0
}

func diskTrouble(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return "the disk is full"
	}
	return fmt.Sprintf("its log cannot be written (%v)", err)
}

// hold leaves bytes in the pipe, which in the end blocks the process. It is tried again after retry, or when the agent
// has taken more of the log.
func (s *shim) hold(why string, retry time.Duration) {
	now := bootNow()
	if s.held == "" {
		s.heldAt = now + int64(tellHeld)
	} else if s.held != why && s.heldTold {
		s.heldTold, s.heldAt = false, now
	}
	s.held, s.blocked = why, true
	s.retryAt = 0
	if retry > 0 {
		s.retryAt = now + int64(retry)
	}
}

func (s *shim) release() {
	if s.held == "" {
		return
	}
	s.held, s.heldAt, s.retryAt, s.blocked = "", 0, 0, false
	if s.heldTold {
		s.heldTold = false
		s.tell(report{Held: new(string)})
	}
}

// pollPipes puts the pipes into the epoll set or takes them out: a pipe that is held back would wake the loop for ever.
func (s *shim) pollPipes() {
	for i := range s.pipes {
		p := &s.pipes[i]
		want := p.open && !s.blocked && s.restAt == 0
		if want == p.polled {
			continue
		}
		p.polled = want
		op := unix.EPOLL_CTL_DEL
		if want {
			op = unix.EPOLL_CTL_ADD
		}
		_ = s.poller.control(op, p.fd, unix.EPOLLIN)
	}
}

// setTimer arms the timer for the next moment at which something is due.
func (s *shim) setTimer() {
	var next int64
	for _, at := range []int64{s.killAt, s.timeoutAt, s.graceAt, s.retryAt, s.heldAt, s.sweepAt, s.restAt} {
		if at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	if next == s.timerAt {
		return
	}
	s.timerAt = next
	rawArm(s.timer, next)
}

func (s *shim) checkTimes(now int64) {
	if due(&s.killAt, now) {
		s.killFor(agent.ReasonLease, "The agent lost its connection to the control plane for longer than its lease.")
	}
	if due(&s.timeoutAt, now) {
		s.terminate(agent.ReasonTimeout, time.Duration(s.spec.GraceSeconds)*time.Second)
	}
	if due(&s.graceAt, now) || due(&s.sweepAt, now) {
		s.killAll()
	}
	due(&s.restAt, now)
	if due(&s.retryAt, now) {
		s.blocked = false
	}
	if due(&s.heldAt, now) && s.held != "" {
		s.heldTold = true
		s.tell(report{Held: &s.held})
	}
}

func due(at *int64, now int64) bool {
	if *at == 0 || *at > now {
		return false
	}
	*at = 0
	return true
}
