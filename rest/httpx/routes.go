package httpx

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// OwnRoutes serves root with its own routing state, whatever router it is mounted in: chi would
// continue with the outer state. The outer router receives the route's pattern. path is the path to
// route by; nil means the request's path.
func OwnRoutes(root chi.Router, path func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := chi.NewRouteContext()
		own.Routes = root
		if path != nil {
			own.RoutePath = path(r)
		}
		if outer := chi.RouteContext(r.Context()); outer != nil {
			defer func() { outer.RoutePatterns = own.RoutePatterns }()
		}
		root.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, own)))
	})
}
