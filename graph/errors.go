package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
)

// codes is what extensions.code says for each code of the domain.
var codes = map[domain.Code]string{
	domain.CodeInvalid:         "INVALID",
	domain.CodeUnauthenticated: "UNAUTHENTICATED",
	domain.CodeForbidden:       "FORBIDDEN",
	domain.CodeNotFound:        "NOT_FOUND",
	domain.CodeConflict:        "CONFLICT",
	domain.CodeQuota:           "QUOTA_EXCEEDED",
	domain.CodeTooLarge:        "TOO_LARGE",
	domain.CodeRange:           "RANGE",
	domain.CodeRate:            "RATE_LIMITED",
	domain.CodeUnavailable:     "UNAVAILABLE",
	domain.CodeInternal:        "INTERNAL",
}

// unnamedOperation is what gqlgen says of a query with several operations, or none, where the request names none of them.
const unnamedOperation = "operation  not found"

// errors' extensions.
const (
	extCode      = "code"
	extField     = "field"       // of the input that is wrong, such as tasks[2].dependsOn
	extRequest   = "requestId"   // leads to the server's log
	extLine      = "line"        // position in the field, from 1
	extColumn    = "column"      // in characters, from 1
	extStatement = "statementId" // that failed
)

// statementError is that of a statement which can be looked at.
type statementError struct {
	error
	id domain.StatementID
}

// Unwrap returns the error itself.
func (e statementError) Unwrap() error { return e.error }

// ofStatement leads from an error to the statement; there may be none.
func ofStatement(id domain.StatementID, err error) error {
	if err == nil || id == "" {
		return err
	}
	return statementError{err, id}
}

// presenter turns errors into what a client may see, and logs what it may not.
type presenter struct {
	log *slog.Logger
}

// present implements graphql.ErrorPresenterFunc. One that was presented already stays as it is.
func (p presenter) present(ctx context.Context, err error) *gqlerror.Error {
	out := &gqlerror.Error{}
	if g, ok := errors.AsType[*gqlerror.Error](err); ok {
		if _, presented := g.Extensions[extRequest]; presented {
			return g
		}
		out.Path, out.Locations = g.Path, g.Locations
	}
	if out.Path == nil {
		out.Path = graphql.GetPath(ctx)
	}
	e := asError(err)
	p.note(ctx, e, out)
	out.Err, out.Message = e, e.Message
	out.Extensions = map[string]any{extCode: codes[e.Code], extRequest: requestID(ctx)}
	if e.Field != "" {
		out.Extensions[extField] = camelCase(e.Field)
	}
	if e.Line > 0 {
		out.Extensions[extLine], out.Extensions[extColumn] = e.Line, e.Column
	}
	if of, ok := errors.AsType[statementError](err); ok {
		out.Extensions[extStatement] = of.id
	}
	return out
}

// note logs what leaves only as a request id.
func (p presenter) note(ctx context.Context, e *domain.Error, out *gqlerror.Error) {
	if e.Code == domain.CodeInternal {
		p.log.ErrorContext(ctx, "graphql: internal error", "error", e, "path", out.Path.String(), "request_id", requestID(ctx))
	} else if cause := e.Unwrap(); cause != nil {
		p.log.WarnContext(ctx, "graphql: error", "code", e.Code, "error", e, "path", out.Path.String(), "request_id", requestID(ctx))
	}
}

// asError reads an error as one of the domain. One without a cause that GraphQL's own rules raised is the client's mistake.
func asError(err error) *domain.Error {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) {
		return domain.Errorf(domain.CodeUnavailable, "The request was given up before it was answered.")
	}
	if g, ok := errors.AsType[*gqlerror.Error](err); ok && g.Err == nil {
		if g.Message == unnamedOperation {
			return domain.Errorf(domain.CodeInvalid, "Say in operationName which of the query's operations is meant; it needs one.")
		}
		return domain.Errorf(domain.CodeInvalid, "%s", sentence(g.Message))
	}
	return domain.AsError(err)
}

// recovered implements graphql.RecoverFunc.
func (p presenter) recovered(ctx context.Context, v any) error {
	return p.present(ctx, domain.AsError(fmt.Errorf("panic: %v\n%s", v, debug.Stack())))
}

// refusal is an error of an operation that is refused before it is executed: gqlgen answers with it alone only when it counts as one of the protocol.
func refusal(err *domain.Error) *gqlerror.Error {
	g := gqlerror.Wrap(err)
	errcode.Set(g, errcode.ValidationFailed)
	return g
}

// sentence makes GraphQL's own message one of ours.
func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// camelCase writes a field of the domain, such as schedule.time_zone, as the schema does. Names of variables stay as they are.
func camelCase(field string) string {
	if field == "Idempotency-Key" {
		return "idempotencyKey"
	}
	parts := strings.Split(field, ".")
	for i, part := range parts {
		if i > 0 && (strings.HasSuffix(parts[i-1], "environment") || strings.HasSuffix(parts[i-1], "parameters")) {
			continue
		}
		parts[i] = camel(part)
	}
	return strings.Join(parts, ".")
}

func camel(s string) string {
	words := strings.Split(s, "_")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = string(unicode.ToUpper(rune(w[0]))) + w[1:]
		}
	}
	return strings.Join(words, "")
}
