package local

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

const (
	// logLimit is how many bytes of the agent's log a start appends to; then the log is put aside, in place of the one put aside before.
	logLimit      = 16 << 20
	tailForDetail = 4 << 10
	maxLine       = 300
)

// openLog opens the agent's log for its process.
func (m place) openLog() (*os.File, error) {
	if old, err := os.Stat(m.path(logFile)); err == nil && old.Size() > logLimit {
		if err := os.Rename(m.path(logFile), m.path(oldLogFile)); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(m.path(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// log is the last bytes of the log, the part put aside included, from the start of a line.
func (m place) log(limit int) ([]byte, error) {
	if limit <= 0 {
		return nil, nil
	}
	// One byte more tells whether the first line is whole.
	b, err := tail(m.path(logFile), limit+1)
	if err != nil {
		return nil, err
	}
	if more := limit + 1 - len(b); more > 0 {
		older, err := tail(m.path(oldLogFile), more)
		if err != nil {
			return nil, err
		}
		b = append(older, b...)
	}
	if len(b) <= limit {
		return b, nil
	}
	_, whole, _ := bytes.Cut(b, []byte("\n"))
	if len(whole) == 0 { // one line that is longer than the limit
		return b[1:], nil
	}
	return whole, nil
}

func tail(path string, limit int) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-int64(limit))
	return io.ReadAll(io.NewSectionReader(f, from, size-from))
}

// lastLine is the last line that says something, cut where it is long.
func lastLine(b []byte) string {
	line := strings.TrimSpace(string(b))
	line = strings.TrimSpace(line[strings.LastIndexByte(line, '\n')+1:])
	if len(line) > maxLine {
		line = line[:maxLine] + "…"
	}
	return strings.ToValidUTF8(line, "")
}
