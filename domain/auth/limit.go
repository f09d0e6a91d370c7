package auth

import (
	"time"

	"github.com/go-chi/httprate"

	"github.com/millpond/millpond/domain"
)

// limitWindow is the sliding window in which failures are counted.
const limitWindow = time.Minute

// failures counts failed logins and links by key. An attempt counts from its beginning and is
// subtracted if it succeeds. So parallel attempts gain nothing over sequential ones.
type failures struct {
	counter httprate.LimitCounter
	limit   int
}

func newFailures(limit int) failures {
	return failures{counter: httprate.NewLocalLimitCounter(limitWindow), limit: limit}
}

// begin counts an attempt, or returns domain.CodeRate. The caller reports the outcome to end. An
// empty key has no limit.
func (f failures) begin(key string, now time.Time) (end func(succeeded bool), err error) {
	if key == "" {
		return func(bool) {}, nil
	}
	window := now.UTC().Truncate(limitWindow)
	if err := f.counter.Increment(key, window); err != nil {
		return nil, err
	}
	end = func(succeeded bool) {
		if succeeded {
			_ = f.counter.IncrementBy(key, window, -1) // in memory: never fails
		}
	}
	current, previous, err := f.counter.Get(key, window, window.Add(-limitWindow))
	if err != nil {
		return nil, err
	}
	left := limitWindow - now.UTC().Sub(window)
	if float64(current)+float64(previous)*float64(left)/float64(limitWindow) > float64(f.limit) {
		end(true)
		refused := domain.Errorf(domain.CodeRate, "Too many failed attempts; wait a minute and try again.")
		refused.Wait = 60
		return nil, refused
	}
	return end, nil
}
