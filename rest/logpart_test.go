package rest

import (
	"bytes"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

func TestPartOfALog(t *testing.T) {
	const size = 100
	none := logQuery{offset: -1}
	for _, c := range []struct {
		name   string
		query  logQuery
		header http.Header
		want   part
	}{
		{"whole", none, nil, part{0, 100, 200}},
		{"offset", logQuery{offset: 30}, nil, part{30, 100, 200}},
		{"offset at the end", logQuery{offset: 100}, nil, part{100, 100, 200}},
		{"range", none, http.Header{"Range": {"bytes=10-19"}}, part{10, 20, 206}},
		{"range of one byte", none, http.Header{"Range": {"bytes=99-99"}}, part{99, 100, 206}},
		{"open range", none, http.Header{"Range": {"bytes=90-"}}, part{90, 100, 206}},
		{"range past the end", none, http.Header{"Range": {"bytes=90-9999999999"}}, part{90, 100, 206}},
		{"suffix", none, http.Header{"Range": {"bytes=-5"}}, part{95, 100, 206}},
		{"suffix longer than the log", none, http.Header{"Range": {"bytes=-500"}}, part{0, 100, 206}},
		{"several ranges", none, http.Header{"Range": {"bytes=0-1,5-6"}}, part{0, 100, 200}},
		{"another unit", none, http.Header{"Range": {"lines=0-1"}}, part{0, 100, 200}},
		{"range with offset", logQuery{offset: 5}, http.Header{"Range": {"bytes=0-1"}}, part{5, 100, 200}},
		{"range with follow", logQuery{offset: -1, follow: true}, http.Header{"Range": {"bytes=0-1"}}, part{0, 100, 200}},
		{"range with lines", logQuery{offset: -1, json: true}, http.Header{"Range": {"bytes=0-1"}}, part{0, 100, 200}},
		{"if-range, which is not supported", none, http.Header{"Range": {"bytes=0-1"}, "If-Range": {`"x"`}}, part{0, 100, 200}},
	} {
		got, err := c.query.part(c.header, size)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got, c.name)
	}
	empty, err := none.part(http.Header{"Range": {"bytes=0-99"}}, 0)
	require.NoError(t, err)
	require.Equal(t, part{0, 0, 200}, empty, "clients ask for ranges of what is empty")
}

func TestPartBeyondTheLog(t *testing.T) {
	for _, spec := range []string{"100-", "100-200", "-0", "5-4", "x", "", "-", "a-b", "1-b", "99999999999999999999-", "-99999999999999999999", "0-9223372036854775807x"} {
		_, err := logQuery{offset: -1}.part(http.Header{"Range": {"bytes=" + spec}}, 100)
		require.True(t, domain.IsCode(err, domain.CodeRange), spec)
	}
	_, err := logQuery{offset: 101}.part(nil, 100)
	require.True(t, domain.IsCode(err, domain.CodeRange))
	shown, ok := outside(err, 100).(*Error) //nolint:errorlint // it is created here
	require.True(t, ok)
	require.Equal(t, 416, shown.status)
	require.Equal(t, "bytes */100", shown.headers.Get("Content-Range"))
}

func assembled(chunks ...job.LogChunk) (records []LogLine) {
	l := lines{emit: func(line LogLine) error { records = append(records, line); return nil }}
	for _, c := range chunks {
		_ = l.add(c)
	}
	_ = l.cut()
	return records
}

func TestLinesAreAssembledOverChunks(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 30, 0, 0, time.UTC)
	got := assembled(
		job.LogChunk{Offset: 0, Stream: job.Stdout, FirstLine: 1, EmittedAt: at, Data: []byte("one\n\ntw")},
		job.LogChunk{Offset: 7, Stream: job.Stdout, FirstLine: 3, EmittedAt: at.Add(time.Second), Data: []byte("o\r\n")},
		job.LogChunk{Offset: 10, Stream: job.Stderr, FirstLine: 4, EmittedAt: at.Add(time.Minute), Data: []byte("\xff\x1b[31m\n")},
		job.LogChunk{Offset: 17, Stream: job.Stdout, FirstLine: 5, EmittedAt: at, Data: []byte("wait")},
		job.LogChunk{Offset: 21, Stream: job.Stderr, FirstLine: 5, EmittedAt: at, Data: []byte("!\n")},
		job.LogChunk{Offset: 23, Stream: job.Stdout, FirstLine: 6, EmittedAt: at, Data: []byte("no end")},
	)
	want := []LogLine{
		{Line: 1, Stream: "stdout", Time: Time(at), Offset: 0, NextOffset: 4, Text: "one"},
		{Line: 2, Stream: "stdout", Time: Time(at), Offset: 4, NextOffset: 5, Text: ""},
		{Line: 3, Stream: "stdout", Time: Time(at), Offset: 5, NextOffset: 10, Text: "two\r"},
		{Line: 4, Stream: "stderr", Time: Time(at.Add(time.Minute)), Offset: 10, NextOffset: 17, Text: "\xff\x1b[31m", Base64: []byte("\xff\x1b[31m")},
		{Line: 5, Stream: "stdout", Time: Time(at), Offset: 17, NextOffset: 21, Text: "wait", Partial: true},
		{Line: 5, Stream: "stderr", Time: Time(at), Offset: 21, NextOffset: 23, Text: "!"},
		{Line: 6, Stream: "stdout", Time: Time(at), Offset: 23, NextOffset: 29, Text: "no end", Partial: true},
	}
	require.Equal(t, want, got)
}

// However the output is cut into chunks, the records hold every byte once, in order, in bounded
// pieces with correct line numbers.
func TestLinesHoldEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var log []byte
		var chunks []job.LogChunk
		for range rapid.IntRange(1, 8).Draw(t, "chunks") {
			piece := rapid.OneOf(
				rapid.SliceOfN(rapid.ByteRange(0, 255), 1, 40),
				rapid.Map(rapid.IntRange(1, 3*maxLine), func(n int) []byte { return bytes.Repeat([]byte("é"), n/2+1) }),
				rapid.Just([]byte("a\nb\n\n")),
			).Draw(t, "piece")
			stream := rapid.SampledFrom([]job.LogStream{job.Stdout, job.Stderr}).Draw(t, "stream")
			first := int64(1 + bytes.Count(log, []byte("\n")))
			chunks = append(chunks, job.LogChunk{Offset: int64(len(log)), Stream: stream, FirstLine: first, Data: piece})
			log = append(log, piece...)
		}
		next := int64(0)
		for _, r := range assembled(chunks...) {
			if r.Offset != next || r.NextOffset <= r.Offset {
				t.Fatalf("record %+v does not go on at %d", r, next)
			}
			raw := log[r.Offset:r.NextOffset]
			if !r.Partial {
				raw = bytes.TrimSuffix(raw, []byte("\n"))
			}
			if len(r.Text) > maxLine || r.Text != string(raw) || utf8.ValidString(r.Text) != (r.Base64 == nil) {
				t.Fatalf("record at %d is not the log's bytes", r.Offset)
			}
			if r.Line != int64(1+bytes.Count(log[:r.Offset], []byte("\n"))) {
				t.Fatalf("record at %d says line %d", r.Offset, r.Line)
			}
			next = r.NextOffset
		}
		if next != int64(len(log)) {
			t.Fatalf("%d of %d bytes", next, len(log))
		}
	})
}

func TestFileNames(t *testing.T) {
	q := logQuery{run: "run_1", key: "load.v2"}
	require.Equal(t, "Nightly-Übung_run_1_load.v2_attempt-2.log", fileName("Nightly / Übung!", q, &job.Attempt{Number: 2}))
	require.Equal(t, "x_run_1.ndjson", fileName("../x", logQuery{run: "run_1", json: true}, nil))
}
