package shim

import (
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A shim wakes for every line of its process, so the cost of a wake counts for every line of every
// attempt. Ordinary system calls notify Go's scheduler. That wakes its monitor thread after each
// idle time and costs more than the call. The shim's loop therefore waits in Go's own poller. The
// calls of its hot path never block, so it makes them as raw system calls.

func rawSplice(from, to int, at *int64, most int64) (int64, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), uintptr(unsafe.Pointer(at)), uintptr(most), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
	if e != 0 {
		return 0, e
	}
	return int64(n), nil
}

func rawPwrite(fd int, p []byte, at int64) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(at), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func rawSend(fd int, p []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func rawRecv(fd int, p []byte) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func rawRead(fd int, p []byte) (int, error) {
	n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// rawArm sets a timerfd to a moment of its clock.
func rawArm(timer int, at int64) {
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(at)}
	_, _, _ = syscall.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(timer), unix.TFD_TIMER_ABSTIME, uintptr(unsafe.Pointer(&value)), 0, 0, 0)
}

// poller is an epoll set. A goroutine waits for it in Go's poller.
type poller struct {
	fd   int
	file *os.File // owns fd
	conn syscall.RawConn
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.NewFile polls it
		unix.Close(fd)
		return nil, err
	}
	p := &poller{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	if p.conn, err = p.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

func (p *poller) close() { p.file.Close() }

func (p *poller) control(op, fd int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if _, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0); e != 0 {
		return e
	}
	return nil
}

// wait waits for events.
func (p *poller) wait(events []unix.EpollEvent) (n int, err error) {
	var failed error
	err = p.conn.Read(func(uintptr) bool {
		r, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), 0, 0, 0)
		if e != 0 && e != unix.EINTR {
			failed = e
			return true
		}
		n = int(r)
		return e == 0 && n > 0
	})
	return n, errors.Join(err, failed)
}

// rawReader reads lines from a shim's socket. Descriptors come only with the first line of an
// attempt.
func rawReader(fd int) *LineReader {
	return &LineReader{fd: fd, recv: func(p, oob []byte) (int, int, error) {
		n, oobn, _, _, err := unix.Recvmsg(fd, p, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		return n, oobn, err
	}}
}

// readPlain reads without receiving descriptors.
func (r *LineReader) readPlain() error {
	r.room()
	n, err := rawRecv(r.fd, r.chunk)
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	return r.add(r.chunk[:n])
}
