package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
)

const (
	// logLimit is the size in bytes above which a start renames the agent's log to path.1.
	logLimit      = 16 << 20
	tailForDetail = 16 << 10
	maxLine       = 300
)

// openLog opens the log of an agent for its process. It first renames a log of more than logLimit
// bytes to path.1, which replaces an older path.1.
func openLog(path string) (*os.File, error) {
	if old, err := os.Stat(path); err == nil && old.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// log returns the last bytes of the log, the old log included, from the start of a line.
func (m machineDir) log(limit int) ([]byte, error) {
	if limit <= 0 {
		return nil, nil
	}
	// One byte more shows whether the first line is whole.
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

// lastLine is the message of the last line that is not blank, cut to maxLine bytes.
func lastLine(b []byte) string {
	line := strings.TrimSpace(string(b))
	line = message(strings.TrimSpace(line[strings.LastIndexByte(line, '\n')+1:]))
	const cut = "…"
	if len(line) > maxLine {
		return strings.ToValidUTF8(line[:maxLine-len(cut)], "") + cut
	}
	return strings.ToValidUTF8(line, "")
}

// message is the message and the error of a line that slog wrote, as text or as JSON. It returns
// any other line unchanged.
func message(line string) string {
	attributes := attributesOf(line)
	said, _ := attributes["msg"].(string)
	if said == "" {
		return line
	}
	if cause, _ := attributes["error"].(string); cause != "" {
		said += ": " + cause
	}
	return said
}

var attribute = regexp.MustCompile(`([^\s=]+)=("(?:[^"\\]|\\.)*"|\S*)`)

func attributesOf(line string) map[string]any {
	found := map[string]any{}
	if strings.HasPrefix(line, "{") {
		_ = json.Unmarshal([]byte(line), &found) // invalid JSON has no attributes
		return found
	}
	if !strings.HasPrefix(line, "time=") {
		return found
	}
	for _, m := range attribute.FindAllStringSubmatch(line, -1) {
		value := m[2]
		if strings.HasPrefix(value, `"`) {
			value, _ = strconv.Unquote(value) // empty when it is cut off
		}
		found[m[1]] = value
	}
	return found
}
