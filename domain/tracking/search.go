package tracking

import (
	"context"

	"github.com/millpond/millpond/domain"
)

// RunSearch selects a page of runs.
type RunSearch struct {
	Experiments []domain.ExperimentID
	Filter      string
	Order       []string
	View        View
	Limit       int    // 1 to MaxRunsPage
	Cursor      string // of the previous page; empty for the first
}

// maxSearched bounds the experiments of one search.
const maxSearched = 10_000

// searchBytes bounds what the runs on one page logged, in bytes. A page that would exceed it ends
// earlier.
const searchBytes = 8 << 20

// Search returns a page of the runs that match, with what they logged. The order ends with the
// start, newest first, and the id. Without an order it is that.
func (r *Runs) Search(ctx context.Context, s domain.Scope, q RunSearch) (l domain.List[Run], err error) {
	if err := domain.Authorize(ctx, r.Store, s, domain.TrackingRunRead); err != nil {
		return l, err
	}
	query, err := q.query()
	if err != nil || len(q.Experiments) == 0 {
		return l, err
	}
	err = r.turns.do(ctx, s, func(ctx context.Context) error {
		return r.Store.In(ctx, s, func(tx Tx) error {
			items, keys, err := tx.TrackingRuns(ctx, query)
			if err != nil {
				return err
			}
			l = page(items, keys, query, false, func(r Run) domain.TrackingRunID { return r.ID })
			return fill(ctx, tx, &l)
		})
	})
	return l, err
}

// fill reads what the runs logged, and shortens the page to searchBytes.
func fill(ctx context.Context, tx Tx, l *domain.List[Run]) error {
	if len(l.Items) == 0 {
		return nil
	}
	whole, err := tx.FillTrackingRuns(ctx, l.Items, searchBytes)
	if err == nil && whole < len(l.Items) {
		l.Next = l.Cursor(l.Items[whole-1])
		l.Items = l.Items[:whole]
	}
	return err
}

func (q RunSearch) query() (Query, error) {
	where, err := ParseRunFilter(q.Filter)
	if err != nil {
		return Query{}, err
	}
	order, err := ParseRunOrder(q.Order)
	if err != nil {
		return Query{}, err
	}
	if len(q.Experiments) > maxSearched {
		return Query{}, domain.Invalid("experiment_ids", "A search takes at most %d experiments; this one has %d.", maxSearched, len(q.Experiments))
	}
	query, cursor := Query{Experiments: q.Experiments, Where: where, Order: order, View: q.View, Limit: q.Limit}, q.Cursor
	q.Limit, q.Cursor = 0, ""
	return newQuery("tracking_runs", q, query, cursor, MaxRunsPage)
}
