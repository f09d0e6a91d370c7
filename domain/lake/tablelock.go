package lake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millpond/millpond/domain"
)

// A writer that lost three races for a table reserves it for reservedTime, among all replicas and
// clients. Others wait until it has committed, or the time is over.
const (
	reservedTime = 10 * time.Second
	reservedPoll = 250 * time.Millisecond // about: each waiter queries the database
)

// errOvertaken is the cause of a refusal after another commit changed the table.
var errOvertaken = errors.New("another commit was faster")

// lostRace records a commit that err refused since others were faster.
func (c *Catalog) lostRace(ctx context.Context, s domain.Scope, all []Change, err error) {
	if !errors.Is(err, errOvertaken) || len(all) != 1 {
		return
	}
	ctx, cancel := lasting(ctx)
	defer cancel()
	row, err := c.row(ctx, s, all[0].Ref, KindTable)
	if err == nil {
		now := c.Clock.Now()
		err = c.Store.In(ctx, s, func(tx Tx) error {
			return tx.NoteLostRace(ctx, row.ID, s.Actor(), now, now.Add(reservedTime))
		})
	}
	if err != nil && ReasonOf(err) != NoSuchTable {
		c.Report(fmt.Errorf("a lost race for the table %s: %w", all[0].Ref.Name, err))
	}
}

// awaitReservation waits while another writer has reserved one of the tables. CommitFailed after
// until.
func (c *Catalog) awaitReservation(ctx context.Context, s domain.Scope, all []Change, until time.Time) error {
	for {
		waits := false
		for _, ch := range all {
			row, err := c.row(ctx, s, ch.Ref, KindTable)
			if err != nil {
				return nil // the next try reports the error
			}
			err = c.Store.In(ctx, s, func(tx Tx) (err error) {
				another, err := tx.TurnOfAnother(ctx, row.ID, s.Actor(), c.Clock.Now())
				waits = waits || another
				return err
			})
			if err != nil {
				return err
			}
		}
		if !waits {
			return nil
		}
		if !time.Now().Before(until) {
			return failed(CommitFailed, "Another writer has reserved the table; try again.").because(errOvertaken)
		}
		select {
		case <-time.After(reservedPoll/2 + rand.N(reservedPoll)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tableLocks serializes commits to one table within this process, so that they do not fail each
// other.
type tableLocks struct {
	mu     sync.Mutex
	tables map[string]*tableLock
}

type tableLock struct {
	free    chan struct{} // holds one token
	waiting int
	last    Table // the row that the previous holder committed; zero if unknown
}

// newest returns the row, or a newer one that was committed here.
func (l *tableLock) newest(row Table) Table {
	if l.last.ID == row.ID && l.last.Version > row.Version {
		return l.last
	}
	return row
}

func newTableLocks() *tableLocks { return &tableLocks{tables: map[string]*tableLock{}} }

// lock waits for the table's lock. The caller holds it until it calls done.
func (l *tableLocks) lock(ctx context.Context, name string) (mine *tableLock, done func(), err error) {
	l.mu.Lock()
	mine = l.tables[name]
	if mine == nil {
		mine = &tableLock{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		l.tables[name] = mine
	}
	mine.waiting++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if mine.waiting--; mine.waiting == 0 {
			delete(l.tables, name)
		}
	}
	select {
	case <-mine.free:
		return mine, func() { mine.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, nil, ctx.Err()
	}
}
