package domain

import "time"

// Clock tells the current time. Rules that depend on time use it, so that tests can set it.
type Clock interface {
	Now() time.Time
}

// SystemClock is the machine's clock in UTC, to the microsecond, which is what the database stores.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
