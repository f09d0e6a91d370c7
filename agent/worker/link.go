package worker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent/worker/shim"
)

// link is the agent's end of the socket to a shim. One goroutine reads; any goroutine may send.
type link struct {
	conn  *net.UnixConn
	in    *shim.LineReader
	child *os.Process // the shim's process, if this agent started it

	mu   sync.Mutex
	over bool // the attempt has ended: an order sent now would reach the next one
}

func newLink(conn *net.UnixConn, child *os.Process) *link {
	in := shim.NewLineReader(func(p, oob []byte) (int, int, error) {
		n, oobn, _, _, err := conn.ReadMsgUnix(p, oob)
		return n, oobn, err
	})
	return &link{conn: conn, in: in, child: child}
}

// receive waits for the next report. An error means that the shim has ended or the link was closed.
func (l *link) receive() (shim.Report, error) {
	for {
		var r shim.Report
		found, err := l.in.Next(&r)
		if err != nil {
			return r, err
		}
		if found {
			l.note(r)
			return r, nil
		}
		if err := l.in.Read(); err != nil {
			return r, err
		}
	}
}

func (l *link) note(r shim.Report) {
	if r.Exited == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

// send sends the shim an order. Callers may ignore the error, because receive detects that a shim
// has ended.
func (l *link) send(o shim.Order, files ...int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	line := shim.EncodeLine(o)
	if err := l.conn.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	n, _, err := l.conn.WriteMsgUnix(line, rights, nil)
	if err == nil && n < len(line) {
		_, err = l.conn.Write(line[n:])
	}
	return err
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

// interrupt makes receive return.
func (l *link) interrupt() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) }

// detach closes the link without ending the shim.
func (l *link) detach() {
	l.conn.Close()
	if l.child != nil {
		_ = l.child.Release()
	}
}

// destroy closes the link to a dead or idle shim, and kills and reaps the shim.
func (l *link) destroy() {
	l.conn.Close()
	if l.child != nil {
		_ = l.child.Kill()
		_, _ = l.child.Wait()
	}
}

// socketPath is a path to the socket of a directory, short enough for a socket's address (108
// bytes).
func socketPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), shim.SocketFile)
}

// listenIn creates the socket on which a later agent connects to the shim. A successful connection
// shows that the shim is alive.
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

// connectTo connects to the shim of an attempt's directory. An error means that there is no shim.
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
