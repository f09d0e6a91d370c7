package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// link is the agent's end of the socket to a shim. One goroutine reads; anybody may send.
type link struct {
	conn  *net.UnixConn
	in    lineReader
	child *os.Process // the shim, where this agent started it

	mu   sync.Mutex
	over bool // the attempt has ended: what is sent now would reach the next one
}

func newLink(conn *net.UnixConn, child *os.Process) *link {
	l := &link{conn: conn, child: child}
	l.in.recv = func(p, oob []byte) (int, int, error) {
		n, oobn, _, _, err := conn.ReadMsgUnix(p, oob)
		return n, oobn, err
	}
	return l
}

// receive waits for the next report. An error means that the shim is gone, or that the link was closed.
func (l *link) receive() (report, error) {
	for {
		var r report
		found, err := l.in.next(&r)
		if err != nil {
			return r, err
		}
		if found {
			l.note(r)
			return r, nil
		}
		if err := l.in.read(); err != nil {
			return r, err
		}
	}
}

func (l *link) note(r report) {
	if r.Exited == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// send gives the shim an order. A shim that is gone is noticed by receive, so the error of an order can be dropped.
func (l *link) send(o order, files ...int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	line := encodeLine(o)
	if err := l.conn.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	n, _, err := l.conn.WriteMsgUnix(line, rights, nil)
	if err == nil && n < len(line) {
		_, err = l.conn.Write(line[n:])
	}
	return err
}

// takeFiles gives the descriptors that came with the last report.
func (l *link) takeFiles() []int {
	files := l.in.files
	l.in.files = nil
	return files
}

// alive reports whether the other end of an idle link is still open.
func (l *link) alive() bool {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = errors.Is(err, unix.EAGAIN)
	})
	return err == nil && alive
}

// interrupt ends receive.
func (l *link) interrupt() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) }

// leave closes the link and lets the shim live.
func (l *link) leave() {
	l.conn.Close()
	if l.child != nil {
		_ = l.child.Release()
	}
}

// bury closes the link to a shim that is gone, or idle, and waits for its end.
func (l *link) bury() {
	l.conn.Close()
	if l.child != nil {
		_ = l.child.Kill()
		_, _ = l.child.Wait()
	}
}

// socketPath reaches a file of a directory by a path short enough for a socket's address (108 bytes).
func socketPath(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile) }

// listenIn makes the socket on which a later agent finds the shim. That somebody holds it open is how a later agent
// knows that the shim lives.
func listenIn(path string) (int, error) {
	dir, err := os.Open(path)
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	address := socketPath(dir)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("binding the control socket: %w", err)
	}
	if err := os.Chmod(address, 0o600); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if err := unix.Listen(fd, 4); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// connectTo connects to the shim of an attempt's directory; an error means that there is none.
func connectTo(path string) (*link, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: socketPath(dir)})
	if err != nil {
		return nil, err
	}
	return newLink(conn, nil), nil
}
