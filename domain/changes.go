package domain

import (
	"context"
	"maps"
	"time"
)

// Change identifies the transaction that last changed what readers see of an item. A greater change
// began later, but may have been committed earlier.
type Change uint64

// Changing is an item with its last change.
type Changing interface {
	// LastChange returns the item's last change and its id.
	LastChange() (Change, string)
}

// Position is where a read of changes begins. A round of reads returns, page by page, what changed
// since the round before.
type Position struct {
	// From is set in the first round, which reads what is live, and what ended after From.
	From   time.Time
	Change Change // reads this change and later ones
	ID     string // without the items of the change up to this one; empty on a round's first page
	Next   Change // where the next round begins; 0 on a round's first page
}

// Changes is one page of changed items in their latest state, in the order of their changes.
type Changes[T any] struct {
	Items []T
	Next  Position // of the next page, or of the next round
	More  bool     // whether there may be a next page
}

// ChangedSince reads a page of changes. read returns the items at the position, and whether there
// may be more. The next round begins at the oldest transaction that is open before the round's
// first read: so no change is missed however late it is committed, and some are read twice.
func ChangedSince[X Tx, T Changing](ctx context.Context, store Store[X], s Scope, a Action, p Position, read func(X, context.Context, Position) ([]T, bool, error)) (c Changes[T], err error) {
	if err := Authorize(ctx, store, s, a); err != nil {
		return c, err
	}
	err = store.In(ctx, s, func(tx X) (err error) {
		next := p
		if next.Next == 0 {
			if next.Next, err = tx.OldestOpen(ctx); err != nil {
				return err
			}
		}
		c.Items, c.More, err = read(tx, ctx, p)
		c.Next = Position{Change: next.Next}
		if c.More {
			next.Change, next.ID = c.Items[len(c.Items)-1].LastChange()
			c.Next = next
		}
		return err
	})
	return c, err
}

// overlap is how far before a follower's start it returns what has ended, so that a list that was
// read just before misses nothing.
const overlap = time.Minute

// Follower finds changes for one subscriber. Its first read finds what is live, and what ended in
// the last minute. Each further read finds the items that are new or have changed since, each in
// its latest state: several changes between two reads are one.
type Follower[T Changing] struct {
	read    func(context.Context, Position) (Changes[T], error)
	matches func(T) bool
	leaves  func(T) bool
	at      Position
	sent    map[string]Change   // the changes that the next round may read again
	inside  map[string]struct{} // the items that matched when they were last sent, and may leave
}

// Follow returns a follower that begins at the time. It returns the items that match, or matched
// when they were last returned; nil matches all. leaves reports whether a matching item may still
// change so that it does not match.
func Follow[T Changing](now time.Time, read func(context.Context, Position) (Changes[T], error), matches, leaves func(T) bool) *Follower[T] {
	return &Follower[T]{
		read: read, matches: matches, leaves: leaves, at: Position{From: now.Add(-overlap)},
		sent: map[string]Change{}, inside: map[string]struct{}{},
	}
}

// Each calls send with each change since the last call. After an error of the store, the next call
// continues where this one ended.
func (f *Follower[T]) Each(ctx context.Context, send func(T) error) error {
	for more := true; more; {
		page, err := f.read(ctx, f.at)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if !f.fresh(item) {
				continue
			}
			if err := send(item); err != nil {
				return err
			}
		}
		f.at, more = page.Next, page.More
	}
	maps.DeleteFunc(f.sent, func(_ string, c Change) bool { return c < f.at.Change })
	return nil
}

// fresh reports whether to send the item, and remembers it.
func (f *Follower[T]) fresh(item T) bool {
	change, id := item.LastChange()
	if f.sent[id] == change {
		return false
	}
	f.sent[id] = change
	if f.matches == nil {
		return true
	}
	_, matched := f.inside[id]
	matches := f.matches(item)
	if matches && f.leaves(item) {
		f.inside[id] = struct{}{}
	} else {
		delete(f.inside, id)
	}
	return matches || matched
}
