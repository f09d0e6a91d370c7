package shim

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

// MarkSize is the size of one record of the marks file in bytes.
const MarkSize = 16

const (
	markEvery  = time.Millisecond // a new mark when this much time has passed
	spliceMost = 1 << 20          // bytes moved by one splice
)

// Mark is the stream and the read time of the bytes of the log from Offset up to the next mark.
type Mark struct {
	Offset int64
	Stream agent.Stream
	Time   int64 // unix nanoseconds
}

// Encode returns the mark's record in the marks file, of MarkSize bytes: the offset with the stream
// in its highest bit, then the time; both big endian.
func (m Mark) Encode() []byte {
	word := uint64(m.Offset)
	if m.Stream == agent.Stderr {
		word |= 1 << 63
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, MarkSize), word)
	return binary.BigEndian.AppendUint64(b, uint64(m.Time))
}

// DecodeMark reads the record at the start of b, which must have at least MarkSize bytes.
func DecodeMark(b []byte) Mark {
	word := binary.BigEndian.Uint64(b)
	m := Mark{Offset: int64(word &^ (1 << 63)), Stream: agent.Stdout, Time: int64(binary.BigEndian.Uint64(b[8:]))}
	if word>>63 == 1 {
		m.Stream = agent.Stderr
	}
	return m
}

// spool moves bytes from an attempt's pipes to its log file. An offset in the file is an offset in
// the log. splice(2) removes from the pipe exactly the bytes that it wrote to the file. So a kill
// at any instant neither loses nor duplicates a byte, and the next spool continues at the file's
// end. A mark is written before its bytes: after a crash, bytes without their own mark belong to
// the last one.
type spool struct {
	log, marks int
	null       int
	end        int64 // bytes in the log
	count      int64 // marks
	last       Mark
	limit      int64  // of the process's bytes in the log; 0 means none
	cut        []byte // the line that follows the limit
}

func openSpool(dir string, limit int64) (*spool, error) {
	s := &spool{log: -1, marks: -1, null: -1, limit: limit}
	err := errors.Join(
		openInto(&s.log, filepath.Join(dir, LogFile)),
		openInto(&s.marks, filepath.Join(dir, MarksFile)),
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

// recover finds where the previous spool stopped.
func (s *spool) recover() error {
	end, err := fileSize(s.log)
	if err != nil {
		return err
	}
	size, err := fileSize(s.marks)
	if err != nil {
		return err
	}
	s.end, s.count = end, size/MarkSize
	if s.count > 0 {
		b := make([]byte, MarkSize)
		if _, err := unix.Pread(s.marks, b, (s.count-1)*MarkSize); err != nil {
			return err
		}
		s.last = DecodeMark(b)
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

// move moves up to room bytes from a pipe into the log. It returns 0 at the pipe's end, and
// unix.EAGAIN if the pipe is empty. Any other error is from the file system; no bytes were taken
// from the pipe.
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

// mark writes a record unless the last one still applies. It overwrites a record without bytes.
func (s *spool) mark(stream agent.Stream, now time.Time) error {
	m := Mark{Offset: s.end, Stream: stream, Time: now.UnixNano()}
	index := s.count
	if s.count > 0 {
		if passed := m.Time - s.last.Time; s.last.Stream == stream && passed >= 0 && passed < int64(markEvery) {
			return nil
		}
		if s.last.Offset == s.end {
			index--
		}
	}
	n, err := rawPwrite(s.marks, m.Encode(), index*MarkSize)
	if err != nil {
		return err
	}
	if n != MarkSize {
		return unix.ENOSPC
	}
	s.count, s.last = index+1, m
	return nil
}

// discard writes the line about the cut once, and discards the rest of the pipe.
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

// writeCut is safe to repeat after a crash, because the line and its offset depend only on the
// limit and the byte before it.
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

// DrainPipes moves the bytes that a dead shim left in its pipes into the log in dir. limit is the
// limit of the log in bytes; 0 means none. pipes are the read ends of stdout and stderr; a negative
// one is skipped. An error is from the file system, and the call can be repeated.
func DrainPipes(dir string, limit int64, pipes [2]int) error {
	s, err := openSpool(dir, limit)
	if err != nil {
		return err
	}
	defer s.close()
	for i, stream := range [2]agent.Stream{agent.Stdout, agent.Stderr} {
		for pipes[i] >= 0 {
			n, err := s.move(pipes[i], stream, spliceMost)
			if n == 0 && err == nil || errors.Is(err, unix.EAGAIN) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ProbeSpool tests the system calls of the log in dir, so that an unsuitable file system is
// reported at the start. The error says what to do.
func ProbeSpool(dir string) error {
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
		return fmt.Errorf("the file system of %s does not support splice (%w); choose a directory on a local disk", dir, err)
	}
	if err := Punch(s.log, 0, 4096); err != nil {
		return fmt.Errorf("the file system of %s does not support freeing a part of a file (fallocate: %w); choose a directory on a local disk", dir, err)
	}
	return nil
}

// Punch frees the disk space of a file from one offset to another, in bytes, and keeps its size.
func Punch(fd int, from, to int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
}

func fileSize(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}

// DiskTrouble describes an error of the file system for people, as the reason in Report.Held and in
// agent.Status.
func DiskTrouble(err error) string {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return "the disk is full"
	}
	return fmt.Sprintf("its log cannot be written (%v)", err)
}
