package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/domain/quota"
	"github.com/millpond/millpond/store"
)

// noise is n bytes that do not compress away, with lines.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 7))
	for i := range b {
		if b[i] = byte(r.Uint32()); b[i]%61 == 0 {
			b[i] = '\n'
		}
	}
	return b
}

func chunkAt(id domain.AttemptID, offset int64, data []byte) job.LogAppend {
	return job.LogAppend{Attempt: id, LogChunk: job.LogChunk{Offset: offset, Stream: job.Stdout, EmittedAt: time.Now().UTC(), Data: data}}
}

// chunks cuts data into chunks of at most size bytes, the first at offset.
func chunks(id domain.AttemptID, offset int64, data []byte, size int) (all []job.LogAppend) {
	for len(data) > 0 {
		n := min(size, len(data))
		all = append(all, chunkAt(id, offset, data[:n]))
		offset, data = offset+int64(n), data[n:]
	}
	return all
}

// write stores the data as a connection would, one mebibyte at a time.
func (w *tenant) write(writer *job.LogWriter, id domain.AttemptID, offset int64, data []byte) {
	w.t.Helper()
	for len(data) > 0 {
		n := min(1<<20, len(data))
		receipt, err := writer.Append(w.t.Context(), chunks(id, offset, data[:n], 32<<10))
		require.NoError(w.t, err)
		offset, data = offset+int64(n), data[n:]
		require.Equal(w.t, map[domain.AttemptID]int64{id: offset}, receipt.Next)
	}
}

// whole reads an attempt's log from offset to its end, in pages of limit bytes, and checks the
// pages' contract.
func (w *tenant) whole(id domain.AttemptID, offset int64, limit int) (all []byte) {
	w.t.Helper()
	line := int64(-1)
	for {
		page, err := w.services.Logs.Read(w.t.Context(), w.admin, id, offset, limit)
		require.NoError(w.t, err)
		for _, c := range page.Chunks {
			require.Equal(w.t, offset, c.Offset, "offsets are dense")
			require.NotEmpty(w.t, c.Data)
			if line >= 0 {
				require.Equal(w.t, line, c.FirstLine, "at %d", c.Offset)
			}
			line, offset = c.NextLine(), c.End()
			all = append(all, c.Data...)
		}
		require.Equal(w.t, offset, page.Next)
		if offset == page.Size {
			return all
		}
		require.NotEmpty(w.t, page.Chunks)
	}
}

func (w *tenant) seal() {
	w.t.Helper()
	require.NoError(w.t, w.services.Logs.Seal(w.t.Context(), w.system))
}

// TestAnyReadReturnsTheBytes: data is appended in any pieces, twice, too early or on any
// connection. Any read at any offset returns exactly the bytes written: before, during and after
// sealing, and after the day's rows are dropped.
func TestAnyReadReturnsTheBytes(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	ctx := t.Context()
	require.NoError(t, second(w.services.Quotas.Update(ctx, w.admin, quota.MaxRunningRuns, new(int64(100_000)))))
	w.connect("s", 1000)
	written := map[domain.AttemptID][]byte{}
	rapid.Check(t, func(r *rapid.T) {
		id := w.attempt()
		unit := rapid.SampledFrom([]int{3, 300, 30_000, 700_000}).Draw(r, "unit")
		log := noise(unit * 20)
		writer, end, over := w.services.Logs.Writer(w.agent, "s"), 0, false
		read := func() {
			offset := rapid.IntRange(0, end).Draw(r, "offset")
			limit := rapid.IntRange(1, job.MaxLogPage).Draw(r, "limit")
			page, err := w.services.Logs.Read(ctx, w.admin, id, int64(offset), limit)
			require.NoError(r, err)
			var got []byte
			for _, c := range page.Chunks {
				got = append(got, c.Data...)
			}
			require.LessOrEqual(r, len(got), limit)
			require.Equal(r, offset < end, len(got) > 0, "a reader comes on until the end")
			require.True(r, bytes.Equal(log[offset:offset+len(got)], got), "%d bytes at %d of %d", len(got), offset, end)
			require.EqualValues(r, offset+len(got), page.Next)
			require.EqualValues(r, end, page.Size)
			require.Equal(r, over && offset+len(got) == end, page.EOF)
		}
		for range rapid.IntRange(1, 25).Draw(r, "events") {
			switch rapid.IntRange(0, 5).Draw(r, "event") {
			case 0, 1, 2: // a batch that continues the log, repeats a part of it, or is too early
				from := max(0, end-rapid.IntRange(0, unit).Draw(r, "again"))
				to := min(len(log), from+rapid.IntRange(1, 3*unit).Draw(r, "length"))
				if rapid.IntRange(0, 5).Draw(r, "early") == 0 {
					from = min(to, end+1)
				}
				if over || from == to {
					continue
				}
				receipt, err := writer.Append(ctx, chunks(id, int64(from), log[from:to], max(1, unit/2)))
				require.NoError(r, err)
				if from <= end {
					end = max(end, to)
				}
				require.EqualValues(r, end, receipt.Next[id])
			case 3: // another connection
				w.connect("s", 1000, id)
				writer = w.services.Logs.Writer(w.agent, "s")
			case 4:
				w.seal()
			case 5:
				read()
			}
		}
		require.NoError(r, w.exit(id, 0))
		over = true
		read()
		if rapid.Bool().Draw(r, "seal") {
			w.seal()
		}
		read()
		written[id] = log[:end]
	})
	w.seal()
	w.seal() // the newest 200 at a time
	require.Zero(t, count(t, db, `SELECT count(*) FROM attempts WHERE NOT log_sealed`))
	check := func() {
		for id, log := range written {
			require.True(t, bytes.Equal(log, w.whole(id, 0, 300_000)), "%s", id)
			if len(log) > 2 {
				require.True(t, bytes.Equal(log[len(log)/2:], w.whole(id, int64(len(log)/2), job.MaxLogPage)), "%s from its middle", id)
			}
		}
	}
	check()
	require.NoError(t, w.system.Housekeep(ctx, w.clock.Now().Add(5*24*time.Hour)))
	require.Zero(t, count(t, db, `SELECT count(*) FROM log_chunks`), "the rows are gone")
	check()
}

// TestALongLogIsSealedWhileItGrows in segments of 8 MiB; the rest when the attempt ends.
func TestALongLogIsSealedWhileItGrows(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s", 10)
	id := w.attempt()
	writer := w.services.Logs.Writer(w.agent, "s")
	log := noise(19<<20 + 12_345)
	segments := func() int { return count(t, db, `SELECT count(*) FROM log_segments`) }
	w.write(writer, id, 0, log[:7<<20])
	w.seal()
	require.Zero(t, segments(), "too little to seal while it grows")
	w.write(writer, id, 7<<20, log[7<<20:])
	due, err := w.system.UnsealedAttempts(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []domain.AttemptRef{{Workspace: w.admin.Workspace(), Attempt: id}}, due)
	w.seal()
	require.Equal(t, 2, segments())
	require.Zero(t, count(t, db, `SELECT count(*) FROM attempts WHERE log_sealed`))
	due, err = w.system.UnsealedAttempts(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, due, "the rest waits")
	require.True(t, bytes.Equal(log, w.whole(id, 0, job.MaxLogPage)))
	for _, around := range []int{8 << 20, 16 << 20} {
		require.True(t, bytes.Equal(log[around-5:], w.whole(id, int64(around-5), 70_000)))
	}
	require.NoError(t, w.exit(id, 0))
	w.seal()
	require.Equal(t, 3, segments())
	require.Equal(t, 1, count(t, db, `SELECT count(*) FROM attempts WHERE log_sealed`))
	require.Equal(t, len(log), count(t, db, `SELECT max(stop) FROM log_segments`))
	require.Zero(t, count(t, db, `SELECT count(*) FROM log_segments a JOIN log_segments b ON b.start < a.stop AND b.stop > a.start AND b.start <> a.start`))
	require.EqualValues(t, len(log), w.attemptsOf(id).LogSize)
	require.True(t, bytes.Equal(log, w.whole(id, 0, job.MaxLogPage)))
	tail, err := w.services.Logs.Tail(t.Context(), w.admin, id, 100_000)
	require.NoError(t, err)
	require.True(t, bytes.Equal(log[len(log)-100_000:], tail))
}

// TestSealersAtOnce on all replicas seal each byte once.
func TestSealersAtOnce(t *testing.T) {
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s", 10)
	writer := w.services.Logs.Writer(w.agent, "s")
	log := noise(200_000)
	var ids []domain.AttemptID
	for range 6 {
		id := w.attempt()
		w.write(writer, id, 0, log)
		require.NoError(t, w.exit(id, 0))
		ids = append(ids, id)
	}
	require.Equal(t, map[domain.Code]int{"": 6}, atOnce(6, func(int) error { return w.services.Logs.Seal(context.Background(), w.system) }))
	w.seal()
	require.Equal(t, len(ids), count(t, db, `SELECT count(*) FROM log_segments`))
	for _, id := range ids {
		require.True(t, bytes.Equal(log, w.whole(id, 0, 10_000)))
	}
}

func TestReadsThatAreRefused(t *testing.T) {
	s := open(t)
	w, other := newTenant(t, s, "one"), newTenant(t, s, "two")
	w.connect("s", 10)
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, []byte("hello"))
	read := func(offset int64, limit int) error {
		return second(w.services.Logs.Read(t.Context(), w.admin, id, offset, limit))
	}
	require.NoError(t, read(5, 1), "the end is legal")
	require.Equal(t, domain.CodeRange, code(read(6, 1)))
	require.Equal(t, domain.CodeInvalid, code(read(-1, 1)))
	require.Equal(t, domain.CodeInvalid, code(read(0, 0)))
	require.Equal(t, domain.CodeInvalid, code(read(0, job.MaxLogPage+1)))
	for _, limit := range []int{-1, 0, job.MaxLogPage + 1} {
		require.Equal(t, domain.CodeInvalid, code(second(w.services.Logs.Tail(t.Context(), w.admin, id, limit))), "an end of %d bytes", limit)
	}
	require.Equal(t, domain.CodeNotFound, code(second(other.services.Logs.Read(t.Context(), other.admin, id, 0, 1))))
	require.Equal(t, domain.CodeNotFound, code(other.services.Logs.Follow(t.Context(), other.admin, id, 0, nil)))
	sizes, err := other.services.Logs.Sizes(t.Context(), other.admin, []domain.AttemptID{id})
	require.NoError(t, err)
	require.Zero(t, sizes[id])
	sizes, err = w.services.Logs.Sizes(t.Context(), w.admin, []domain.AttemptID{id, "att_none"})
	require.NoError(t, err)
	require.EqualValues(t, 5, sizes[id])
}

// TestAnEndWaitsForTheWholeLog: a success is stored only after its last byte.
func TestAnEndWaitsForTheWholeLog(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s", 10)
	id := w.attempt()
	writer := w.services.Logs.Writer(w.agent, "s")
	w.write(writer, id, 0, []byte("hello"))
	zero := 0
	report := func(end int64) error {
		return w.services.Runs.Report(t.Context(), w.agent, job.AttemptReport{Attempt: id, Exited: true, ExitCode: &zero, LogEnd: end})
	}
	require.ErrorIs(t, report(7), job.ErrLogIncomplete)
	require.Equal(t, job.AttemptRunning, w.attemptsOf(id).Status)
	w.write(writer, id, 5, []byte("!\n"))
	require.NoError(t, report(7))

	receipt, err := writer.Append(t.Context(), []job.LogAppend{chunkAt(id, 7, []byte("after the end"))})
	require.NoError(t, err)
	require.Equal(t, []domain.AttemptID{id}, receipt.Forget, "an attempt that is over takes no more")
	require.Equal(t, "hello!\n", string(w.whole(id, 0, 100)))
	receipt, err = writer.Append(t.Context(), []job.LogAppend{chunkAt("att_stranger", 0, []byte("x"))})
	require.NoError(t, err)
	require.Equal(t, []domain.AttemptID{"att_stranger"}, receipt.Forget)
}

// TestAnOldConnectionStoresNothing once the new one has received its offset.
func TestAnOldConnectionStoresNothing(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s0", 10)
	id := w.attempt()
	written := int64(0)
	for i := range 20 {
		old := w.services.Logs.Writer(w.agent, fmt.Sprint("s", i))
		var writing sync.WaitGroup
		began := make(chan struct{})
		var ended error
		writing.Go(func() {
			for offset := written; ended == nil; offset++ {
				_, ended = old.Append(context.Background(), []job.LogAppend{chunkAt(id, offset, []byte("x"))})
				if offset == written {
					close(began)
				}
			}
		})
		<-began
		desired := w.connect(fmt.Sprint("s", i+1), 10, id)
		next := desired[0].LogNext
		writing.Wait()
		require.ErrorIs(t, ended, job.ErrSuperseded)
		sizes, err := w.services.Logs.Sizes(t.Context(), w.admin, []domain.AttemptID{id})
		require.NoError(t, err)
		require.Equal(t, next, sizes[id], "the old connection stored more than the new one was told")
		written = next
	}
}

// lossy is a store that loses the answer to an agent's commit.
type lossy struct {
	store.Transactor
	lose bool
}

func (l *lossy) In(ctx context.Context, s domain.Scope, fn func(*store.Tx) error) error {
	if err := l.Transactor.In(ctx, s, fn); err != nil || s.Role() != domain.RoleAgent || !l.lose {
		return err
	}
	l.lose = false
	return errors.New("the connection broke before the answer came")
}

// TestABatchWithoutAnAnswer may be stored all the same. If it is sent again it is stored once, and
// followers see it.
func TestABatchWithoutAnAnswer(t *testing.T) {
	w := newTenant(t, open(t), "one")
	ctx := t.Context()
	w.connect("s", 10)
	id := w.attempt()
	lossy := &lossy{Transactor: w.store}
	w.services.Logs.Store = store.For[job.Tx](lossy)
	writer := w.services.Logs.Writer(w.agent, "s")
	pages := make(chan string, 10)
	w.follow(w, id, 0, pages)
	w.write(writer, id, 0, []byte("one\n"))
	require.Equal(t, "one\n", <-pages)
	lossy.lose = true
	batch := []job.LogAppend{chunkAt(id, 4, []byte("two\n"))}
	_, err := writer.Append(ctx, batch)
	require.Error(t, err)
	receipt, err := writer.Append(ctx, batch)
	require.NoError(t, err)
	require.EqualValues(t, 8, receipt.Next[id])
	select {
	case got := <-pages:
		require.Equal(t, "two\n", got)
	case <-time.After(time.Minute):
		t.Fatal("the follower was not told")
	}
	require.Equal(t, "one\ntwo\n", string(w.whole(id, 0, 100)))
	require.NoError(t, w.exit(id, 0))
}

// follow reads the attempt's log at the replica and sends each page's bytes. It closes the channel
// at the log's end.
func (w *tenant) follow(at *tenant, id domain.AttemptID, offset int64, pages chan<- string) {
	var following sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(func() { cancel(); following.Wait() })
	following.Go(func() {
		defer close(pages)
		err := at.services.Logs.Follow(ctx, w.admin, id, offset, func(p job.LogPage) error {
			var data []byte
			for _, c := range p.Chunks {
				data = append(data, c.Data...)
			}
			select {
			case pages <- string(data):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("following: %v", err)
		}
	})
}

// TestTheEndReachesEveryReplica at once, without waiting for the safety tick.
func TestTheEndReachesEveryReplica(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "one")
	there := replica(t, connect(t, dsn), w.clock)
	w.connect("s", 10)
	for range 8 {
		id := w.attempt()
		here, far := make(chan string, 10), make(chan string, 10)
		w.follow(w, id, 0, here)
		w.follow(there, id, 0, far)
		w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, []byte("hello"))
		require.NoError(t, w.exit(id, 0))
		deadline := time.After(time.Minute)
		for _, pages := range []chan string{here, far} {
			got := ""
			for open := true; open; {
				var page string
				select {
				case page, open = <-pages:
					got += page
				case <-deadline:
					t.Fatal("a follower waits for the end of a log that is over")
				}
			}
			require.Equal(t, "hello", got)
		}
	}
}

// TestFollowersOnTwoReplicas get every byte from their offset on, live, whether they start at once
// or late.
func TestFollowersOnTwoReplicas(t *testing.T) {
	s, dsn := openDSN(t)
	w := newTenant(t, s, "one")
	there := replica(t, connect(t, dsn), w.clock)
	w.connect("s", 10)
	id := w.attempt()
	writer := w.services.Logs.Writer(w.agent, "s")
	log := noise(3 << 19)
	var all []chan string
	var from []int
	add := func(at *tenant, offset int) {
		pages := make(chan string)
		w.follow(at, id, int64(offset), pages)
		all, from = append(all, pages), append(from, offset)
	}
	add(w, 0)
	add(there, 0)
	for offset := 0; offset < len(log); {
		n := min(len(log)-offset, 1+rand.IntN(200_000))
		w.write(writer, id, int64(offset), log[offset:offset+n])
		offset += n
		if len(all) < 16 {
			at := rand.IntN(offset + 1)
			add(w, at)
			add(there, at)
		}
	}
	sums := make([][]byte, len(all))
	var reading sync.WaitGroup
	for i := range all {
		reading.Go(func() {
			for page := range all[i] {
				sums[i] = append(sums[i], page...)
			}
		})
	}
	require.NoError(t, w.exit(id, 0))
	reading.Wait()
	for i := range all {
		require.True(t, bytes.Equal(log[from[i]:], sums[i]), "follower %d from %d got %d bytes of %d", i, from[i], len(sums[i]), len(log)-from[i])
	}
	require.Zero(t, w.services.Logs.Followed()+there.services.Logs.Followed())
}

// TestTheLastPageSaysSo with and without bytes: a follower elsewhere may not be woken again.
func TestTheLastPageSaysSo(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s", 10)
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, []byte("hello"))
	eof := func(offset int64, limit int) bool {
		page, err := w.services.Logs.Read(t.Context(), w.admin, id, offset, limit)
		require.NoError(t, err)
		return page.EOF
	}
	require.False(t, eof(0, 10))
	require.NoError(t, w.exit(id, 0))
	require.True(t, eof(0, 10))
	require.False(t, eof(0, 4))
	require.True(t, eof(5, 4))
	pages := make(chan string, 5)
	w.follow(w, id, 2, pages)
	require.Equal(t, "llo", <-pages)
	_, more := <-pages
	require.False(t, more)
}

// TestFollowEndsWithItsCaller and leaves no goroutine.
func TestFollowEndsWithItsCaller(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s", 10)
	id := w.attempt()
	w.write(w.services.Logs.Writer(w.agent, "s"), id, 0, []byte("hello"))
	require.ErrorIs(t, w.services.Logs.Follow(t.Context(), w.admin, id, 0, func(job.LogPage) error { return errMine }), errMine)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.services.Logs.Follow(ctx, w.admin, id, 0, func(job.LogPage) error { cancel(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, w.services.Logs.Followed())
}
