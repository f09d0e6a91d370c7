package rest

import (
	"encoding/base64"
	"testing"
)

// A cursor is opaque, but a client can forge one.
func TestForgedCursors(t *testing.T) {
	w := newWorld(t)
	for _, forged := range []string{
		`{"l":"members","k":"\u0000"}`, `{"l":"agents","k":"\ufffd\u0000"}`, `{"l":"members"`, `{"l":1}`, `null`, `[]`,
	} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(forged))
		for _, list := range []string{"/settings/members", "/settings/agents", "/settings/quotas"} {
			if r := w.call(w.ours.admin, "GET", list+"?cursor="+cursor, nil); r.status != 400 {
				t.Errorf("%s with %s: %d %s", list, forged, r.status, r.body)
			}
		}
	}
}
