package store

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// OldestOpen implements domain.Tx.
func (t *Tx) OldestOpen(ctx context.Context) (c domain.Change, err error) {
	err = t.get(ctx, &c, `SELECT pg_snapshot_xmin(pg_current_snapshot())`)
	return c, err
}

// past excludes the rows of a restored dump that have changes of its source which are ahead of this
// database. They count as unchanged.
const past = `changed < pg_snapshot_xmax(pg_current_snapshot())`

// changedSince returns the condition of a page of changed rows in the order of changed, id, and its
// arguments. $4 is the page's limit.
func (t *Tx) changedSince(p domain.Position) (where string, args []any) {
	where = `workspace_id = $1 AND (changed, id) > ($2, $3)`
	if p.From.IsZero() {
		where += ` AND ` + past
	}
	return where, []any{t.workspace, p.Change, p.ID, domain.MaxLimit}
}

// firstRound narrows changedSince in the first round to the rows that are live, and those of the
// last changed ones that ended after $5. The array is read once, by indexes.
func (t *Tx) firstRound(where string, args []any, p domain.Position, table, live string) (string, []any) {
	if p.From.IsZero() {
		return where, args
	}
	return where + ` AND id = ANY (ARRAY(SELECT id FROM ` + table + ` WHERE workspace_id = $1 AND ` + live + ` UNION
		SELECT id FROM (SELECT id, finished_at FROM ` + table + ` WHERE workspace_id = $1 AND ` + past + ` ORDER BY changed DESC LIMIT $4) AS latest
		WHERE finished_at > $5))`, append(args, p.From)
}
