package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/millpond/millpond/domain/auth"
	"github.com/millpond/millpond/domain/job"
)

// followed sends the log as it grows. It ends with the attempt, when the client leaves, or with the
// credential.
func (l *logAnswer) followed() error {
	if err := http.NewResponseController(l.w).Flush(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(l.r.Context())
	var watch sync.WaitGroup
	watch.Go(func() { cancel(l.auth.Watch(ctx, l.credential())) })
	defer watch.Wait()
	defer cancel(nil)
	next, err := l.follow(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	if err != nil {
		return err
	}
	h := l.w.Header()
	h.Set(http.TrailerPrefix+nextOffsetHeader, strconv.FormatInt(next, 10))
	if l.attempt != nil {
		h.Set(http.TrailerPrefix+attemptHeader, strconv.Itoa(l.attempt.Number))
	}
	return nil
}

func (l *logAnswer) follow(ctx context.Context) (next int64, err error) {
	if l.attempt == nil {
		if l.attempt, err = l.awaitAttempt(ctx); err != nil || l.attempt == nil {
			return 0, err
		}
	}
	out := l.sink()
	next = l.part.from
	err = l.Logs.Follow(ctx, l.scope, l.attempt.ID, l.part.from, func(page job.LogPage) error {
		next = page.Next
		if err := out.write(page.Chunks); err != nil {
			return err
		}
		if page.EOF {
			return out.end()
		}
		return out.flush()
	})
	return next, err
}

// awaitAttempt waits for the first attempt. It returns nil if there will be no attempt.
func (l *logAnswer) awaitAttempt(ctx context.Context) (*job.Attempt, error) {
	wake, stop, err := l.Runs.Watch(ctx, l.scope, l.query.run)
	if err != nil {
		return nil, err
	}
	defer stop()
	for {
		over, err := l.taskOver(ctx) // checked first: a concurrently created attempt is found below
		if err != nil {
			return nil, err
		}
		attempt, err := l.Runs.Attempt(ctx, l.scope, l.query.run, l.query.key, 0)
		if err != nil || attempt != nil || over {
			return attempt, err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *logAnswer) taskOver(ctx context.Context) (bool, error) {
	run, err := l.Runs.Get(ctx, l.scope, l.query.run)
	if err != nil || run.Status.Final() {
		return true, err
	}
	tasks, err := l.Runs.Tasks(ctx, l.scope, l.query.run)
	for _, t := range tasks {
		if t.Key == l.query.key && t.Status.Final() {
			return true, err
		}
	}
	return false, err
}

// credential is the session or, if there is none, the bearer token: a followed log outlives the
// access token that it was opened with.
func (l *logAnswer) credential() auth.Credential {
	if l.scope.Actor().Session != "" {
		return auth.Credential{Scope: l.scope}
	}
	_, token, _ := strings.Cut(l.r.Header.Get("Authorization"), " ")
	return auth.Credential{Scope: l.scope, Token: strings.TrimSpace(token)}
}
