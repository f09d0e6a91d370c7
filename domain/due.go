package domain

import (
	"context"
	"errors"
	"time"
)

// Due is work of the platform that is due at a time.
type Due struct {
	At time.Time
	Do func(context.Context) error
}

// Tick does the work that is due, MaxLimit items at most, and returns when the next is due, or the
// zero time if due knows none. due returns work in the order of its times; more than limit items
// make Tick return at once to the rest. Any replica may call Tick: locks ensure that work is done
// once. Failed work delays no other.
func Tick(ctx context.Context, clock Clock, due func(ctx context.Context, now time.Time, limit int) ([]Due, error)) (next time.Time, err error) {
	all, err := due(ctx, clock.Now(), MaxLimit)
	if err != nil {
		return time.Time{}, err
	}
	now := clock.Now()
	var failed []error
	for i, d := range all {
		if i == MaxLimit || d.At.After(now) {
			return d.At, errors.Join(failed...)
		}
		failed = append(failed, d.Do(ctx))
	}
	return time.Time{}, errors.Join(failed...)
}
