package auth_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millpond/millpond/domain"
	"github.com/millpond/millpond/domain/auth"
)

func request(host string, secure bool) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host = host
	if secure {
		r.TLS = &tls.ConnectionState{}
	}
	return r
}

func TestBearers(t *testing.T) {
	i := newInstance(t)
	in, _, _ := i.workspace("one")
	for header, want := range map[string]domain.Code{
		"Bearer " + in.Token: "", "bearer " + in.Token: "", "BEARER  " + in.Token + " ": "",
		"": domain.CodeUnauthenticated, "Bearer": domain.CodeUnauthenticated, "Bearer ": domain.CodeUnauthenticated, in.Token: domain.CodeUnauthenticated,
		"Basic " + in.Token: domain.CodeUnauthenticated, "Bearer x": domain.CodeUnauthenticated, "Bearer " + in.Secret: domain.CodeUnauthenticated,
	} {
		r := request("millpond.example.com", true)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		_, _, err := i.serve(r, false, nil)
		require.Equal(t, want, code(err), "%.20q", header)
	}
	_, err := auth.From(context.Background())
	require.Equal(t, domain.CodeUnauthenticated, code(err))
	scope, err := auth.From(auth.With(context.Background(), i.scope(in.Token)))
	require.NoError(t, err)
	require.Equal(t, domain.RoleAdmin, scope.Role())
	engine := auth.With(context.Background(), domain.NewScope(scope.Workspace(), domain.Actor{Kind: domain.ActorStatement, ID: "stm_1"}, domain.RoleEditor).ForCatalog())
	_, err = auth.From(engine)
	require.Equal(t, domain.CodeForbidden, code(err), "a statement's token is for the catalog alone")
	scope, err = auth.ForCatalog(engine)
	require.NoError(t, err)
	require.Equal(t, domain.RoleEditor, scope.Role())
	_, err = auth.ForCatalog(auth.With(context.Background(), domain.NewScope(scope.Workspace(), domain.Actor{Kind: domain.ActorAgent}, domain.RoleAgent)))
	require.Equal(t, domain.CodeForbidden, code(err))
}

// TestCookies checks that scripts cannot read the cookie and other hosts cannot plant it. It counts
// only where cookies are allowed, and a bearer token takes precedence.
func TestCookies(t *testing.T) {
	i := newInstance(t)
	in, _, _ := i.workspace("one")
	for name, c := range map[string]struct {
		host   string
		tls    bool
		cookie string
		secure bool
	}{
		"TLS":           {"millpond.example.com", true, "__Host-millpond", true},
		"this machine":  {"localhost:8080", false, "__Host-millpond", true},
		"loopback":      {"127.0.0.1:8080", false, "__Host-millpond", true},
		"loopback, 6":   {"[::1]:8080", false, "__Host-millpond", true},
		"a plain host":  {"millpond.lan:8080", false, "millpond", false},
		"looks like it": {"localhost.evil.example:80", false, "millpond", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(c.host, c.tls)
			_, answer, _ := i.serve(r, true, func(ctx context.Context) { auth.SetCookie(ctx, in) })
			require.Empty(t, answer.Cookies(), "only a page of ours gets one")
			r.Header.Set(auth.ConsoleHeader, "millpond")
			_, answer, _ = i.serve(r, true, func(ctx context.Context) { auth.SetCookie(ctx, in) })
			require.Len(t, answer.Cookies(), 1)
			got := answer.Cookies()[0]
			require.Equal(t, c.cookie, got.Name)
			require.Equal(t, c.secure, got.Secure)
			require.True(t, got.HttpOnly)
			require.Equal(t, http.SameSiteLaxMode, got.SameSite)
			require.Equal(t, "/", got.Path)
			require.Empty(t, got.Domain)
			require.WithinDuration(t, in.Session.ExpiresAt, got.Expires, 1e9)

			r = request(c.host, c.tls)
			r.AddCookie(&http.Cookie{Name: got.Name, Value: got.Value})
			scope, _, err := i.serve(r, true, nil)
			require.NoError(t, err)
			require.Equal(t, "one@example.com", scope.Actor().Name)
			_, _, err = i.serve(r, false, nil)
			require.Equal(t, domain.CodeUnauthenticated, code(err), "where cookies do not count")
			r.Header.Set("Authorization", "Bearer nonsense")
			_, _, err = i.serve(r, true, nil)
			require.Equal(t, domain.CodeUnauthenticated, code(err), "a bearer that does not hold is not made good by a cookie")

			r = request(c.host, c.tls)
			other := map[string]string{"__Host-millpond": "millpond", "millpond": "__Host-millpond"}[got.Name]
			r.AddCookie(&http.Cookie{Name: other, Value: got.Value})
			_, _, err = i.serve(r, true, nil)
			require.Equal(t, domain.CodeUnauthenticated, code(err), "a cookie of the other name can be planted by another host")

			_, answer, _ = i.serve(request(c.host, c.tls), true, auth.ClearCookie)
			require.Equal(t, got.Name, answer.Cookies()[0].Name)
			require.Negative(t, answer.Cookies()[0].MaxAge)
		})
	}
}

func TestAddresses(t *testing.T) {
	i := newInstance(t)
	for remote, want := range map[string]string{"10.1.2.3:4567": "10.1.2.3", "[fe80::1]:80": "fe80::1"} {
		r := request("h", false)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", "6.6.6.6")
		var got string
		_, _, _ = i.serve(r, false, func(ctx context.Context) { got = auth.ClientAddress(ctx) })
		require.Equal(t, want, got)
	}
	require.Empty(t, auth.ClientAddress(context.Background()))
}
