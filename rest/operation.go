package rest

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

// answer is an operation's output that has only a body.
type answer[T any] struct {
	Body T
}

// answered shows the result of a service call as an answer.
func answered[D, T any](show func(D) T) func(D, error) (*answer[T], error) {
	return func(d D, err error) (*answer[T], error) {
		if err != nil {
			return nil, err
		}
		return &answer[T]{show(d)}, nil
	}
}

// nothing is the input of an operation without input, and the output of an operation that answers
// 204.
type nothing struct{}

// operate registers an operation for signed-in callers.
func operate[I, O any](a *api, op huma.Operation, do func(context.Context, domain.Scope, *I) (*O, error)) {
	op.Security = []map[string][]string{{"bearer": {}}}
	register(a, op, func(ctx context.Context, in *I) (*O, error) {
		scope, err := auth.From(ctx)
		if err != nil {
			return nil, err
		}
		return do(ctx, scope, in)
	})
}

// operatePublic registers an operation that needs no credential.
func operatePublic[I, O any](a *api, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	op.Security = []map[string][]string{}
	register(a, op, do)
}

func register[I, O any](a *api, op huma.Operation, do func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes, op.BodyReadTimeout = -1, -1 // readBody bounds both
	_, body := reflect.TypeFor[I]().FieldByName("Body")
	documentFailures(&op, body)
	huma.Register(a.API, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.translate(ctx, err)
		}
		return out, nil
	})
}

// documentFailures adds the error answers that follow from the operation's shape to those in its
// Errors.
func documentFailures(op *huma.Operation, body bool) {
	failures := append(op.Errors, http.StatusBadRequest, http.StatusInternalServerError, http.StatusServiceUnavailable)
	op.Errors = nil // huma would add 422
	if len(op.Security) > 0 {
		failures = append(failures, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
	}
	if strings.Contains(op.Path, "{") {
		failures = append(failures, http.StatusNotFound)
	}
	if body {
		failures = append(failures, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	for _, status := range failures {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + failureName(status)}
	}
}
