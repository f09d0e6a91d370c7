package auth

import (
	"net"
	"net/http"
	"net/netip"
)

// Secure reports whether browsers send Secure cookies on this connection: over TLS, or to
// localhost. If a trusted proxy ended TLS, it sets r.URL.Scheme.
func Secure(r *http.Request) bool {
	if r.TLS != nil || r.URL.Scheme == "https" {
		return true
	}
	host := hostOf(r.Host)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}
