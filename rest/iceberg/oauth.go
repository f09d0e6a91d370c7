package iceberg

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/identity"
	"github.com/millpond/millpond/rest/httpx"
)

// The grant types, and the type of the issued tokens.
const (
	clientCredentials = "client_credentials"
	tokenExchange     = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessToken       = "urn:ietf:params:oauth:token-type:access_token"
)

// granted is the answer to a valid credential.
type granted struct {
	Token  string `json:"access_token"`
	Type   string `json:"token_type"`
	Issued string `json:"issued_token_type"`
	Life   int    `json:"expires_in"` // seconds
	Scope  string `json:"scope,omitempty"`
}

// oauthError is an error in OAuth's form (RFC 6749, 5.2).
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`

	status int
}

func badRequest(code, description string) *oauthError {
	return &oauthError{Code: code, Description: description, status: http.StatusBadRequest}
}

func invalidClient(description string) *oauthError {
	return &oauthError{Code: "invalid_client", Description: description, status: http.StatusUnauthorized}
}

// oauthToken issues a short-lived token for an API key, or renews a valid token. It ignores the
// requested scope: a token has the rights of its key.
func (f *face) oauthToken(w http.ResponseWriter, r *http.Request) {
	form, refused := f.oauthForm(w, r)
	if refused == nil {
		var credential string
		if credential, refused = presented(r, form); refused == nil {
			var g granted
			if g, refused = f.grant(r.Context(), credential); refused == nil {
				g.Scope = form.Get("scope")
				writeJSON(w, http.StatusOK, g)
				return
			}
		}
	}
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="millpond"`)
	}
	if refused.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, refused.status, refused)
}

func (f *face) oauthForm(w http.ResponseWriter, r *http.Request) (url.Values, *oauthError) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || httpx.NotCoded(r.Header) != nil {
		return nil, &oauthError{"invalid_request", "Send the body as a form, with the header Content-Type: application/x-www-form-urlencoded.", http.StatusUnsupportedMediaType}
	}
	body, err := httpx.Receive(w, r, httpx.AnonymousBytes)
	if err != nil {
		shown := f.translate(r.Context(), err)
		return nil, &oauthError{"invalid_request", shown.message, shown.status}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, badRequest("invalid_request", "The form is malformed; encode %, & and ; in its values.")
	}
	for name, values := range form {
		if len(values) > 1 {
			return nil, badRequest("invalid_request", "The parameter "+httpx.Shorten(name)+" is given more than once.")
		}
	}
	return form, nil
}

// presented returns the credential of a token request. A client with an expired token may present
// its key instead.
func presented(r *http.Request, form url.Values) (string, *oauthError) {
	_, secret, basic := r.BasicAuth()
	if basic {
		if decoded, err := url.QueryUnescape(secret); err == nil {
			secret = decoded // RFC 6749, 2.3.1; an API key has nothing to encode
		}
	} else {
		secret = form.Get("client_secret")
	}
	switch form.Get("grant_type") {
	case clientCredentials:
		return apiKey(secret)
	case tokenExchange:
		if secret != "" {
			return apiKey(secret)
		}
		if token := form.Get("subject_token"); token != "" {
			return token, nil
		}
		return "", badRequest("invalid_request", "The parameter subject_token is missing; give the token to be renewed.")
	case "":
		return "", badRequest("invalid_request", "The parameter grant_type is missing; use client_credentials.")
	}
	return "", badRequest("unsupported_grant_type", "Use the grant_type client_credentials with an API key, or "+tokenExchange+" with a token.")
}

func apiKey(secret string) (string, *oauthError) {
	switch {
	case secret == "":
		return "", invalidClient("The client's secret is missing; give an API key (" + identity.APIKeyPrefix + "…) as client_secret.")
	case !strings.HasPrefix(secret, identity.APIKeyPrefix):
		return "", invalidClient("The client's secret is not an API key; make one in the console and give it (" + identity.APIKeyPrefix + "…) as client_secret.")
	}
	return secret, nil
}

func (f *face) grant(ctx context.Context, credential string) (granted, *oauthError) {
	token, life, err := f.Auth.Exchange(ctx, credential)
	if domain.IsCode(err, domain.CodeUnauthenticated) {
		return granted{}, invalidClient("The API key or the token is unknown, expired or revoked.")
	}
	if err != nil {
		shown := f.translate(ctx, err)
		return granted{}, &oauthError{"temporarily_unavailable", shown.message, shown.status}
	}
	return granted{Token: token, Type: "bearer", Issued: accessToken, Life: int(life.Seconds())}, nil
}
