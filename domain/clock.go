package domain

import "time"

// Clock tells the time where time decides something.
type Clock interface {
	Now() time.Time
}

// SystemClock is the machine's clock in UTC, to the microsecond that the database keeps.
type SystemClock struct{}

// Now implements Clock.
func (SystemClock) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
