package graph

import (
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// stream runs f on the WebSocket and yields what it sends. It ends with the subscription, and
// reports an error of f to the client. done is called at the end.
func stream[T any](ctx context.Context, s *server, done func(), f func(send func(T) error) error) (<-chan T, error) {
	out := make(chan T)
	send := func(v T) error {
		select {
		case out <- v:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run := func() {
		defer close(out)
		defer done()
		if err := f(send); err != nil && ctx.Err() == nil {
			transport.AddSubscriptionError(ctx, s.presenter.present(ctx, err))
		}
	}
	c := socketOf(ctx)
	if c == nil {
		done()
		return nil, domain.Errorf(domain.CodeInvalid, "A subscription needs a WebSocket.")
	}
	if !c.spawn(run) {
		done()
		close(out) // the connection has just ended
	}
	return out, nil
}

// live reads at once, and again after each notification, until ctx ends. Notifications during a
// read, or within the pace, are merged. A temporary failure is retried; any other error ends it.
func (s *server) live(ctx context.Context, wake <-chan struct{}, read func() error) error {
	return s.paced(ctx, s.timing.pace, wake, read)
}

// paced is live with another minimum between two reads.
func (s *server) paced(ctx context.Context, least time.Duration, wake <-chan struct{}, read func() error) error {
	for {
		err := read()
		if err != nil && (!passing(err) || ctx.Err() != nil) {
			return err
		}
		var retry <-chan time.Time
		if err != nil {
			s.Log.WarnContext(ctx, "graphql: a live query waits for the database", "error", err, "request_id", httpx.RequestID(ctx))
			retry = time.After(s.timing.retry)
		}
		pace := time.After(least)
		select {
		case <-wake:
		case <-retry:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-pace:
		case <-ctx.Done():
			return nil
		}
	}
}

// passing reports whether an error is temporary.
func passing(err error) bool {
	code := domain.AsError(err).Code
	return code == domain.CodeInternal || code == domain.CodeUnavailable
}

// sendAll sends the changes.
func sendAll[T any](ctx context.Context, changed func(context.Context) ([]T, error), send func(T) error) error {
	all, err := changed(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := send(v); err != nil {
			return err
		}
	}
	return nil
}

// follow sends what each yields, as show presents it: at first, and again after each notification.
func follow[T, V any](ctx context.Context, s *server, wake <-chan struct{}, stop func(), each func(context.Context, func(T) error) error, show func(T) V) (<-chan V, error) {
	return stream(ctx, s, stop, func(send func(V) error) error {
		return s.live(ctx, wake, func() error {
			return each(ctx, func(v T) error { return send(show(v)) })
		})
	})
}

// same presents a domain type that the schema binds.
func same[T any](v T) T { return v }
