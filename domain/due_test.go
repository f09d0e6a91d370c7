package domain_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
)

type still time.Time

func (s still) Now() time.Time { return time.Time(s) }

// Failed work delays no other, and what comes later is not done yet.
func TestATickDoesWhatIsDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	var did []string
	work := func(name string, at time.Duration, err error) domain.Due {
		return domain.Due{At: now.Add(at), Do: func(context.Context) error { did = append(did, name); return err }}
	}
	broken := errors.New("broken")
	all := []domain.Due{work("missed", -time.Hour, broken), work("due", 0, nil), work("later", time.Minute, nil), work("last", time.Hour, nil)}
	tick := func(n int, unread error) (time.Time, error) {
		return domain.Tick(t.Context(), still(now), func(context.Context, time.Time, int) ([]domain.Due, error) { return all[:n], unread })
	}
	next, err := tick(4, nil)
	require.Equal(t, []string{"missed", "due"}, did)
	require.ErrorIs(t, err, broken)
	require.Equal(t, now.Add(time.Minute), next)
	next, err = tick(0, nil)
	require.NoError(t, err)
	require.Zero(t, next)
	did, all = nil, slices.Repeat([]domain.Due{work("many", 0, nil)}, domain.MaxLimit+1)
	next, err = tick(len(all), nil)
	require.NoError(t, err)
	require.Equal(t, []any{domain.MaxLimit, now}, []any{len(did), next}, "the rest is due at once")
	did = did[:2]
	require.ErrorIs(t, second(tick(4, broken)), broken)
	require.Len(t, did, 2)
}

func second[T any](_ T, err error) error { return err }
