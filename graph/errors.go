package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// codes maps the domain's codes to extensions.code.
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

// unnamedOperation is gqlgen's message if the request names no operation, and the query does not
// have exactly one.
const unnamedOperation = "operation  not found"

// Keys of errors' extensions.
const (
	extCode      = "code"
	extField     = "field"       // of the wrong input, such as tasks[2].dependsOn
	extRequest   = "requestId"   // finds the error in the server's log
	extLine      = "line"        // position in the field, from 1
	extColumn    = "column"      // in characters, from 1
	extStatement = "statementId" // the failed statement
)

// statementError is the error of a statement that can be queried.
type statementError struct {
	error
	id domain.StatementID
}

// Unwrap returns the underlying error.
func (e statementError) Unwrap() error { return e.error }

// ofStatement adds the statement's id, if there is one, to an error.
func ofStatement(id domain.StatementID, err error) error {
	if err == nil || id == "" {
		return err
	}
	return statementError{err, id}
}

// presenter turns errors into what a client may see, and logs the causes.
type presenter struct {
	log *slog.Logger
}

// present implements graphql.ErrorPresenterFunc. An error that was already presented does not
// change.
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
	out.Extensions = map[string]any{extCode: codes[e.Code], extRequest: httpx.RequestID(ctx)}
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

// note logs an error that the client sees only as a request id.
func (p presenter) note(ctx context.Context, e *domain.Error, out *gqlerror.Error) {
	if e.Code == domain.CodeInternal {
		p.log.ErrorContext(ctx, "graphql: internal error", "error", e, "path", out.Path.String(), "request_id", httpx.RequestID(ctx))
	} else if cause := e.Unwrap(); cause != nil {
		p.log.WarnContext(ctx, "graphql: error", "code", e.Code, "error", e, "path", out.Path.String(), "request_id", httpx.RequestID(ctx))
	}
}

// asError reads an error as a domain error. An error without a cause, raised by GraphQL's own
// rules, is the client's mistake.
func asError(err error) *domain.Error {
	if e, ok := errors.AsType[*domain.Error](err); ok {
		return e
	}
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		return refusedByHTTP(refused)
	}
	if errors.Is(err, context.Canceled) {
		return domain.Errorf(domain.CodeUnavailable, "The request was given up before it was answered.")
	}
	if g, ok := errors.AsType[*gqlerror.Error](err); ok && g.Err == nil {
		if g.Message == unnamedOperation {
			return domain.Errorf(domain.CodeInvalid, "Name one of the query's operations in operationName.")
		}
		return domain.Errorf(domain.CodeInvalid, "%s", sentence(g.Message))
	}
	return domain.AsError(err)
}

func refusedByHTTP(r *httpx.Refusal) *domain.Error {
	if r.Status >= http.StatusInternalServerError {
		return domain.Errorf(domain.CodeInternal, "%s", r.Message)
	}
	return domain.Errorf(domain.CodeInvalid, "%s", r.Message)
}

// recovered implements graphql.RecoverFunc.
func (p presenter) recovered(ctx context.Context, v any) error {
	return p.present(ctx, domain.AsError(fmt.Errorf("panic: %v\n%s", v, debug.Stack())))
}

// refusal is an error of an operation that is refused before its execution. gqlgen sends it alone
// only if it is a protocol error.
func refusal(err *domain.Error) *gqlerror.Error {
	g := gqlerror.Wrap(err)
	errcode.Set(g, errcode.ValidationFailed)
	return g
}

// sentence turns GraphQL's own message into a sentence.
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

// camelCase writes a field of the domain, such as schedule.time_zone, in the schema's form. Names
// of variables do not change.
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
