package socket

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The kernel's constants and sizes (sock_diag(7), include/uapi/linux/inet_diag.h).
const (
	sockDiagByFamily = 20
	tcpEstablished   = 1
	headerSize       = unix.NLMSG_HDRLEN
	requestSize      = headerSize + 56 // struct inet_diag_req_v2
	answerSize       = headerSize + 72 // struct inet_diag_msg, before its attributes
	stateOffset      = headerSize + 1
	uidOffset        = headerSize + 64
)

// userOf returns the user of the established TCP socket with these two addresses. It asks the
// kernel for this one socket, which takes some 30 µs; the tables in /proc/net are walked whole,
// which takes milliseconds on a host that is large. It returns ErrOther if there is no such socket,
// and other errors where the kernel does not answer such questions.
func userOf(local, remote net.Addr) (int, error) {
	l, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return 0, err
	}
	r, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(l, r), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, answer, 0) // the kernel answers before Sendto returns
	if err != nil {
		return 0, err
	}
	if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
		return 0, fmt.Errorf("an answer about a socket is not the kernel's")
	}
	return userIn(answer[:n])
}

// diagRequest returns an inet_diag_req_v2 that matches one socket.
func diagRequest(local, remote netip.AddrPort) []byte {
	native, network := binary.NativeEndian, binary.BigEndian
	family := byte(unix.AF_INET6)
	if local.Addr().Unmap().Is4() {
		family = unix.AF_INET
	}
	b := make([]byte, headerSize, requestSize)
	native.PutUint32(b, requestSize)
	native.PutUint16(b[4:], sockDiagByFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = native.AppendUint32(b, 1<<tcpEstablished)
	b = network.AppendUint16(b, local.Port())
	b = network.AppendUint16(b, remote.Port())
	b = appendAddress(b, local.Addr())
	b = appendAddress(b, remote.Addr())
	b = native.AppendUint32(b, 0)             // any interface
	return native.AppendUint64(b, ^uint64(0)) // any cookie
}

// appendAddress appends an address in the 16 bytes that either family has.
func appendAddress(b []byte, a netip.Addr) []byte {
	bytes := a.Unmap().AsSlice()
	return append(append(b, bytes...), make([]byte, 16-len(bytes))...)
}

// userIn returns the user in an answer to diagRequest. Where no established socket matches, the
// kernel tells of a listener or of a socket that is closing.
func userIn(answer []byte) (int, error) {
	if len(answer) < headerSize+4 {
		return 0, fmt.Errorf("an answer about a socket has %d bytes", len(answer))
	}
	if binary.NativeEndian.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		if e := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[headerSize:]))); e != unix.ENOENT {
			return 0, e
		}
		return 0, ErrOther
	}
	if len(answer) < answerSize {
		return 0, fmt.Errorf("an answer about a socket has %d bytes", len(answer))
	}
	if answer[stateOffset] != tcpEstablished {
		return 0, ErrOther
	}
	return int(binary.NativeEndian.Uint32(answer[uidOffset:])), nil
}
