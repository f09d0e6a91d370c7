package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lib/pq"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/job"
)

// FenceSession implements job.Tx.
func (t *Tx) FenceSession(ctx context.Context, agent domain.AgentID, session string) (current bool, live []domain.AttemptID, err error) {
	var row struct {
		Current bool           `db:"current"`
		Live    pq.StringArray `db:"live"`
	}
	err = t.get(ctx, &row, `SELECT a.session = $3 AS current, ARRAY(SELECT t.id FROM attempts t WHERE t.workspace_id = a.workspace_id AND t.agent_id = a.id
		AND t.status IN ('starting', 'running')) AS live FROM agents a WHERE a.workspace_id = $1 AND a.id = $2 FOR KEY SHARE OF a`, t.workspace, agent, session)
	for _, id := range row.Live {
		live = append(live, domain.AttemptID(id))
	}
	return row.Current, live, orMissing(err, nil)
}

type logEndRow struct {
	Attempt domain.AttemptID `db:"attempt_id"`
	Offset  int64            `db:"stop"`
	Line    int64            `db:"next_line"`
}

// LogEnds implements job.Tx. The end is that of the last chunk, or of the last segment once
// the chunks are dropped. Each is the last entry of an index.
func (t *Tx) LogEnds(ctx context.Context, ids []domain.AttemptID) (map[domain.AttemptID]job.LogEnd, error) {
	ends := make(map[domain.AttemptID]job.LogEnd, len(ids))
	if len(ids) == 0 {
		return ends, nil
	}
	for _, id := range ids {
		ends[id] = job.LogEnd{Line: 1}
	}
	var found []logEndRow
	err := t.sel(ctx, &found, `SELECT wanted.id AS attempt_id, e.stop, e.next_line FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
		(SELECT start + length(data) AS stop, next_line FROM log_chunks WHERE workspace_id = $1 AND attempt_id = wanted.id ORDER BY start DESC LIMIT 1)
		UNION ALL
		(SELECT stop, next_line FROM log_segments WHERE workspace_id = $1 AND attempt_id = wanted.id ORDER BY start DESC LIMIT 1)
		ORDER BY stop DESC LIMIT 1) e`, t.workspace, texts(ids))
	for _, f := range found {
		ends[f.Attempt] = job.LogEnd{Offset: f.Offset, Line: f.Line}
	}
	return ends, err
}

// InsertLog implements job.Tx, with one statement for all chunks. All bytes are sent as one
// value that the statement cuts up. An array of bytea would be sent as hexadecimal text, and a full
// batch would take three times as long.
func (t *Tx) InsertLog(ctx context.Context, chunks []job.LogAppend) error {
	n, total := len(chunks), 0
	attempts, times := make([]string, n), make([]string, n)
	starts, streams, lines, nexts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	places, lengths := make([]int64, n), make([]int64, n)
	for i, c := range chunks {
		attempts[i], starts[i], streams[i] = string(c.Attempt), c.Offset, int64(c.Stream)
		lines[i], nexts[i], times[i] = c.FirstLine, c.NextLine(), c.EmittedAt.Format(time.RFC3339Nano)
		places[i], lengths[i] = int64(total+1), int64(len(c.Data))
		total += len(c.Data)
	}
	data := make([]byte, 0, total)
	for _, c := range chunks {
		data = append(data, c.Data...)
	}
	return t.exec(ctx, `INSERT INTO log_chunks (workspace_id, attempt_id, start, stream, first_line, next_line, emitted_at, data)
		SELECT $1, attempt, start, stream, first_line, next_line, emitted_at, substring($10::bytea FROM place FOR length)
		FROM unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::int[], $9::int[])
			AS c (attempt, start, stream, first_line, next_line, emitted_at, place, length)`,
		t.workspace, pq.Array(attempts), pq.Array(starts), pq.Array(streams), pq.Array(lines), pq.Array(nexts), pq.Array(times),
		pq.Array(places), pq.Array(lengths), data)
}

type chunkRow struct {
	Start     int64         `db:"start"`
	Stream    job.LogStream `db:"stream"`
	FirstLine int64         `db:"first_line"`
	EmittedAt time.Time     `db:"emitted_at"`
	Data      []byte        `db:"data"`
}

// maxChunks bounds the chunks of one read, which may be as short as a line.
const maxChunks = 4096

// LogChunks implements job.Tx. It finds the chunk with the offset by the index, which neither
// max() nor COALESCE under the policies guarantees. That chunk always exists, since the first
// begins at 0. The sum reads only lengths, so no byte past the limit leaves the database.
func (t *Tx) LogChunks(ctx context.Context, id domain.AttemptID, offset int64, limit int) ([]job.LogChunk, error) {
	return rows(ctx, t.conn, chunkRow.toDomain, `SELECT start, stream, first_line, emitted_at, data FROM (
		SELECT start, stream, first_line, emitted_at, data, sum(length(data)) OVER (ORDER BY start) - length(data) AS before FROM (
			SELECT start, stream, first_line, emitted_at, data FROM log_chunks
			WHERE workspace_id = $1 AND attempt_id = $2 AND start >= (SELECT start FROM log_chunks
				WHERE workspace_id = $1 AND attempt_id = $2 AND start <= $3 ORDER BY start DESC LIMIT 1) ORDER BY start LIMIT $4) page) summed
		WHERE before < $5 AND start + length(data) > $3 ORDER BY start`, t.workspace, id, offset, maxChunks, limit)
}

type newsRow struct {
	Attempt   domain.AttemptID  `db:"id"`
	Status    job.AttemptStatus `db:"status"`
	Start     sql.NullInt64     `db:"start"`
	Stream    sql.NullInt16     `db:"stream"`
	FirstLine sql.NullInt64     `db:"first_line"`
	EmittedAt sql.NullTime      `db:"emitted_at"`
	Data      []byte            `db:"data"`
}

// LogNews implements job.Tx. It is LogChunks for many attempts in one statement.
func (t *Tx) LogNews(ctx context.Context, wants []job.LogWant, limit int) (map[domain.AttemptID]job.LogNews, error) {
	ids, offsets := make([]string, len(wants)), make([]int64, len(wants))
	for i, w := range wants {
		ids[i], offsets[i] = string(w.Attempt), w.Offset
	}
	var found []newsRow
	err := t.sel(ctx, &found, `SELECT a.id, a.status, c.start, c.stream, c.first_line, c.emitted_at, c.data
		FROM unnest($2::text[], $3::bigint[]) AS wanted (id, at) JOIN attempts a ON a.workspace_id = $1 AND a.id = wanted.id
		LEFT JOIN LATERAL (SELECT * FROM (
			SELECT *, sum(length(data)) OVER (ORDER BY start) - length(data) AS before FROM (
				SELECT start, stream, first_line, emitted_at, data FROM log_chunks
				WHERE workspace_id = $1 AND attempt_id = wanted.id AND start + length(data) > wanted.at AND start >= (SELECT start
					FROM log_chunks WHERE workspace_id = $1 AND attempt_id = wanted.id AND start <= wanted.at ORDER BY start DESC LIMIT 1)
				ORDER BY start LIMIT $4) page) summed
			WHERE before < $5) c ON true
		ORDER BY a.id, c.start`, t.workspace, pq.Array(ids), pq.Array(offsets), maxChunks, limit)
	if err != nil {
		return nil, err
	}
	news := make(map[domain.AttemptID]job.LogNews, len(wants))
	size := map[domain.AttemptID]int{}
	for _, r := range found {
		n := news[r.Attempt]
		n.Over = r.Status.Final()
		if r.Start.Valid {
			n.Chunks = append(n.Chunks, job.LogChunk{
				Offset: r.Start.Int64, Stream: job.LogStream(r.Stream.Int16), FirstLine: r.FirstLine.Int64, EmittedAt: r.EmittedAt.Time.UTC(), Data: r.Data,
			})
			size[r.Attempt] += len(r.Data)
			n.More = size[r.Attempt] >= limit || len(n.Chunks) == maxChunks
		}
		news[r.Attempt] = n
	}
	return news, nil
}

func (r chunkRow) toDomain() (job.LogChunk, error) {
	return job.LogChunk{Offset: r.Start, Stream: r.Stream, FirstLine: r.FirstLine, EmittedAt: r.EmittedAt.UTC(), Data: r.Data}, nil
}

type segmentRow struct {
	Start     int64  `db:"start"`
	Stop      int64  `db:"stop"`
	FirstLine int64  `db:"first_line"`
	NextLine  int64  `db:"next_line"`
	ObjectKey string `db:"object_key"`
	Size      int64  `db:"size"`
}

// LogSegmentAt implements job.Tx.
func (t *Tx) LogSegmentAt(ctx context.Context, id domain.AttemptID, offset int64) (*job.LogSegment, error) {
	var r segmentRow
	err := t.get(ctx, &r, `SELECT start, stop, first_line, next_line, object_key, size FROM log_segments
		WHERE workspace_id = $1 AND attempt_id = $2 AND start <= $3 ORDER BY start DESC LIMIT 1`, t.workspace, id, offset)
	if errors.Is(err, sql.ErrNoRows) || err == nil && r.Stop <= offset {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &job.LogSegment{Start: r.Start, End: r.Stop, FirstLine: r.FirstLine, NextLine: r.NextLine, Key: r.ObjectKey, Size: r.Size}, nil
}

// LockSealing implements job.Tx.
func (t *Tx) LockSealing(ctx context.Context, id domain.AttemptID) (sealed job.LogEnd, free bool, err error) {
	if err := t.get(ctx, &free, `SELECT pg_try_advisory_xact_lock(7236403, hashtext($1))`, id); err != nil || !free {
		return sealed, false, err
	}
	var r segmentRow
	err = t.get(ctx, &r, `SELECT start, stop, first_line, next_line, object_key, size FROM log_segments
		WHERE workspace_id = $1 AND attempt_id = $2 ORDER BY start DESC LIMIT 1`, t.workspace, id)
	return job.LogEnd{Offset: r.Stop, Line: max(1, r.NextLine)}, true, orMissing(err, nil)
}

// InsertLogSegment implements job.Tx.
func (t *Tx) InsertLogSegment(ctx context.Context, id domain.AttemptID, s job.LogSegment) error {
	return t.insert(ctx, "log_segments", values{
		"attempt_id": id, "start": s.Start, "stop": s.End, "first_line": s.FirstLine, "next_line": s.NextLine, "object_key": s.Key, "size": s.Size,
	})
}

// SetSealed implements job.Tx.
func (t *Tx) SetSealed(ctx context.Context, id domain.AttemptID) error {
	return t.exec(ctx, `UPDATE attempts SET log_sealed = true WHERE workspace_id = $1 AND id = $2`, t.workspace, id)
}
