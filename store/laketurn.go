package store

import (
	"context"
	"time"

	"github.com/millpond/millpond/domain"
)

func writerOf(a domain.Actor) string { return string(a.Kind) + ":" + a.ID }

// NoteLostRace implements lake.Tx. For a minute after an unused turn, losses do not
// count, so that no writer blocks others forever.
func (t *Tx) NoteLostRace(ctx context.Context, id domain.TableID, writer domain.Actor, now, until time.Time) error {
	if err := t.exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('lake_turns:' || $1 || $2, 0))`, t.workspace, id); err != nil {
		return err
	}
	return t.exec(ctx, `INSERT INTO lake_turns AS t (workspace_id, table_id, writer, lost, lost_at)
		SELECT $1, $2, $3, 1, $4 WHERE EXISTS (SELECT FROM lake_tables WHERE workspace_id = $1 AND id = $2)
		ON CONFLICT (workspace_id, table_id, writer) DO UPDATE SET lost_at = $4,
			lost = CASE WHEN t.until <= $4 OR t.lost_at < $4 - interval '1 minute' THEN 1 ELSE t.lost + 1 END,
			until = CASE WHEN t.until > $4 - interval '1 minute' THEN t.until
				WHEN t.until IS NULL AND t.lost >= 2 AND t.lost_at >= $4 - interval '1 minute'
					AND NOT EXISTS (SELECT FROM lake_turns o WHERE o.workspace_id = $1 AND o.table_id = $2 AND o.writer <> $3 AND o.until > $4) THEN $5::timestamptz END`,
		t.workspace, id, writerOf(writer), now, until)
}

// TurnOfAnother implements lake.Tx.
func (t *Tx) TurnOfAnother(ctx context.Context, id domain.TableID, writer domain.Actor, now time.Time) (found bool, err error) {
	err = t.get(ctx, &found, `SELECT EXISTS (SELECT FROM lake_turns WHERE workspace_id = $1 AND table_id = $2 AND writer <> $3 AND until > $4)`, t.workspace, id, writerOf(writer), now)
	return found, err
}

// ForgetLostRaces implements lake.System.
func (s *System) ForgetLostRaces(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM lake_turns WHERE lost_at < $1`, before)
	return mapError(err)
}
