package graph

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

func TestEveryCodeHasItsOwn(t *testing.T) {
	require.Len(t, codes, len(domain.Codes))
	used := map[string]bool{}
	for _, c := range domain.Codes {
		require.NotEmpty(t, codes[c], c)
		require.False(t, used[codes[c]], c)
		used[codes[c]] = true
	}
}

func TestErrorsShowWhatTheyMayAndNoMore(t *testing.T) {
	ctx := requested(t, "req_1")
	secret := errors.New("pq: password of the database is hunter2")
	for name, c := range map[string]struct {
		err                  error
		code, message, field string
	}{
		"the domain's":        {domain.Invalid("tasks[2].depends_on", "No."), "INVALID", "No.", "tasks[2].dependsOn"},
		"a variable's":        {domain.Invalid("environment.MY_VAR_name", "No."), "INVALID", "No.", "environment.MY_VAR_name"},
		"a header's":          {domain.Invalid("Idempotency-Key", "No."), "INVALID", "No.", "idempotencyKey"},
		"wrapped":             {graphql.ErrorOnPath(ctx, domain.NotFound("run", "r")), "NOT_FOUND", `There is no run "r" in this workspace.`, ""},
		"with a cause":        {domain.Errorf(domain.CodeUnavailable, "Later.").Because(secret), "UNAVAILABLE", "Later.", ""},
		"anything else":       {secret, "INTERNAL", domain.AsError(secret).Message, ""},
		"anything else, deep": {gqlerror.Wrap(secret), "INTERNAL", domain.AsError(secret).Message, ""},
		"GraphQL's own":       {gqlerror.Errorf("unknown field"), "INVALID", "Unknown field.", ""},
		"given up":            {context.Canceled, "UNAVAILABLE", "The request was given up before it was answered.", ""},
	} {
		var log bytes.Buffer
		p := presenter{log: slog.New(slog.NewTextHandler(&log, nil))}
		got := p.present(ctx, c.err)
		require.Equal(t, c.message, got.Message, name)
		require.Equal(t, c.code, got.Extensions["code"], name)
		require.Equal(t, "req_1", got.Extensions["requestId"], name)
		require.Equal(t, c.field, value(asString(got.Extensions["field"])), name)
		require.NotContains(t, got.Message, "hunter2", name)
		if errors.Is(c.err, secret) {
			require.Contains(t, log.String(), "hunter2", name)
			require.Contains(t, log.String(), "req_1", name)
		}
		require.Same(t, got, p.present(ctx, got), "an error that was presented stays as it is")
	}
}

func asString(v any) *string {
	s, ok := v.(string)
	if !ok {
		return nil
	}
	return &s
}

func TestAnErrorInATextSaysWhereAndOfWhatStatement(t *testing.T) {
	p := presenter{log: slog.New(slog.DiscardHandler)}
	got := p.present(t.Context(), ofStatement("stm_1", &domain.Error{Code: domain.CodeInvalid, Message: "No.", Field: "query", Line: 3, Column: 14}))
	require.Equal(t, map[string]any{"code": "INVALID", "requestId": "", "field": "query", "line": 3, "column": 14, "statementId": domain.StatementID("stm_1")}, got.Extensions)
	without := p.present(t.Context(), ofStatement("", domain.Invalid("query", "No.")))
	require.NotContains(t, without.Extensions, "line")
	require.NotContains(t, without.Extensions, "statementId")
}

func TestAPanicIsAnInternalError(t *testing.T) {
	w := newWorld(t, quick)
	a := w.tenant("acme")
	broken := w.services
	broken.Quotas = nil
	w.services = broken
	w.serve(quick)
	res := w.query(bearer(a.admin.token), `{ quotas { id } overview { agents } }`, nil)
	require.Equal(t, 200, res.Status)
	require.Equal(t, "INTERNAL", res.code())
	require.NotContains(t, res.Body, "nil pointer")
	require.Contains(t, w.log.String(), "nil pointer")
}

// requested is the context of a request with the id.
func requested(t *testing.T, id string) (ctx context.Context) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set(httpx.RequestIDHeader, id)
	httpx.Face{Server: httpx.NewServer(httpx.Bounds{})}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { ctx = r.Context() })).ServeHTTP(httptest.NewRecorder(), r)
	return ctx
}
