package loader

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// reads records the keys of each read.
type reads struct {
	mu    sync.Mutex
	of    [][]int
	fails error
}

func (r *reads) read(_ context.Context, keys []int) (map[int]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = append(r.of, keys)
	found := map[int]int{}
	for _, k := range keys {
		if k%2 == 0 {
			found[k] = k * 10
		}
	}
	return found, r.fails
}

func TestSiblingsAreReadTogetherHoweverFarApartTheyAreAskedFor(t *testing.T) {
	var r reads
	f := newFamily(r.read)
	f.expect([]int{2, 4, 6, 2})
	for _, k := range []int{4, 2, 6, 4} { // one after the other: each waits for its value
		v, err := f.load(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, k*10, v)
	}
	require.Len(t, r.of, 1)
	require.ElementsMatch(t, []int{2, 4, 6}, r.of[0])
}

func TestStrangersAskedForAtOnceAreReadTogether(t *testing.T) {
	var r reads
	f := newFamily(r.read)
	var all sync.WaitGroup
	for k := range 2 * maxBatch {
		all.Go(func() {
			v, err := f.load(t.Context(), k)
			if err != nil || k%2 == 0 && v != k*10 || k%2 == 1 && v != 0 {
				t.Errorf("%d has %d, %v", k, v, err)
			}
		})
	}
	all.Wait()
	for _, keys := range r.of {
		require.LessOrEqual(t, len(keys), maxBatch)
	}
	require.Less(t, len(r.of), maxBatch/2, "nothing was read together")
}

func TestAFailureIsEverybodysWhoAsked(t *testing.T) {
	r := reads{fails: errors.New("the database is away")}
	f := newFamily(r.read)
	f.expect([]int{1, 2})
	for _, k := range []int{1, 2} {
		_, err := f.load(t.Context(), k)
		require.ErrorIs(t, err, r.fails)
	}
	require.Len(t, r.of, 1)
}

func TestTheLoadersAreThoseOfTheContext(t *testing.T) {
	_, ok := From(t.Context())
	require.False(t, ok, "outside of a response there are none")
	l := &Loaders{}
	got, ok := From(With(t.Context(), l))
	require.True(t, ok)
	require.Same(t, l, got)
}
