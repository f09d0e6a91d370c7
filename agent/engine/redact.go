package engine

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// addresses holds the addresses of the engine's catalog connections. They are removed from each
// message, profile and log that leaves the engine.
type addresses struct{ known sync.Map }

// add adds an address (host:port).
func (a *addresses) add(address string) { a.known.Store(address, true) }

var loopback = regexp.MustCompile(`(https?://)?127\.0\.0\.1:[0-9]{1,5}`)

// redact replaces the addresses in a text with "catalog".
func (a *addresses) redact(text []byte) []byte {
	if !bytes.Contains(text, []byte("127.0.0.1:")) {
		return text
	}
	return loopback.ReplaceAllFunc(text, func(found []byte) []byte {
		if _, ours := a.known.Load(string(found[bytes.IndexByte(found, '1'):])); !ours {
			return found
		}
		if bytes.HasPrefix(found, []byte("http")) {
			return []byte("catalog:")
		}
		return []byte("catalog")
	})
}

func (a *addresses) redactString(text string) string {
	if !strings.Contains(text, "127.0.0.1:") {
		return text
	}
	return string(a.redact([]byte(text)))
}

// redacted is a log handler that removes the addresses.
type redacted struct {
	slog.Handler
	*addresses
}

// Handle implements slog.Handler.
func (r redacted) Handle(ctx context.Context, said slog.Record) error {
	clean := slog.NewRecord(said.Time, said.Level, r.redactString(said.Message), said.PC)
	said.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(r.attr(a))
		return true
	})
	return r.Handler.Handle(ctx, clean)
}

// attr returns an attribute without the addresses. A non-scalar value becomes redacted text.
func (r redacted) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString, slog.KindAny:
		if text := a.Value.String(); strings.Contains(text, "127.0.0.1:") {
			a.Value = slog.StringValue(r.redactString(text))
		}
	case slog.KindGroup:
		all := make([]slog.Attr, len(a.Value.Group()))
		for i, inner := range a.Value.Group() {
			all[i] = r.attr(inner)
		}
		a.Value = slog.GroupValue(all...)
	}
	return a
}

// WithAttrs implements slog.Handler.
func (r redacted) WithAttrs(all []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(all))
	for i, a := range all {
		clean[i] = r.attr(a)
	}
	return redacted{r.Handler.WithAttrs(clean), r.addresses}
}

// WithGroup implements slog.Handler.
func (r redacted) WithGroup(name string) slog.Handler {
	return redacted{r.Handler.WithGroup(name), r.addresses}
}
