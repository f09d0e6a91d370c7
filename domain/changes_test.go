package domain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

type changing struct {
	id      string
	changed domain.Change
	state   string
}

func (c changing) LastChange() (domain.Change, string) { return c.changed, c.id }

// rounds is a source of changes: its pages in order, and the positions that were asked for.
type rounds struct {
	pages []domain.Changes[changing]
	asked []domain.Position
	err   error
}

func (r *rounds) read(_ context.Context, p domain.Position) (page domain.Changes[changing], err error) {
	if r.err != nil {
		return page, r.err
	}
	r.asked = append(r.asked, p)
	page, r.pages = r.pages[0], r.pages[1:]
	return page, nil
}

// add adds a round of one page, after which reading continues at next.
func (r *rounds) add(next domain.Change, items ...changing) {
	r.pages = append(r.pages, domain.Changes[changing]{Items: items, Next: domain.Position{Change: next}})
}

func each(t *testing.T, f *domain.Follower[changing]) (got []string) {
	t.Helper()
	require.NoError(t, f.Each(t.Context(), func(c changing) error { got = append(got, c.id+" "+c.state); return nil }))
	return got
}

func TestAFollowerDropsWhatItReadsTwice(t *testing.T) {
	var source rounds
	began := time.Now()
	f := domain.Follow(began, source.read, nil, nil)
	source.add(10, changing{"a", 5, "new"}, changing{"b", 12, "new"})
	require.Equal(t, []string{"a new", "b new"}, each(t, f))
	source.add(10, changing{"b", 12, "new"}, changing{"c", 13, "new"})
	require.Equal(t, []string{"c new"}, each(t, f), "b is the same")
	source.add(14, changing{"a", 11, "late"}, changing{"b", 10, "late"}, changing{"c", 13, "new"})
	require.Equal(t, []string{"a late", "b late"}, each(t, f), "an earlier transaction can be the last to write a row")
	source.add(20)
	require.Empty(t, each(t, f))
	require.Equal(t, []domain.Position{{From: began.Add(-time.Minute)}, {Change: 10}, {Change: 10}, {Change: 14}}, source.asked)
}

func TestAFollowerReadsAllPagesAndContinuesAfterAnError(t *testing.T) {
	var source rounds
	f := domain.Follow(time.Now(), source.read, nil, nil)
	second := domain.Position{Change: 7, ID: "a", Next: 10}
	source.pages = []domain.Changes[changing]{{Items: []changing{{"a", 7, "new"}}, Next: second, More: true}}
	source.add(10, changing{"b", 8, "new"})
	require.Equal(t, []string{"a new", "b new"}, each(t, f))
	require.Equal(t, second, source.asked[1])

	source.err = errors.New("away")
	require.ErrorIs(t, f.Each(t.Context(), nil), source.err)
	source.err = nil
	source.add(11, changing{"c", 10, "new"})
	require.Equal(t, []string{"c new"}, each(t, f))
	require.Equal(t, domain.Position{Change: 10}, source.asked[2])
}

func TestAFollowerTellsWhatStopsMatching(t *testing.T) {
	var source rounds
	runs := func(c changing) bool { return c.state == "running" }
	f := domain.Follow(time.Now(), source.read, runs, runs)
	source.add(2, changing{"a", 1, "pending"}, changing{"b", 1, "running"})
	require.Equal(t, []string{"b running"}, each(t, f))
	source.add(4, changing{"a", 2, "failed"}, changing{"b", 3, "done"})
	require.Equal(t, []string{"b done"}, each(t, f), "a never matched")
	source.add(6, changing{"a", 4, "running"}, changing{"b", 5, "pending"})
	require.Equal(t, []string{"a running"}, each(t, f), "b did not match when it was last sent")
	source.add(8, changing{"a", 6, "done"}, changing{"b", 7, "running"})
	require.Equal(t, []string{"a done", "b running"}, each(t, f))
}

// openTx is a transaction while others are open, and the store that has only it.
type openTx struct {
	domain.Tx
	oldest domain.Change
}

func (t openTx) OldestOpen(context.Context) (domain.Change, error) { return t.oldest, nil }

func (t openTx) In(_ context.Context, _ domain.Scope, fn func(openTx) error) error { return fn(t) }

// A transaction that was open at the round's first page may have ended at the second, behind it.
func TestARoundIsFollowedFromItsFirstPage(t *testing.T) {
	second := nextOf(t, openTx{oldest: 10}, domain.Position{Change: 5}, true, 15)
	require.Equal(t, domain.Position{Change: 15, ID: "a", Next: 10}, second)
	require.Equal(t, domain.Position{Change: 10}, nextOf(t, openTx{oldest: 20}, second, false, 17))
	require.Equal(t, domain.Position{Change: 20}, nextOf(t, openTx{oldest: 20}, domain.Position{Change: 10}, false))
}

// nextOf returns the position after a page of items with the changes.
func nextOf(t *testing.T, tx openTx, p domain.Position, more bool, changes ...domain.Change) domain.Position {
	t.Helper()
	read := func(openTx, context.Context, domain.Position) (items []changing, _ bool, _ error) {
		for _, c := range changes {
			items = append(items, changing{"a", c, "new"})
		}
		return items, more, nil
	}
	c, err := domain.ChangedSince(t.Context(), tx, domain.SystemScope("ws_1", "test"), domain.RunRead, p, read)
	require.NoError(t, err)
	require.Equal(t, more, c.More)
	return c.Next
}
