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

// Tick does the work that is due, and returns when to call it next, or the zero time if no work
// comes. due returns at most limit items, earliest first. Any replica may call Tick: locks ensure
// that work is done once. Failed work delays no other.
func Tick(ctx context.Context, clock Clock, due func(ctx context.Context, now time.Time, limit int) ([]Due, error)) (next time.Time, err error) {
	all, err := due(ctx, clock.Now(), MaxLimit)
	if err != nil {
		return time.Time{}, err
	}
	now := clock.Now()
	var failed []error
	for _, d := range all {
		if d.At.After(now) {
			return d.At, errors.Join(failed...)
		}
		failed = append(failed, d.Do(ctx))
	}
	return time.Time{}, errors.Join(failed...)
}
