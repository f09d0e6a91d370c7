package job

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
)

func newTail(end int64) *tail {
	return &tail{end: end, changed: make(chan struct{}), stale: make(chan struct{}, 1)}
}

// written is the whole log of a process. Tests store and read slices of it.
type written []byte

func (w written) piece(from, to int64) LogChunk {
	return LogChunk{
		Offset: from, Stream: Stdout, FirstLine: 1 + int64(bytes.Count(w[:from], []byte{'\n'})), EmittedAt: epoch, Data: w[from:to],
	}
}

func anyLog(t *rapid.T, size int) written {
	w := make(written, size)
	seed := rapid.Uint32().Draw(t, "seed")
	for i := range w {
		seed = seed*1664525 + 1013904223
		w[i] = byte(seed >> 24)
		if seed>>28 == 0 {
			w[i] = '\n'
		}
	}
	return w
}

// follower reads a log from a tail and from the table, as Follow does.
type follower struct {
	from, next int64
	got        []byte
	eof        bool
}

func (f *follower) read(t *rapid.T, tl *tail, w written, stored int64) {
	for !f.eof {
		page, kept, wait := tl.page(f.next)
		switch {
		case wait != nil:
			return
		case !kept: // read the table
			to := min(stored, f.next+followPage)
			page = LogPage{Chunks: []LogChunk{w.piece(f.next, to)}, Next: to}
		}
		for _, c := range page.Chunks {
			if c.Offset != f.next+int64(len(f.got))-(f.next-f.from) && c.Offset != f.from+int64(len(f.got)) {
				t.Fatalf("a chunk at %d follows %d bytes from %d", c.Offset, len(f.got), f.from)
			}
			if want := w.piece(c.Offset, c.End()).FirstLine; c.FirstLine != want {
				t.Fatalf("the chunk at %d begins in line %d, not %d", c.Offset, c.FirstLine, want)
			}
			f.got = append(f.got, c.Data...)
		}
		if len(page.Chunks) == 0 && !page.EOF {
			t.Fatalf("an empty page that is not the last")
		}
		f.next, f.eof = page.Next, page.EOF
	}
}

// TestEveryFollowerGetsEveryByte publishes chunks twice, with gaps and out of order. Each follower
// must get exactly the bytes from its offset on, in order, and the end.
func TestEveryFollowerGetsEveryByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int{1, 50, 5_000, 30_000}).Draw(t, "unit")
		w := anyLog(t, 40*unit)
		size := int64(len(w))
		offset := func(limit int64, name string) int64 { return rapid.Int64Range(0, limit).Draw(t, name) }
		stored := offset(size, "stored before")
		tl := newTail(stored)
		var followers []*follower
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0: // this replica publishes a batch, or a part of what was stored before
				from := offset(stored, "from")
				to := from + rapid.Int64Range(0, min(size-from, int64(3*unit))).Draw(t, "length")
				stored = max(stored, to)
				cut := from + offset(to-from, "cut")
				tl.add([]LogChunk{w.piece(from, cut), w.piece(cut, to)}, false)
			case 1: // another replica stores
				stored += offset(min(size-stored, int64(3*unit)), "elsewhere")
			case 2: // the watcher reads the table
				tl.add([]LogChunk{w.piece(tl.known(), stored)}, false)
			case 3:
				at := offset(stored, "follow from")
				followers = append(followers, &follower{from: at, next: at})
			}
			for _, f := range followers {
				if rapid.Bool().Draw(t, "reads") {
					f.read(t, tl, w, stored)
				}
			}
			if len(tl.chunks) > 1 && tl.size > tailBytes {
				t.Fatalf("the tail keeps %d bytes", tl.size)
			}
		}
		tl.add([]LogChunk{w.piece(tl.known(), size)}, true)
		for _, f := range followers {
			f.read(t, tl, w, size)
			if !f.eof || !bytes.Equal(f.got, w[f.from:]) {
				t.Fatalf("a follower from %d got %d bytes of %d, eof %v", f.from, len(f.got), size-f.from, f.eof)
			}
		}
	})
}

func TestATailKeepsAMebibyte(t *testing.T) {
	tl := newTail(0)
	line := bytes.Repeat([]byte("x"), 1000)
	for i := range int64(3000) {
		tl.add([]LogChunk{{Offset: i * 1000, FirstLine: 1, Data: line}}, false)
	}
	require.LessOrEqual(t, tl.size, tailBytes)
	require.Greater(t, tl.size, tailBytes-2000)
	require.EqualValues(t, 3_000_000, tl.end)
	_, kept, wait := tl.page(0)
	require.False(t, kept)
	require.Nil(t, wait, "a follower that far behind reads the table")
	page, kept, _ := tl.page(tl.end - 1500)
	require.True(t, kept)
	require.Len(t, page.Chunks, 2)
	require.Len(t, page.Chunks[0].Data, 500)
	page, _, _ = tl.page(tl.chunks[0].Offset)
	require.EqualValues(t, 262_000, page.Next-tl.chunks[0].Offset, "a page is of 256 KiB at most")

	tl.add([]LogChunk{{Offset: tl.end, Data: make([]byte, 4<<20)}}, false)
	require.Len(t, tl.chunks, 1, "a chunk larger than the tail is kept alone")
}

// TestATailIsCheapWhenFull checks that an append costs its own size, not that of the tail.
func TestATailIsCheapWhenFull(t *testing.T) {
	tl := newTail(0)
	add := func() { tl.add([]LogChunk{{Offset: tl.end, Data: []byte("0123456789")}}, false) }
	for tl.size+10 <= tailBytes {
		add()
	}
	grown := testing.AllocsPerRun(1, func() {
		for range 1000 {
			add()
		}
	})
	require.Less(t, grown, 4000.0)
	began := time.Now()
	for range 20_000 {
		add()
	}
	require.Less(t, time.Since(began), 5*time.Second, "20,000 appends")
}

func TestAGapMakesTheTailReadTheTable(t *testing.T) {
	tl := newTail(10)
	wait := tl.changed
	tl.add([]LogChunk{{Offset: 15, Data: []byte("later")}}, false)
	require.EqualValues(t, 10, tl.end)
	require.Len(t, tl.stale, 1)
	select {
	case <-wait:
		t.Fatal("nothing came that could be read")
	default:
	}
	tl.add([]LogChunk{{Offset: 5, Data: []byte("0123456789")}}, false)
	require.EqualValues(t, 15, tl.end)
	require.Equal(t, "56789", string(tl.chunks[0].Data), "what overlaps is taken once")
	<-wait
	require.True(t, !tl.over())
	wait = tl.changed
	tl.add(nil, true)
	<-wait
	page, kept, _ := tl.page(15)
	require.True(t, kept && page.EOF)
	require.Empty(t, page.Chunks)
}

func TestChunks(t *testing.T) {
	c := LogChunk{Offset: 100, FirstLine: 7, Data: []byte("one\ntwo\nthr")}
	require.EqualValues(t, 111, c.End())
	require.EqualValues(t, 9, c.NextLine())
	require.Equal(t, c, c.from(50))
	cut := c.from(105)
	require.Equal(t, LogChunk{Offset: 105, FirstLine: 8, Data: []byte("wo\nthr")}, cut)
	require.Equal(t, c.End(), cut.End())
	require.Equal(t, c.NextLine(), cut.NextLine())
	require.Equal(t, "stdout", Stdout.String())
	require.Equal(t, "stderr", Stderr.String())
}

func TestAPageIsCutToItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := anyLog(t, 200)
		var chunks []LogChunk
		for from := int64(0); from < 200; {
			to := min(200, from+rapid.Int64Range(1, 60).Draw(t, "length"))
			chunks = append(chunks, w.piece(from, to))
			from = to
		}
		offset := rapid.Int64Range(0, 199).Draw(t, "offset")
		limit := rapid.IntRange(1, 250).Draw(t, "limit")
		first := slices.IndexFunc(chunks, func(c LogChunk) bool { return c.End() > offset })
		p := LogPage{Chunks: chunks[first:]}
		p.cut(offset, limit)
		var got []byte
		for _, c := range p.Chunks {
			if len(c.Data) == 0 {
				t.Fatalf("an empty chunk")
			}
			got = append(got, c.Data...)
		}
		want := w[offset:min(200, offset+int64(limit))]
		if !bytes.Equal(got, want) || p.Next != offset+int64(len(want)) {
			t.Fatalf("%d bytes from %d: %d to %d", limit, offset, len(got), p.Next)
		}
	})
}

// TestAWriterFitsBatches checks that duplicate and early chunks are skipped, and that the receipt
// says where to continue.
func TestAWriterFitsBatches(t *testing.T) {
	w := (&Logs{}).Writer(domain.SystemScope("ws_1", "a test"), "s")
	w.ends["a"] = LogEnd{Offset: 10, Line: 3}
	w.ends["b"] = LogEnd{Offset: 0, Line: 1}
	chunk := func(id domain.AttemptID, offset int64, data string) LogAppend {
		return LogAppend{Attempt: id, LogChunk: LogChunk{Offset: offset, Data: []byte(data)}}
	}
	batch := []LogAppend{
		chunk("a", 5, "01234"), chunk("a", 5, "01234x\ny"), chunk("a", 13, "z\n"), chunk("a", 99, "later"), chunk("b", 1, "early"), chunk("c", 0, "stranger"),
		chunk("b", 0, "on time"), chunk("a", 15, ""),
	}
	fitted, ends := w.Fit(batch)
	require.Equal(t, []LogAppend{
		{Attempt: "a", LogChunk: LogChunk{Offset: 10, FirstLine: 3, Data: []byte("x\ny")}},
		{Attempt: "a", LogChunk: LogChunk{Offset: 13, FirstLine: 4, Data: []byte("z\n")}},
		{Attempt: "b", LogChunk: LogChunk{Offset: 0, FirstLine: 1, Data: []byte("on time")}},
	}, fitted)
	require.Equal(t, map[domain.AttemptID]LogEnd{"a": {15, 5}, "b": {7, 1}}, ends)
	r := w.receipt(batch, ends)
	require.Equal(t, map[domain.AttemptID]int64{"a": 15, "b": 7}, r.Next)
	require.Equal(t, []domain.AttemptID{"c"}, r.Forget)
	require.Equal(t, LogEnd{15, 5}, w.ends["a"])
}

// TestAnAgentsWordsCanBeKept checks that an end is storable whatever text an agent sends.
func TestAnAgentsWordsCanBeKept(t *testing.T) {
	zero, one := 0, 1
	for name, c := range map[string]struct {
		rep    AttemptReport
		status AttemptStatus
		want   string
	}{
		"success":       {AttemptReport{ExitCode: &zero}, AttemptSuccess, ""},
		"exit code":     {AttemptReport{ExitCode: &one}, AttemptFailed, "The process ended with exit code 1."},
		"signal":        {AttemptReport{Signal: "SIGKILL"}, AttemptFailed, "The process was ended by SIGKILL."},
		"nothing":       {AttemptReport{}, AttemptFailed, "The process ended without an exit code."},
		"time-out":      {AttemptReport{Reason: ReasonTimeout, ExitCode: &zero}, AttemptFailed, "It ran longer than its time-out and was ended."},
		"cancelled":     {AttemptReport{Reason: ReasonCancelled}, AttemptCancelled, ""},
		"lease":         {AttemptReport{Reason: ReasonLease}, AttemptLost, "Its agent could not reach the platform for too long, so it was ended."},
		"start":         {AttemptReport{Reason: ReasonStart, Message: "No shell."}, AttemptFailed, "No shell."},
		"supervisor":    {AttemptReport{Reason: ReasonSupervisor}, AttemptFailed, "The process that supervised it was killed, so it was ended."},
		"a new reason":  {AttemptReport{Reason: "moon", ExitCode: &zero}, AttemptFailed, "The process ended with exit code 0."},
		"NUL":           {AttemptReport{Message: "a\x00b"}, AttemptFailed, "ab"},
		"not UTF-8":     {AttemptReport{Message: "a\xffb"}, AttemptFailed, "ab"},
		"only nonsense": {AttemptReport{Message: "\x00"}, AttemptFailed, "The process ended without an exit code."},
		"cut in a rune": {AttemptReport{Message: string(bytes.Repeat([]byte("x"), domain.MaxShown-1)) + "本"}, AttemptFailed, string(bytes.Repeat([]byte("x"), domain.MaxShown-1))},
	} {
		end := c.rep.end()
		require.Equal(t, c.status, end.Status, name)
		require.Equal(t, c.want, end.Message, name)
		require.True(t, end.Status.Final(), name)
	}
}
