package auth

import (
	"context"
	"net/http"
	"strings"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/quota"
)

// CookieName is the console's session cookie on secure and local connections. On others it is
// plainCookieName.
const (
	CookieName      = "__Host-millpond"
	plainCookieName = "millpond"
)

// ConsoleHeader is required on requests that change something by the cookie: other sites' pages
// cannot set it.
const ConsoleHeader = "X-Requested-With"

type contextKey int

const (
	resultKey contextKey = iota
	requestKey
)

type result struct {
	scope domain.Scope
	err   error
}

// Middleware authenticates requests as Recognize does, and counts them to their workspace: From
// returns CodeRate for one too many.
func (s *Service) Middleware(cookies func(*http.Request) bool) func(http.Handler) http.Handler {
	return s.middleware(cookies, s.requests.Begin)
}

// Recognize authenticates requests: by their bearer token, or by the console's cookie if cookies
// returns true. It refuses no request; handlers call From.
func (s *Service) Recognize(cookies func(*http.Request) bool) func(http.Handler) http.Handler {
	var uncounted *quota.Requests
	return s.middleware(cookies, uncounted.Begin)
}

func (s *Service) middleware(cookies func(*http.Request) bool, begin func(context.Context, domain.Scope) (func(), error)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			scope, err := s.recognise(r, cookies(r))
			if err == nil {
				var end func()
				if end, err = begin(r.Context(), scope); err == nil {
					defer end()
				}
			}
			ctx := context.WithValue(r.Context(), resultKey, result{scope, err})
			ctx = context.WithValue(ctx, requestKey, &exchange{w: w, r: r})
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// NoCookies is for handlers that accept only bearer tokens.
func NoCookies(*http.Request) bool { return false }

func (s *Service) recognise(r *http.Request, cookie bool) (domain.Scope, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || token == "" {
			return domain.Scope{}, domain.Errorf(domain.CodeUnauthenticated, "Send the token as \"Authorization: Bearer <token>\".")
		}
		return s.Bearer(r.Context(), strings.TrimSpace(token))
	}
	if c, err := sessionCookie(r); cookie && err == nil {
		return s.Cookie(r.Context(), c.Value)
	}
	return domain.Scope{}, errEnded()
}

// sessionCookie returns only the cookie that newCookie would set on this connection: other hosts
// can plant the plain one.
func sessionCookie(r *http.Request) (*http.Cookie, error) { return r.Cookie(newCookie(r, "").Name) }

// From returns the scope that Middleware found, or the error. It refuses agents' tokens and catalog
// tokens: see FromAgent and ForCatalog.
func From(ctx context.Context) (domain.Scope, error) {
	scope, err := ForCatalog(ctx)
	if err == nil && scope.CatalogOnly() {
		return domain.Scope{}, domain.Errorf(domain.CodeForbidden, "This token is valid only for the catalog of tables, /api/v1/iceberg; use an API key.")
	}
	return scope, err
}

// ForCatalog is From for the catalog of tables. It also accepts catalog tokens, such as those of
// engines.
func ForCatalog(ctx context.Context) (domain.Scope, error) {
	scope, err := from(ctx)
	if err == nil && scope.Role() == domain.RoleAgent {
		return domain.Scope{}, domain.Errorf(domain.CodeForbidden, "An agent's token is valid only for the agent's connection.")
	}
	return scope, err
}

// FromAgent is From for the agent channel, which accepts only agents' tokens.
func FromAgent(ctx context.Context) (domain.Scope, error) {
	scope, err := from(ctx)
	if err == nil && scope.Role() != domain.RoleAgent {
		return domain.Scope{}, domain.Errorf(domain.CodeForbidden, "Only an agent's token opens this connection.")
	}
	return scope, err
}

func from(ctx context.Context) (domain.Scope, error) {
	res, ok := ctx.Value(resultKey).(result)
	if !ok {
		return domain.Scope{}, errEnded()
	}
	return res.scope, res.err
}

// With returns a context in which From returns the scope. WebSockets use it, because their
// credential comes in the first message.
func With(ctx context.Context, scope domain.Scope) context.Context {
	return context.WithValue(ctx, resultKey, result{scope: scope})
}

// exchange is the HTTP request in progress, for setting and clearing the console's cookie.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

// SetCookie sets the console's session cookie. The request must carry ConsoleHeader, which only our
// pages send.
func SetCookie(ctx context.Context, in SignedIn) {
	x, ok := ctx.Value(requestKey).(*exchange)
	if !ok || x.r.Header.Get(ConsoleHeader) == "" {
		return
	}
	c := newCookie(x.r, in.Secret)
	c.Expires = in.Session.ExpiresAt
	http.SetCookie(x.w, c)
}

// ClearCookie deletes the console's session cookie.
func ClearCookie(ctx context.Context) {
	if x, ok := ctx.Value(requestKey).(*exchange); ok {
		c := newCookie(x.r, "")
		c.MaxAge = -1
		http.SetCookie(x.w, c)
	}
}

func newCookie(r *http.Request, value string) *http.Cookie {
	c := &http.Cookie{Name: CookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true}
	if !Secure(r) {
		c.Name, c.Secure = plainCookieName, false
	}
	return c
}

// ClientAddress returns the address that the request came from, for rate limits.
func ClientAddress(ctx context.Context) string {
	if x, ok := ctx.Value(requestKey).(*exchange); ok {
		return hostOf(x.r.RemoteAddr)
	}
	return ""
}
