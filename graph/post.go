package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/rest/httpx"
)

// post is the transport of queries and mutations. gqlgen's own answers mistakes with 422, quotes
// the body with its passwords, and waits for a subscription's first event.
type post struct {
	presenter presenter
}

var _ graphql.Transport = post{}

// Supports implements graphql.Transport.
func (post) Supports(r *http.Request) bool { return r.Method == http.MethodPost && !isUpgrade(r) }

// Do implements graphql.Transport.
func (p post) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	params, status, err := readParams(w, r)
	if err != nil {
		p.presenter.refuse(w, r, status, err)
		return
	}
	ctx := r.Context()
	op, errs := exec.CreateOperationContext(ctx, params)
	if errs == nil && op.Operation.Operation == ast.Subscription {
		errs = gqlerror.List{refusal(domain.Errorf(domain.CodeInvalid, "A subscription needs a WebSocket (graphql-transport-ws) at this address."))}
	}
	if errs != nil {
		writeResponse(w, http.StatusOK, exec.DispatchError(graphql.WithOperationContext(ctx, op), errs))
		return
	}
	responses, ctx := exec.DispatchOperation(ctx, op)
	if response := responses(ctx); response != nil { // nil: the client left
		writeResponse(w, http.StatusOK, response)
	}
}

// readParams reads the body's operation. An error comes with its HTTP status.
func readParams(w http.ResponseWriter, r *http.Request) (*graphql.RawParams, int, error) {
	start := graphql.Now()
	body, err := httpx.Receive(w, r, maxBody)
	if err == nil {
		err = httpx.Count(r.Context(), body, httpx.MaxDepth, httpx.MaxValues)
	}
	if err != nil {
		return nil, statusOf(err), err
	}
	params, err := decodeParams(body)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	params.Headers = r.Header
	params.ReadTime = graphql.TraceTiming{Start: start, End: graphql.Now()}
	return params, http.StatusOK, nil
}

// decodeParams keeps all digits of numbers.
func decodeParams(body []byte) (*graphql.RawParams, error) {
	if !json.Valid(body) {
		return nil, domain.Errorf(domain.CodeInvalid, "The body is not JSON.")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var params graphql.RawParams
	if err := decoder.Decode(&params); err != nil || params.Query == "" {
		return nil, domain.Errorf(domain.CodeInvalid, `Send one operation as {"query": "…", "variables": {…}, "operationName": "…"}.`)
	}
	return &params, nil
}

// statusOf returns the status of a request that is refused before it is read as GraphQL.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*httpx.Refusal](err); ok {
		return refused.Status
	}
	switch domain.AsError(err).Code {
	case domain.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case domain.CodeRate:
		return http.StatusTooManyRequests
	case domain.CodeUnavailable:
		return http.StatusServiceUnavailable
	case domain.CodeInternal:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// refuse answers with a status and one error, in GraphQL's form.
func (p presenter) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", domain.AsError(err).Seconds())
	}
	writeResponse(w, status, &graphql.Response{Errors: gqlerror.List{p.present(r.Context(), err)}})
}

func writeResponse(w http.ResponseWriter, status int, response *graphql.Response) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	for _, part := range encoded(response) {
		if _, err := w.Write(part); err != nil {
			return // the client left
		}
	}
}

// largeData is the size, in bytes, above which an answer's data is not scanned again.
const largeData = 1 << 20

// encoded returns the parts of the body. Large data is not copied: it is already JSON, written by
// gqlgen and the domain.
func encoded(response *graphql.Response) [][]byte {
	if len(response.Data) > largeData && response.Errors == nil && response.Extensions == nil {
		return [][]byte{[]byte(`{"data":`), response.Data, []byte("}")}
	}
	body, err := json.Marshal(response)
	if err != nil {
		panic(err) // data that is not JSON: gqlgen answers with an internal error
	}
	return [][]byte{body}
}
