package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/millpond/millpond/domain"
)

// post is the transport of queries and mutations. gqlgen's own answers 422 to mistakes, quotes the body, passwords included, and waits for a
// subscription's first event.
type post struct {
	presenter presenter
}

var _ graphql.Transport = post{}

// Supports implements graphql.Transport.
func (post) Supports(r *http.Request) bool { return r.Method == http.MethodPost && !isUpgrade(r) }

// Do implements graphql.Transport.
func (p post) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	params, status, err := readParams(r)
	if err != nil {
		writeErrors(w, status, p.presenter.present(r.Context(), err))
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
	if response := responses(ctx); response != nil { // nil: the client is gone
		writeResponse(w, http.StatusOK, response)
	}
}

// readParams reads the one operation of the body. An error comes with the HTTP status to answer.
func readParams(r *http.Request) (*graphql.RawParams, int, error) {
	start := graphql.Now()
	body, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, http.StatusRequestEntityTooLarge, domain.Errorf(domain.CodeTooLarge, "The request is larger than %d bytes.", tooLarge.Limit)
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return nil, http.StatusRequestTimeout, domain.Errorf(domain.CodeInvalid, "The body did not arrive in time; send the request again.")
	}
	if err != nil {
		return nil, http.StatusBadRequest, domain.Errorf(domain.CodeInvalid, "The request's body broke off.")
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

func writeErrors(w http.ResponseWriter, status int, errs ...*gqlerror.Error) {
	writeResponse(w, status, &graphql.Response{Errors: errs})
}

func writeResponse(w http.ResponseWriter, status int, response *graphql.Response) {
	body := encoded(response)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone
}

// largeData is from where on an answer's data is not looked through once more, in bytes.
const largeData = 1 << 20

// encoded is the body. Large data, which gqlgen and the domain have written as JSON, is copied once.
func encoded(response *graphql.Response) []byte {
	if len(response.Data) > largeData && response.Errors == nil && response.Extensions == nil {
		return slices.Concat([]byte(`{"data":`), response.Data, []byte("}"))
	}
	body, err := json.Marshal(response)
	if err != nil {
		panic(err) // data that is not JSON: answered by gqlgen as an internal error
	}
	return body
}
