package shim

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

// run is the loop. It reports whether the shim may run another attempt.
func (s *shim) run() bool {
	events := make([]unix.EpollEvent, 8)
	for !s.finish() {
		s.pollPipes()
		s.setTimer()
		n, err := s.poller.wait(events)
		if err != nil {
			panic(err) // only an invalid descriptor can cause this
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
		s.checkTimes(BootNow())
	}
}

func drain(fd int) {
	var b [8]byte
	_, _ = rawRead(fd, b[:])
}

// pump moves a pipe's bytes into the spool, at most some megabytes so that the other pipe is not
// delayed.
func (s *shim) pump(p *pipe) {
	moved := false
	for range 4 {
		room := s.room()
		if room <= 0 && !s.roomAfterAsking() {
			s.hold(fmt.Sprintf("more than %d bytes of its log are unsent", s.spec.SpoolLimit), 0)
			break
		}
		n, err := s.spool.move(p.fd, p.stream, max(room, 1))
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			s.hold(DiskTrouble(err), retryDisk)
			break
		}
		if n == 0 {
			p.open = false
			break
		}
		moved = true
		if n < spliceMost/16 {
			break // probably the pipe is empty; if not, the poll returns at once
		}
	}
	if moved {
		s.release()
		s.reportLog()
	}
}

const (
	retryDisk = 250 * time.Millisecond
	heldDelay = time.Second // a shorter block is not reported
)

// room is how many bytes the spool may still store. Marks count, because they need disk space too.
func (s *shim) room() int64 {
	if s.forceDrain || s.spec.SpoolLimit <= 0 {
		return spliceMost
	}
	return s.spec.SpoolLimit - (s.spool.end - s.shared.Acked.Load()) - MarkSize*(s.spool.count-s.shared.Marks.Load())
}

// roomAfterAsking asks the agent to report when there is room, and checks again for room made in
// between.
func (s *shim) roomAfterAsking() bool {
	s.shared.Short.Store(1)
	return s.room() > 0
}

// hold stops reading the pipes, which eventually blocks the process. Reading is retried after retry
// if that is not 0, else when the agent makes room in the spool.
func (s *shim) hold(why string, retry time.Duration) {
	now := BootNow()
	if s.held == "" {
		s.heldAt = now + int64(heldDelay)
	} else if s.held != why && s.heldReported {
		s.heldReported, s.heldAt = false, now
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
	if s.heldReported {
		s.heldReported = false
		s.sendReport(Report{Held: new(string)})
	}
}

// pollPipes adds the pipes to the epoll set or removes them: a blocked pipe would wake the loop all
// the time.
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

// setTimer arms the timer for the next due time.
func (s *shim) setTimer() {
	var next int64
	for _, at := range []int64{s.killAt, s.timeoutAt, s.graceAt, s.retryAt, s.heldAt, s.sweepAt, s.restAt, s.lookAt} {
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
	if due(&s.lookAt, now) {
		s.look(now)
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
		s.heldReported = true
		s.sendReport(Report{Held: &s.held})
	}
}

func due(at *int64, now int64) bool {
	if *at == 0 || *at > now {
		return false
	}
	*at = 0
	return true
}
