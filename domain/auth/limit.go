package auth

import (
	"time"

	"github.com/go-chi/httprate"

	"github.com/millpond/millpond/domain"
)

// limitWindow is the time that failures are counted over. It slides.
const limitWindow = time.Minute

// failures counts failed logins and links by key. An attempt counts from its beginning and is taken back when it succeeds, so that many at once are no more
// than one after another.
type failures struct {
	counter httprate.LimitCounter
	limit   int
}

func newFailures(limit int) failures {
	return failures{counter: httprate.NewLocalLimitCounter(limitWindow), limit: limit}
}

// begin counts an attempt, or refuses it with domain.CodeRate; the attempt's outcome is told to the function returned. No key is no limit.
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
		return nil, domain.Errorf(domain.CodeRate, "Too many failed attempts; wait a minute and try again.")
	}
	return end, nil
}
