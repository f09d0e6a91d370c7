package store_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
	"github.com/millpond/millpond/store"
)

// TestNewsOfManyLogs: one read returns the bytes of each log beyond its offset, where there is
// more, and which attempts are over.
func TestNewsOfManyLogs(t *testing.T) {
	w := newTenant(t, open(t), "one")
	w.connect("s", 10)
	writer := w.services.Logs.Writer(w.agent, "s")
	log := noise(200_000)
	long, short, silent, over := w.attempt(), w.attempt(), w.attempt(), w.attempt()
	for offset := 0; offset < len(log); offset += 10_000 {
		w.write(writer, long, int64(offset), log[offset:offset+10_000])
	}
	w.write(writer, short, 0, log[:100])
	w.write(writer, over, 0, log[:50])
	require.NoError(t, w.exit(over, 0))

	news := func(limit int, wants ...job.LogWant) (found map[domain.AttemptID]job.LogNews) {
		in(t, w.store, w.admin, func(ctx context.Context, tx *store.Tx) (err error) {
			found, err = tx.LogNews(ctx, wants, limit)
			return err
		})
		return found
	}
	found := news(1<<20, job.LogWant{Attempt: long, Offset: 15_000}, job.LogWant{Attempt: short, Offset: 100}, job.LogWant{Attempt: silent},
		job.LogWant{Attempt: over}, job.LogWant{Attempt: "att_none"})
	require.Len(t, found, 4, "an attempt that is not there has no news")
	require.True(t, bytes.Equal(log[10_000:], joined(found[long].Chunks)), "from the chunk on that holds the offset")
	require.EqualValues(t, 10_000, found[long].Chunks[0].Offset)
	require.Equal(t, [2]bool{false, false}, [2]bool{found[long].More, found[long].Over})
	require.Empty(t, found[short].Chunks)
	require.Equal(t, job.LogNews{}, found[silent])
	require.True(t, found[over].Over)
	require.Equal(t, log[:50], joined(found[over].Chunks))

	var got []byte
	for more, at := true, int64(0); more; at = int64(len(got)) { // in pieces, like a tail that has fallen behind
		n := news(25_000, job.LogWant{Attempt: long, Offset: at})[long]
		require.LessOrEqual(t, len(joined(n.Chunks)), 30_000)
		got, more = append(got, joined(n.Chunks)...), n.More
	}
	require.True(t, bytes.Equal(log, got))
}

func joined(chunks []job.LogChunk) (all []byte) {
	for _, c := range chunks {
		all = append(all, c.Data...)
	}
	return all
}

// TestAPageDeepInALogReadsFewRows: the index finds a page at any depth of the log.
func TestAPageDeepInALogReadsFewRows(t *testing.T) {
	const count = 20_000 // chunks
	s, dsn := openDSN(t)
	w, db := newTenant(t, s, "one"), superuser(t, dsn)
	w.connect("s", 10)
	id := w.attempt()
	log := noise(count)
	writer := w.services.Logs.Writer(w.agent, "s")
	for offset := 0; offset < count; offset += 5000 {
		_, err := writer.Append(t.Context(), chunks(id, int64(offset), log[offset:offset+5000], 1))
		require.NoError(t, err)
	}
	// Each connection counts its reads, and reports them after a while of inactivity.
	rowsRead := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'log_chunks%'`).Scan(&n))
		return n
	}
	for name, read := range map[string]func(ctx context.Context, tx *store.Tx) error{
		"a page": func(ctx context.Context, tx *store.Tx) error { return second(tx.LogChunks(ctx, id, count-10, 1000)) },
		"news": func(ctx context.Context, tx *store.Tx) error {
			return second(tx.LogNews(ctx, []job.LogWant{{Attempt: id, Offset: count - 10}}, 1000))
		},
	} {
		settled := rowsRead()
		require.Eventually(t, func() bool { before := settled; settled = rowsRead(); return before == settled }, time.Minute, 1500*time.Millisecond)
		in(t, s, w.admin, read)
		after := 0
		require.Eventually(t, func() bool { after = rowsRead(); return after > settled }, time.Minute, 100*time.Millisecond)
		require.Less(t, after-settled, 100, name)
	}
}
