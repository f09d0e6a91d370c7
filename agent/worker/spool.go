package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millpond/millpond/agent"
)

const (
	markSize   = 16               // bytes of one record of the marks file
	markEvery  = time.Millisecond // a new mark when this much time has passed
	spliceMost = 1 << 20          // bytes moved by one splice
)

// mark says of the bytes from Offset up to the next mark which stream they came from and when they were read.
type mark struct {
	Offset int64
	Stream agent.Stream
	Time   int64 // unix nanoseconds
}

// A record is the offset with the stream in its highest bit, then the time; both big endian.
func (m mark) encode() []byte {
	word := uint64(m.Offset)
	if m.Stream == agent.Stderr {
		word |= 1 << 63
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, markSize), word)
	return binary.BigEndian.AppendUint64(b, uint64(m.Time))
}

func decodeMark(b []byte) mark {
	word := binary.BigEndian.Uint64(b)
	m := mark{Offset: int64(word &^ (1 << 63)), Stream: agent.Stdout, Time: int64(binary.BigEndian.Uint64(b[8:]))}
	if word>>63 == 1 {
		m.Stream = agent.Stderr
	}
	return m
}

// spool moves bytes from an attempt's pipes to its log file, where the offset in the file is the offset in the log.
// splice(2) takes from the pipe exactly what it put into the file, so a kill at any instant neither loses nor doubles
// a byte, and whoever opens the spool next goes on at the file's end. A mark is written before the bytes it is about,
// so that bytes without a mark of their own after a crash belong to the last one.
type spool struct {
	log, marks int
	null       int
	end        int64 // bytes in the log
	count      int64 // marks
	last       mark
	limit      int64  // of the process's bytes in the log; 0 means none
	cut        []byte // the line that follows them
}

func openSpool(dir string, limit int64) (*spool, error) {
	s := &spool{log: -1, marks: -1, null: -1, limit: limit}
	err := errors.Join(
		openInto(&s.log, filepath.Join(dir, logFile)),
		openInto(&s.marks, filepath.Join(dir, marksFile)),
		openInto(&s.null, os.DevNull),
	)
	if err == nil {
		err = s.recover()
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("opening the log of %s: %w", filepath.Base(dir), err)
	}
	return s, nil
}

func openInto(fd *int, path string) (err error) {
	*fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	return nil
}

// recover finds where the one before stopped.
func (s *spool) recover() error {
	end, err := fileSize(s.log)
	if err != nil {
		return err
	}
	size, err := fileSize(s.marks)
	if err != nil {
		return err
	}
	s.end, s.count = end, size/markSize
	if s.count > 0 {
		b := make([]byte, markSize)
		if _, err := unix.Pread(s.marks, b, (s.count-1)*markSize); err != nil {
			return err
		}
		s.last = decodeMark(b)
	}
	return nil
}

func (s *spool) close() {
	for _, fd := range []int{s.log, s.marks, s.null} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// move moves up to room bytes from a pipe into the log. It answers 0 at the pipe's end, unix.EAGAIN when the pipe is
// empty, and otherwise the error of the file system, when nothing was taken from the pipe.
func (s *spool) move(pipe int, stream agent.Stream, room int64) (int64, error) {
	most := min(room, spliceMost)
	if s.limit > 0 {
		if s.end >= s.limit {
			return s.discard(pipe)
		}
		most = min(most, s.limit-s.end)
	}
	if err := s.mark(stream, time.Now()); err != nil {
		return 0, err
	}
	at := s.end
	n, err := splice(pipe, s.log, &at, most)
	s.end += max(n, 0)
	return n, err
}

func splice(pipe, file int, at *int64, most int64) (int64, error) {
	for {
		n, err := rawSplice(pipe, file, at, most)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// mark writes a record unless the last one says the same. A record about no bytes yet is overwritten.
func (s *spool) mark(stream agent.Stream, now time.Time) error {
	m := mark{Offset: s.end, Stream: stream, Time: now.UnixNano()}
	index := s.count
	if s.count > 0 {
		if passed := m.Time - s.last.Time; s.last.Stream == stream && passed >= 0 && passed < int64(markEvery) {
			return nil
		}
		if s.last.Offset == s.end {
			index--
		}
	}
	n, err := rawPwrite(s.marks, m.encode(), index*markSize)
	if err != nil {
		return err
	}
	if n != markSize {
		return unix.ENOSPC
	}
	s.count, s.last = index+1, m
	return nil
}

// discard ends the log with a line that says so, once, and throws the rest of the pipe away.
func (s *spool) discard(pipe int) (int64, error) {
	waiting, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err == nil && waiting > 0 {
		err = s.writeCut()
	}
	if err != nil {
		return 0, err
	}
	return splice(pipe, s.null, nil, spliceMost)
}

// writeCut is safe to repeat after a crash, since the line and its place follow from the limit and the byte before it.
func (s *spool) writeCut() error {
	if s.cut == nil {
		before := make([]byte, 1)
		if _, err := unix.Pread(s.log, before, s.limit-1); err != nil {
			return err
		}
		line := fmt.Sprintf("[millpond] log cut after %d bytes\n", s.limit)
		if before[0] != '\n' {
			line = "\n" + line
		}
		s.cut = []byte(line)
	}
	rest := s.limit + int64(len(s.cut)) - s.end
	if rest <= 0 {
		return nil
	}
	if err := s.mark(agent.Stderr, time.Now()); err != nil {
		return err
	}
	n, err := unix.Pwrite(s.log, s.cut[int64(len(s.cut))-rest:], s.end)
	s.end += int64(max(n, 0))
	if err == nil && int64(n) < rest {
		err = unix.ENOSPC
	}
	return err
}

// probeSpool tries in dir what the spool stands on, so that a file system that cannot do it is named at the start.
func probeSpool(dir string) error {
	probe, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(probe)
	s, err := openSpool(probe, 0)
	if err != nil {
		return err
	}
	defer s.close()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	if _, err := unix.Write(pipe[1], []byte("probe")); err != nil {
		return err
	}
	if _, err := s.move(pipe[0], agent.Stdout, 5); err != nil {
		return fmt.Errorf("the file system of %s cannot take a log from a pipe (splice: %w); choose a directory on a local disk", dir, err)
	}
	if err := punch(s.log, 0, 4096); err != nil {
		return fmt.Errorf("the file system of %s cannot free a part of a file (fallocate: %w); choose a directory on a local disk", dir, err)
	}
	return nil
}

// punch frees a part of a file and leaves its size.
func punch(fd int, from, to int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func fileSize(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}
