package auth

import (
	"net"
	"net/http"
	"net/netip"
)

// Secure says whether a browser sends a Secure cookie back on this connection: over TLS, which a trusted proxy may have ended (it then sets
// r.URL.Scheme), or to this very machine.
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
