package rest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/millpond/millpond/domain/job"
)

// sink writes chunks of a log to the client.
type sink struct {
	out   *bufio.Writer
	reply *http.ResponseController
	lines *lines // nil for raw bytes
}

func (l *logAnswer) sink() *sink {
	reply := http.NewResponseController(l.w)
	s := &sink{out: bufio.NewWriterSize(l.w, 8<<10), reply: reply}
	if l.query.json {
		s.lines = &lines{emit: func(line LogLine) error { return writeLine(s.out, line) }}
	}
	return s
}

func (s *sink) write(chunks []job.LogChunk) error {
	for _, c := range chunks {
		if err := s.chunk(c); err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
	}
	return nil
}

// errClient means that the client does not receive what is sent to it.
var errClient = errors.New("the client does not receive the log")

func (s *sink) chunk(c job.LogChunk) error {
	if s.lines != nil {
		return s.lines.add(c)
	}
	_, err := s.out.Write(c.Data)
	return err
}

// flush sends at once the bytes written so far.
func (s *sink) flush() error {
	err := s.out.Flush()
	if err == nil {
		err = s.reply.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

// end sends the remaining bytes.
func (s *sink) end() error {
	if s.lines != nil {
		if err := s.lines.cut(); err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
	}
	return s.flush()
}

func writeLine(out *bufio.Writer, line LogLine) error {
	if err := writeJSON(out, line); err != nil {
		return err
	}
	return out.WriteByte('\n')
}

// LogLine is a line of a log, or a part of a line, of one stream.
type LogLine struct {
	Line       int64  `json:"line" doc:"Its number, from 1."`
	Stream     string `json:"stream" enum:"stdout,stderr"`
	Time       Time   `json:"time" doc:"When its first byte was emitted."`
	Offset     int64  `json:"offset" doc:"Offset of its first byte in the log."`
	NextOffset int64  `json:"next_offset" doc:"The offset after the line and its line end: where to continue."`
	Text       string `json:"text" doc:"Without its line end. U+FFFD replaces bytes that are not UTF-8; base64 has them."`
	Base64     []byte `json:"base64,omitempty" doc:"The exact bytes, if they are not UTF-8."`
	Partial    bool   `json:"partial,omitempty" doc:"True if the line continues in a later record, or had no end when the log was read."`
}

// maxLine bounds one record, in bytes. A longer line has several records.
const maxLine = 64 << 10

// lines assembles records from chunks. A record ends with its line, at output of the other stream,
// and at maxLine.
type lines struct {
	emit func(LogLine) error

	begun bool
	line  LogLine
	data  []byte
}

func (l *lines) add(c job.LogChunk) error {
	if l.begun && l.line.Stream != c.Stream.String() {
		if err := l.cut(); err != nil {
			return err
		}
	}
	number := c.FirstLine
	for offset := int64(0); offset < int64(len(c.Data)); {
		if !l.begun {
			l.begin(c, number, c.Offset+offset)
		}
		piece, ended := nextPiece(c.Data[offset:], maxLine-len(l.data))
		l.data = append(l.data, piece...)
		offset += int64(len(piece))
		if ended {
			offset++
			number++
		}
		if ended || len(l.data) > maxLine-utf8.UTFMax {
			if err := l.end(c.Offset+offset, !ended); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextPiece returns the part of data that belongs to the current line, at most room bytes. ended
// means that a line end follows.
func nextPiece(data []byte, room int) (piece []byte, ended bool) {
	if i := bytes.IndexByte(data[:min(len(data), room+1)], '\n'); i >= 0 {
		return data[:i], true
	}
	if len(data) <= room {
		return data, false
	}
	for n := room; n > room-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(data[n]) {
			return data[:n], false
		}
	}
	return data[:room], false
}

func (l *lines) begin(c job.LogChunk, number, offset int64) {
	l.begun = true
	l.line = LogLine{Line: number, Stream: c.Stream.String(), Time: Time(c.EmittedAt), Offset: offset}
}

// cut emits the line that has no end yet.
func (l *lines) cut() error {
	if !l.begun {
		return nil
	}
	return l.end(l.line.Offset+int64(len(l.data)), true)
}

func (l *lines) end(next int64, partial bool) error {
	l.line.NextOffset, l.line.Partial = next, partial
	l.line.Text = string(l.data)
	if !utf8.Valid(l.data) {
		l.line.Base64 = bytes.Clone(l.data)
	}
	l.begun, l.data = false, l.data[:0]
	return l.emit(l.line)
}
